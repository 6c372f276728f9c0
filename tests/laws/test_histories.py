"""After any history of its sources, an index answers as one that is built of them from scratch: laws L1 to L3."""

from __future__ import annotations

from pathlib import Path

import pytest
from laws.history import History, drawn
from profiles import NIGHTLY
from samples import Program

PLAIN, ALL = ("bm25", "dense"), ("bm25", "dense", "splade")


def test_a_short_history(retrieve: Program, tmp_path: Path) -> None:
    edits = ["edit", "add", "remove", "rename", "duplicate", "move", "write_document", "put"]
    steps = [(kind, number) for number, kind in enumerate([*edits, "sync", "damage", "put", "drop", *edits])]
    History(retrieve, tmp_path / "world", PLAIN).follow(steps)


@pytest.mark.parametrize("seed", range(100 if NIGHTLY else 8))
def test_any_history(seed: int, retrieve: Program, tmp_path: Path) -> None:
    History(retrieve, tmp_path / "world", PLAIN, seed=seed).follow(drawn(seed))


@pytest.mark.parametrize("seed", range(100, 150 if NIGHTLY else 103))
def test_any_history_with_scores_of_chunks_and_one_generation_kept(
    seed: int, retrieve: Program, tmp_path: Path
) -> None:
    history = History(retrieve, tmp_path / "world", PLAIN, seed=seed, bm25={"unit": "chunk"}, store={"keep": 1})
    history.follow(drawn(seed))


@pytest.mark.parametrize("seed", range(200, 220 if NIGHTLY else 202))
def test_any_history_with_term_weights_and_tokens(
    seed: int, retrieve: Program, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    models = {
        "encoder": {"kind": "onnx", "model": str(model)},
        "splade": {"model": str(model)},
        "models": {"cache_dir": str(tmp_path / "exports")},
    }
    History(retrieve, tmp_path / "world", ALL, seed=seed, **models).follow(drawn(seed)[:16])
