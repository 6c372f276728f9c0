"""No test depends on the speed of the machine: waiting is polling for a state, with one limit for what hangs."""

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import waiting
from tiers import FOLDER

BOUNDED = set(
    "run call check_call check_output communicate wait join result get post put request urlopen create_connection"
    " Barrier HTTPConnection acquire".split()
)
"""Functions whose `timeout` is a limit for hangs."""
CLOCKS = re.compile(r"\b(monotonic|perf_counter|process_time|thread_time)(_ns)?\(")
SUSPECT = re.compile(rf"sleep\(|timeout=\s*[-.\d]|\b(wait|join|alarm)\([^()]*\d|{CLOCKS.pattern}")
"""Files without any of these need not be parsed."""


def haste(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines that sleep, assert a duration, or give up after a number of seconds that is written there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and _reads_a_clock(node.test) and any(map(_is_number, ast.walk(node))):
            yield node.lineno, "asserts a duration: compare it with that of a peer in the same run"
        if not isinstance(node, ast.Call):
            continue
        name = _called(node)
        numbers = [value.value for value in node.args if isinstance(value, ast.Constant) and _is_number(value)]
        limits = [key for key in node.keywords if key.arg == "timeout" and _is_number(key.value)]
        if name == "sleep" and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep") and numbers != [0]:
            yield node.lineno, "sleeps: wait for a state with waiting.until, or say why with waiting.pause"
        if (name in BOUNDED and limits) or (name in ("wait", "join", "alarm") and any(numbers)):
            yield node.lineno, f"gives {name} a limit of its own: use waiting.PATIENCE_S"


def _called(node: ast.Call) -> str:
    """Return the last name of what is called; of any other expression nothing."""
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def _reads_a_clock(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) and CLOCKS.match(f"{_called(each)}(") for each in ast.walk(node))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def test_no_file_of_the_suite_sleeps_asserts_a_duration_or_has_limits_of_its_own() -> None:
    found = []
    for path in sorted(FOLDER.rglob("*.py")):
        text = path.read_text("utf-8")
        if path.name != "waiting.py" and path.parent != Path(__file__).parent and SUSPECT.search(text):
            found += [f"{path.relative_to(FOLDER)}:{line} {what}" for line, what in haste(ast.parse(text))]
    assert found == []


@pytest.mark.parametrize(
    ("code", "hasty"),
    [
        ("time.sleep(0.1)", True),
        ("time.sleep(seconds)", True),
        ("await asyncio.sleep(0.01)", True),
        ("await asyncio.sleep(0)", False),
        ("process.communicate(timeout=60)", True),
        ("process.communicate(timeout=PATIENCE_S)", False),
        ("thread.join(10)", True),
        ("event.wait(PATIENCE_S)", False),
        ("','.join(['a'])", False),
        ("signal.alarm(20)", True),
        ("signal.alarm(0)", False),
        ("Client(timeout=0.1)", False),
        ("assert time.process_time() - began < 5", True),
        ("assert time.monotonic() >= clock.until", False),
    ],
)
def test_haste_is_recognised(code: str, hasty: bool) -> None:
    assert bool(list(haste(ast.parse(code)))) is hasty
    assert SUSPECT.search(code) or not hasty


def test_a_state_is_asked_for_until_it_holds_and_returned() -> None:
    states = iter([None, [], "there"])
    assert waiting.until(lambda: next(states), "it") == "there"


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by 1 s each time that it is read, and a patience of 10 s."""
    seconds = itertools.count()
    monkeypatch.setattr(waiting, "PATIENCE_S", 10.0)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)


@pytest.mark.usefixtures("_impatient")
def test_what_never_comes_is_named_with_its_last_value() -> None:
    with pytest.raises(AssertionError, match=r"waited 10 s for the file; it is \[\]"):
        waiting.until(list, "the file")


@pytest.mark.usefixtures("_impatient")
def test_patience_begins_again_with_each_step_of_progress() -> None:
    steps = itertools.count()
    assert waiting.until(lambda: next(steps) > 50, progress=lambda: next(steps))


def test_a_process_that_ends_too_early_is_a_failure_with_its_exit_code(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(AssertionError, match="ended with 3 before the file is there"):
        waiting.brought_about(process, (tmp_path / "file").exists, "the file is there")


def test_patience_is_multiplied_on_request() -> None:
    code = "import waiting; print(waiting.PATIENCE_S)"
    environment = {"TEST_PATIENCE": "4", "PYTHONPATH": str(FOLDER)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == 1200.0
