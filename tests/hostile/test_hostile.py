"""Whatever the program is given, it ends as the contract says: a fixed sample of the attacks of `make fuzz`.

The attacks and what is held to are described in `generators.py`, `checks.py` and `running.py`.
"""

from collections.abc import Iterator
from random import Random

import pytest
from hostile.generators import GENERATORS, attack
from hostile.shrinking import shrunk
from hostile.tries import Try
from hostile.worker import HarnessError, Worker
from waiting import PATIENCE_S

SAMPLE = dict.fromkeys(GENERATORS, 22) | {"flips": 30, "kills": 6}
BATCH = 11
SEED = "sample"


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """The process that runs the program."""
    place = Worker()
    yield place
    place.close()


@pytest.fixture(scope="session")
def planted() -> Iterator[Worker]:
    """A process that runs a program with every fault."""
    place = Worker("--call", "hostile.planted:run")
    yield place
    place.close()


BATCHES = [(category, start) for category, count in SAMPLE.items() for start in range(0, count, BATCH)]


@pytest.mark.parametrize(("category", "start"), BATCHES)
def test_no_attack_of_the_sample_finds_anything(worker: Worker, category: str, start: int) -> None:
    found = []
    for number in range(start, min(start + BATCH, SAMPLE[category])):
        answer = worker.ask(category=category, seed=f"{SEED}-{number}", wall=PATIENCE_S)
        found += [(f"{SEED}-{number}", one["signature"], one["what"], one["command"]) for one in answer["findings"]]
    assert found == []


def test_the_sample_has_three_hundred_tries() -> None:
    assert sum(SAMPLE.values()) >= 300


@pytest.mark.parametrize("category", GENERATORS)
def test_a_seed_always_gives_the_same_attack_and_its_text_makes_it_again(category: str) -> None:
    one = attack(category, "7")
    assert repr(attack(category, "7")) == repr(one)
    again = eval(repr(one), {"Try": Try, "inf": float("inf"), "nan": float("nan")})
    assert repr(again) == repr(one)


# --------------------------------------------------------------------------------------- the harness finds faults

JSON_ERROR = '{"error": {"code": 2, "kind": "usage", "message": "x", "hint": "y"}}'


@pytest.mark.parametrize(
    ("command", "signature"),
    [
        (("crash",), "signal: ended by SIGSEGV"),
        (("spin",), "cpu: more than"),
        (("allocate",), "memory: more memory than"),
        (("flood",), "limit: more than _ MB of output"),
        (("raise",), "internal: Traceback"),
        (("bug",), "internal: this is a bug"),
        (("warn",), "warning: "),
        (("execute",), "executed: "),
        (("code", "77"), "code: exit code"),
        (("code", "2"), "form: no line of error"),
        (("code", "2", "--json"), "form: no error in JSON"),
        (("say", "3", JSON_ERROR.replace("2", "7") + "\x1b[0m", "--json"), "terminal: "),
        (("say", "4", JSON_ERROR, "--json"), "form: the error does not fit"),
        (("print", "\x1b[31mred"), "terminal: "),
        (("print", '"\x9b31m"', "--json"), "terminal: "),
        (("print", "a\u202eb"), "terminal: "),
        (("print", '{"a": NaN}', "--json"), "form: "),
        (("print", "a,=cmd|'/C calc'!A0\r\n", "--format", "csv"), "formula: "),
    ],
)
def test_a_planted_fault_is_found(planted: Worker, command: tuple[str, ...], signature: str) -> None:
    answer = planted.ask(attack=repr(Try("planted", (command,))))
    assert [one["signature"] for one in answer["findings"] if one["signature"].startswith(signature)], answer


def test_a_command_that_does_not_end_is_found(planted: Worker) -> None:
    answer = planted.ask(attack=repr(Try("planted", (("sleep",),))), wall=1)
    assert [one["signature"] for one in answer["findings"]] == ["limit: no end within _ s by sleep"]


def test_a_worker_that_is_ended_says_so_and_is_there_again() -> None:
    worker = Worker("--call", "hostile.planted:run")
    try:
        with pytest.raises(HarnessError, match="ended with -9"):
            worker.ask(attack=repr(Try("planted", (("parent",),))))
        assert worker.ask(attack=repr(Try("planted", (("code", "0"),))))["findings"] == []
    finally:
        worker.close()


@pytest.mark.parametrize(
    "command",
    [
        ("code", "0"),
        ("code", "130"),
        ("say", "2", "error: no\nhint: yes\n"),
        ("say", "2", JSON_ERROR, "--json"),
        ("print", "a\tb\né\u4e2d\n"),
        ("print", '{"a": "\\u009b"}', "--json"),
        ("print", "a,-1.5e3\r\n", "--format=csv"),
    ],
)
def test_what_is_as_it_should_be_is_no_finding(planted: Worker, command: tuple[str, ...]) -> None:
    assert planted.ask(attack=repr(Try("planted", (command,))))["findings"] == []


def test_what_is_found_is_made_small() -> None:
    lines = b"".join(b"line %d\n" % number for number in range(200))
    large = Try(
        "x", (("a",), ("b", "c" * 50, "--flag")), {"one": lines + b"!" + lines, "two": b"x", "three": ("fifo",)}
    )
    small = shrunk(
        large, lambda one: "b" in one.commands[-1] and b"!" in one.files.get("one", b""), most=2000, seconds=PATIENCE_S
    )
    assert (small.commands, small.files) == ((("b",),), {"one": b"!"})


def test_shrinking_ends_after_a_bounded_number_of_attempts() -> None:
    attempts = []
    large = Try("x", (("a",),), {"one": Random(0).randbytes(5000)})
    shrunk(large, lambda one: bool(attempts.append(one)), most=20)
    assert len(attempts) == 20
