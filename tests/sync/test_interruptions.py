"""A first build that is interrupted in the middle of a batch keeps what was encoded, and says so."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from progress_samples import start, texts, use
from samples import Program, write_catalog
from splade_models import save_masked
from sync.state import live

from retrieve_cli.storage import pickles

COUNT = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_masked(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def source(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(model, monkeypatch)
    return write_catalog(tmp_path / "tools.jsonl", texts(COUNT))


@pytest.fixture(autouse=True)
def _heeded() -> Iterator[None]:
    """A job in the background ignores SIGINT, and so would what it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def contents(artifacts: Path) -> dict[str, bytes]:
    """The current generation's files, but for the manifest, which says when it was built."""
    folder = artifacts / "generations" / live(artifacts)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


def kept(kind: str) -> int:
    """Texts in the cache."""
    return sum(len(pickles.load(path)["starts"]) - 1 for path in Path("artifacts/cache").glob(f"*.{kind}/*.pkl"))


def interrupted(source: Path, number: signal.Signals, *flags: str, pause: float = 0.05) -> tuple[int, str]:
    """The code of a build that got a signal in the middle of its only batch, and what it said."""
    running = start(pause, "build", "--catalog", source, *flags)
    until = time.monotonic() + 120
    while not kept("embeddings") and time.monotonic() < until:
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    return running.returncode, err.decode()


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_an_interrupted_first_build_keeps_and_tells_what_is_encoded_and_the_next_one_encodes_the_rest(
    source: Path, retrieve: Program, number: signal.Signals, code: int, word: str
) -> None:
    ended, said = interrupted(source, number)
    assert ended == code
    sentence = rf"^error: {word}: (\d+) of {COUNT} chunks are encoded and kept; run the same command to continue$"
    [done] = re.findall(sentence, said, re.MULTILINE)
    assert int(done) == kept("embeddings") == kept("tokens")
    assert 8 <= int(done) < COUNT
    assert not list(Path("artifacts").rglob(".*"))
    assert retrieve("build", "--catalog", source, "--json").json["embedded"] == COUNT - int(done)
    assert retrieve("build", "--catalog", source, "--artifacts", "fresh").code == 0
    assert contents(Path("artifacts")) == contents(Path("fresh"))


def test_a_build_interrupted_twice_counts_what_both_encoded(source: Path, retrieve: Program) -> None:
    interrupted(source, signal.SIGINT)
    before = kept("embeddings")
    running = start(0.05, "build", "--catalog", source)
    until = time.monotonic() + 120
    while kept("embeddings") == before and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert f"{kept('embeddings')} of {COUNT} chunks are encoded and kept" in err.decode()
    assert retrieve("build", "--catalog", source, "--json").json["records"] == COUNT


def test_in_json_the_error_says_it(source: Path) -> None:
    code, said = interrupted(source, signal.SIGINT, "--json")
    assert code == 130
    assert re.search(r'"message": "interrupted: \d+ of 120 chunks are encoded and kept; run the same', said)
    assert said.count("\n") == 1


def test_a_build_that_is_killed_in_the_middle_of_a_batch_keeps_what_was_written(
    source: Path, retrieve: Program
) -> None:
    assert interrupted(source, signal.SIGKILL)[0] == -signal.SIGKILL
    done = kept("embeddings")
    assert done >= 8
    assert retrieve("build", "--catalog", source, "--json").json["embedded"] == COUNT - done
    assert retrieve("build", "--catalog", source, "--artifacts", "fresh").code == 0
    assert contents(Path("artifacts")) == contents(Path("fresh"))


def test_a_complete_batch_replaces_the_files_of_its_parts(source: Path) -> None:
    done = start(0.01, "build", "--catalog", source)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert len(list(Path("artifacts/cache").glob("*.embeddings/*"))) == 1
    assert len(list(Path("artifacts/cache").glob("*.tokens/*"))) == 1


def test_an_interruption_while_nothing_is_encoded_says_no_number(source: Path) -> None:
    (Path("config.yaml")).write_text("dense: {enabled: false}\n")
    write_catalog(source, texts(60_000))
    running = start(0.0, "build", "--catalog", source)
    until = time.monotonic() + 60
    while not any(Path("artifacts/generations").glob(".scratch-*/*")) and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert "error: interrupted\nhint: the current index is as it was" in err.decode()


def test_term_weights_of_an_interrupted_build_are_kept(
    source: Path, model: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SPLADE__MODEL", str(model))
    running = start(0.0, "build", "--catalog", source)
    until = time.monotonic() + 120
    while not kept("weights") and running.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    if running.returncode == 0:
        pytest.skip("it was done before it could be interrupted")
    found = kept("weights")
    assert f"{found} of {COUNT} chunks are encoded and kept" in err.decode()
    done = retrieve("build", "--catalog", source)
    assert f"splade: {COUNT - found} of {COUNT} texts encoded" in done.err
    assert retrieve("build", "--catalog", source, "--artifacts", "fresh").code == 0
    assert contents(Path("artifacts")) == contents(Path("fresh"))
