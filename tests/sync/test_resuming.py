"""Killed, damaged or out of room: tokens and term weights that were cached are not computed again, and never wrong."""

import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog
from sync.forks import Fault, Forks, Nursery, models
from sync.state import Fresh, contents

from retrieve_cli.ingest import encodings
from retrieve_cli.storage import pickles

BATCH = 16


@pytest.fixture(scope="module")
def nursery(weighing_nursery: Nursery) -> Nursery:
    """The process whose forks run the program."""
    return weighing_nursery


@pytest.fixture(autouse=True)
def _encoders(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens and term weights by the small model, in batches of sixteen texts."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    monkeypatch.setenv("RETRIEVE_ENCODER__MODEL", str(model))
    monkeypatch.setenv("RETRIEVE_SPLADE__MODEL", str(model))
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(model.parent / "cache"))
    monkeypatch.setattr(encodings, "BATCH", BATCH)
    monkeypatch.setattr(encodings, "KEPT", 1)


def tools(count: int = 100, version: int = 0) -> list[dict[str, Any]]:
    """Texts of many lengths; every tenth is the same as the one before."""
    numbers = [number - (number % 10 == 9) for number in range(count)]
    texts = [f"segment lungs {number} " + "word the " * (number % 9) + f"v{version}" for number in numbers]
    return [{"id": f"t{at}", "name": "tool", "description": text} for at, text in enumerate(texts)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "tools.jsonl", tools())


DISTINCT = 90
KINDS = ("tokens", "weights")
Cached = dict[str, set[bytes]]


def cached(artifacts: Path) -> Cached:
    """The texts whose tokens and vectors, and whose term weights, are in files that are whole."""
    keys: Cached = {}
    for kind in ("embeddings", *KINDS):
        joined = b"".join(pickles.load(path)["keys"].tobytes() for path in artifacts.glob(f"cache/*.{kind}/*.pkl"))
        keys[kind] = {joined[at : at + 20] for at in range(0, len(joined), 20)}
    # Killed between a batch's vectors and its tokens: those texts go through the encoder again, for their tokens.
    return {"tokens": keys["tokens"] & keys["embeddings"], "weights": keys["weights"]}


def weighed(said: str) -> tuple[int, int]:
    """How many texts went through the SPLADE encoder, and of how many."""
    [found] = re.findall(r"splade: (\d+) of (\d+) texts encoded", said)
    return int(found[0]), int(found[1])


# ------------------------------------------------------------------------------------------------------- kills


def killed(step: int, source: Path, log: Path, forks: Forks) -> Iterator[tuple[str, bytes]]:
    """Runs a build up to one of its steps; what it began to encode, by kind. Nothing where it came to its end."""
    log.unlink(missing_ok=True)
    fault = Fault(step=step, within="artifacts/cache")
    done = forks.start(BATCH, log, "build", "--catalog", source, call="sync.tasks:logged", fault=fault, **models())
    assert done.wait() in (0, -signal.SIGKILL), done.err
    for line in log.read_text().splitlines() if log.exists() else ():
        kind, key = line.split()
        yield kind, bytes.fromhex(key)


def test_a_build_killed_again_and_again_computes_nothing_twice_that_was_kept(
    source: Path, forks: Forks, tmp_path: Path, fresh: Fresh
) -> None:
    artifacts, built, point = tmp_path / "artifacts", fresh(), random.Random(0)
    known: Cached = {kind: set() for kind in KINDS}
    goings_on = dict.fromkeys(KINDS, 0)
    while not (artifacts / "current").exists():
        encoded = list(killed(point.randint(12, 40), source, tmp_path / "log", forks))
        after = cached(artifacts)
        for kind in KINDS:
            mine = [key for each, key in encoded if each == kind]
            assert len(mine) == len(set(mine))
            assert not known[kind] & set(mine)
            goings_on[kind] += bool(known[kind] and mine)
            if not (artifacts / "current").exists():
                assert known[kind] <= after[kind] <= known[kind] | set(mine)
        known = after
    assert all(goings_on.values()), "a build went on with tokens, and one with weights"
    # The last one may have been killed while it removed the cache.
    log = tmp_path / "log"
    done = forks.start(BATCH, log, "build", "--catalog", source, call="sync.tasks:logged", **models())
    assert done.wait() == 0, done.err
    assert not list(artifacts.glob("cache/*")), "the index has everything"
    assert contents(artifacts) == contents(built)
    assert not list(artifacts.rglob(".*"))


def test_a_sync_encodes_only_what_is_new_and_equals_a_fresh_build(
    source: Path, fresh: Fresh, retrieve: Program
) -> None:
    before = tools(30)
    assert retrieve("build", "--catalog", write_catalog(source, before)).code == 0
    renamed = [{**tool, "id": f"new-{tool['id']}"} for tool in before]
    several = [{**renamed[7], "id": f"again{number}"} for number in range(3)]
    edited = [{**renamed[20], "description": "denoise brains"}]
    mixed = edited + renamed[5:20] + renamed[21:] + several
    for catalog, new in ((renamed[::-1], 0), (mixed, 1), (several + before, 0)):
        write_catalog(source, catalog)
        done = retrieve("sync", "-v")
        assert done.code == 0, done.err
        assert weighed(done.err)[0] == new
        assert retrieve("sync", "--verify").code == 0
    assert retrieve("sync", "--compact").code == 0
    assert contents(Path("artifacts")) == contents(fresh())


def test_weights_are_used_again_for_the_same_card_alone(
    source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    assert weighed(retrieve("build", "--catalog", source).err)[0] == DISTINCT
    monkeypatch.setenv("RETRIEVE_SPLADE__MIN_WEIGHT", "0.2")
    assert weighed(retrieve("build", "--catalog", source).err)[0] == DISTINCT
    assert weighed(retrieve("build", "--catalog", source).err)[0] == 0
