"""Whatever the program is given, it ends as the contract says: a sample of generated attacks.

The attacks and what is held to are described in `generators.py` and `checks.py`; `make fuzz` runs others.
"""

import itertools
import time
from collections.abc import Iterator

import pytest
from hostile.generators import GENERATORS, attack
from hostile.running import Runner
from hostile.tries import Try

SAMPLE = dict.fromkeys(GENERATORS, 15) | {"flips": 30}
BATCH = 15
SEED = "sample"


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A runner of the program."""
    made = Runner(tmp_path_factory.mktemp("hostile"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A runner of a program with every fault."""
    made = Runner(tmp_path_factory.mktemp("planted"), call="hostile.child:planted")
    yield made
    made.close()


def found(runner: Runner, category: str, seed: str) -> list[object]:
    """Return what a try finds, with the Python that makes it again."""
    one = attack(category, seed)
    return [(category, seed, finding, repr(one)[:5000]) for finding in runner.run(one)]


BATCHES = [(category, start) for category, count in SAMPLE.items() for start in range(0, count, BATCH)]


@pytest.mark.parametrize(("category", "start"), BATCHES)
def test_no_attack_of_the_sample_finds_anything(runner: Runner, category: str, start: int) -> None:
    seeds = range(start, min(start + BATCH, SAMPLE[category]))
    assert [one for number in seeds for one in found(runner, category, f"{SEED}-{number}")] == []


def test_attacks_of_a_campaign_find_nothing(runner: Runner, pytestconfig: pytest.Config) -> None:
    """`make fuzz`: attacks until the time is over, drawn from a seed."""
    if not (seconds := pytestconfig.getoption("--attack-seconds")):
        pytest.skip("a campaign: make fuzz")
    end, seed = time.monotonic() + seconds, pytestconfig.getoption("--attack-seed")
    findings: list[object] = []
    for number, category in zip(itertools.count(), itertools.cycle(GENERATORS)):
        if time.monotonic() > end:
            break
        findings += found(runner, category, f"{seed}-{number}")
    assert findings == []


# --------------------------------------------------------------------------------------- the harness finds faults

JSON_ERROR = '{"error": {"code": 2, "kind": "usage", "message": "x", "hint": "y"}}'


def out(text: str) -> str:
    return f"os.write(1, {text.encode()!r})"


def end(code: int, text: str = "") -> str:
    return f"os.write(2, {text.encode()!r}); os._exit({code})"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("os.kill(os.getpid(), 11)",), "signal"),
        (("while True: pass",), "cpu"),
        (("raise KeyError",), "internal"),
        (("import warnings; warnings.warn('planted')",), "warning"),
        (("open('canary', 'w').close()",), "executed"),
        (("os.write(1, b'x' * (11 << 20))",), "output"),
        ((end(77),), "code"),
        ((end(2),), "form"),
        ((end(2), "--json"), "form"),
        ((end(4, JSON_ERROR), "--json"), "form"),
        ((end(2, JSON_ERROR + "\x1b[0m"), "--json"), "terminal"),
        ((out("\x1b[31mred"),), "terminal"),
        ((out("a\u202eb"),), "terminal"),
        ((out('{"a": NaN}'), "--json"), "form"),
        ((out("a,=cmd|'/C calc'!A0\r\n"), "--format", "csv"), "formula"),
    ],
)
def test_a_planted_fault_is_found(planted: Runner, command: tuple[str, ...], kind: str) -> None:
    assert kind in {finding.kind for finding in planted.run(Try("planted", (command,)))}


def test_a_command_that_does_not_end_is_found(planted: Runner) -> None:
    planted.wall = 1
    findings = planted.run(Try("planted", (("import signal; signal.pause()",),)))
    assert [finding.kind for finding in findings] == ["limit"]


@pytest.mark.parametrize(
    "command",
    [(end(130),), (end(2, "error: no\nhint: yes\n"),), (end(2, JSON_ERROR), "--json"), (out("a\tb\n\u4e2d\n"),)],
)
def test_what_is_as_it_should_be_is_no_finding(planted: Runner, command: tuple[str, ...]) -> None:
    assert planted.run(Try("planted", (command,))) == []
