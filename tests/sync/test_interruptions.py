"""A first build that is interrupted in the middle of a batch keeps what was encoded, and says so."""

import re
import signal
from pathlib import Path

import pytest
from progress_samples import texts, use
from samples import Program, write_catalog
from sync.forks import Child, Fault, Forks, models
from sync.state import Fresh, contents

from retrieve_cli.storage import pickles

COUNT = 120
HALF = 60
"""Texts that are encoded when the signal comes."""


@pytest.fixture
def source(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog, to be encoded by a small model."""
    use(model, monkeypatch)
    return write_catalog(tmp_path / "tools.jsonl", texts(COUNT))


def kept(kind: str) -> int:
    """Texts in the cache."""
    return sum(len(pickles.load(path)["starts"]) - 1 for path in Path("artifacts/cache").glob(f"*.{kind}/*.pkl"))


def interrupted(forks: Forks, number: int, *flags: str, after: int = HALF) -> Child:
    """A build that got a signal in the middle of its only batch, at its end."""
    words = ("build", "--catalog", "tools.jsonl", *flags)
    child = forks.start(int(number), after, *words, call="sync.tasks:signalled", **models())
    child.wait()
    return child


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_an_interrupted_first_build_keeps_and_tells_what_is_encoded_and_the_next_one_encodes_the_rest(
    source: Path, fresh: Fresh, retrieve: Program, forks: Forks, number: signal.Signals, code: int, word: str
) -> None:
    ended = interrupted(forks, number)
    assert ended.code == code
    sentence = rf"^error: {word}: (\d+) chunks encoded and kept; run the same command to continue$"
    [done] = re.findall(sentence, ended.err, re.MULTILINE)
    assert int(done) == kept("embeddings") == kept("tokens") == HALF
    assert not list(Path("artifacts").rglob(".*"))
    assert retrieve("build", "--catalog", source, "--json").json["embedded"] == COUNT - HALF
    assert contents(Path("artifacts")) == contents(fresh())


def test_in_json_the_error_says_it(source: Path, forks: Forks) -> None:
    ended = interrupted(forks, signal.SIGINT, "--json")
    assert ended.code == 130
    assert re.search(r'"message": "interrupted: \d+ chunks encoded and kept; run the same', ended.err)
    assert ended.err.count("\n") == 1


def test_a_build_that_is_killed_in_the_middle_of_a_batch_keeps_what_was_written(
    source: Path, fresh: Fresh, retrieve: Program, forks: Forks
) -> None:
    assert interrupted(forks, signal.SIGKILL).code == -signal.SIGKILL
    done = kept("embeddings")
    assert done == HALF // 8 * 8
    assert retrieve("build", "--catalog", source, "--json").json["embedded"] == COUNT - done
    assert contents(Path("artifacts")) == contents(fresh())


def test_an_interruption_while_nothing_is_encoded_says_no_number(source: Path, forks: Forks) -> None:
    (Path("config.yaml")).write_text("dense: {enabled: false}\n")
    fault = Fault(step=2, within=".scratch-", number=signal.SIGINT)
    ended = forks.start("build", "--catalog", source, fault=fault, **models())
    assert ended.wait() == 130
    assert "error: interrupted\nhint: the current index is unchanged" in ended.err
