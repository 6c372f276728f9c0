"""The order of expansion and reranking, and what `rerank.keep` passes on: nothing that the reranker has not judged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graph_samples import SINGLE_CELL
from models.remote.servers import Api, Asked, running
from program.asking import Configure
from samples import Program, write_catalog

QUERY = "scRNA-seq clustering"


def liked(asked: Asked) -> Any:
    """Answers as a rerank endpoint that likes what mentions atlases."""
    scores = [float("atlases" in text) + 1 / (9 + at) for at, text in enumerate(asked.json["documents"])]
    return {"results": [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]}


@pytest.fixture
def reranker(configure: Configure) -> Iterator[Api]:
    """A server of a reranker, which is configured as the one to ask."""
    for api in running():
        api.respond = liked
        configure("rerank", backend="remote", model="atlas", interpolate=1, retries=0, base_url=api.url)
        yield api


def texts(reranker: Api) -> list[str]:
    """What the reranker was given last."""
    return list(reranker.last.json["documents"])


@pytest.fixture(autouse=True)
def cells(tmp_path: Path, retrieve: Program, reranker: Api, configure: Configure) -> None:
    """An index of tools for single cells; few candidates, so that most come in by edges alone."""
    configure("expansion", placement="blend")
    config = "search: {depth: 2}\nfusion: {weights: {dense: 0}}\nencoder: {kind: hashed}\n"
    Path("config.yaml").write_text(config)
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "cells.jsonl", SINGLE_CELL)).code == 0


def asked(retrieve: Program, *flags: object, **keys: object) -> dict[str, Any]:
    """The answer, the names in it, and what is said beside it in text."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in keys.items():
            patch.setenv(f"RETRIEVE_{key}", str(value))
        done, told = (retrieve("query", QUERY, *flags, *form) for form in (["--json"], []))
    assert (done.code, told.code) == (0, 0), done.err
    return {"names": [hit["name"] for hit in done.json["results"]], "said": told.err, **done.json}


def answer(retrieve: Program, **keys: object) -> dict[str, Any]:
    """An answer by BM25, reranked and expanded."""
    return asked(retrieve, "--mode", "bm25", "--rerank", "--expand", **keys)


def test_before_the_reranker_linked_records_are_judged_by_their_texts(retrieve: Program, reranker: Api) -> None:
    behind = answer(retrieve)
    assert behind["pipeline"].endswith("> atlas@50 > expand(5 seeds, 2 steps)")
    assert not any("atlases" in text for text in texts(reranker))
    assert "rerank" not in next(hit for hit in behind["results"] if hit["name"] == "celltypist_annotation")
    before = answer(retrieve, EXPANSION__BEFORE_RERANK="true")
    assert before["pipeline"].endswith("> expand(5 seeds, 2 steps) > atlas@50")
    assert any("atlases" in text for text in texts(reranker))
    first = before["results"][0]
    assert (first["name"], first["rerank"]["scorer"]) == ("celltypist_annotation", "atlas")
    assert "←requires—" in first["path"]


@pytest.mark.parametrize("order", ["true", "false"])
def test_what_was_not_judged_never_pads_the_kept_ones(retrieve: Program, order: str) -> None:
    found = answer(retrieve, EXPANSION__BEFORE_RERANK=order, RERANK__KEEP="2")
    assert len(found["names"]) == 2
    assert all("rerank" in hit for hit in found["results"])
    few = answer(retrieve, EXPANSION__BEFORE_RERANK=order, RERANK__KEEP="5", RERANK__DEPTH="1")
    assert len(few["names"]) == 1
    assert all("rerank" in hit for hit in few["results"])


def test_behind_a_reranker_that_keeps_some_nothing_is_added_and_that_is_said(retrieve: Program) -> None:
    found = answer(retrieve, RERANK__KEEP="2")
    assert "expand" not in found["pipeline"]
    assert found["related"] == []
    assert "no linked records" in found["said"]
    assert "no linked records" not in answer(retrieve, RERANK__KEEP="2", EXPANSION__BEFORE_RERANK="true")["said"]


def test_before_the_reranker_linked_records_are_candidates_wherever_others_are_placed(retrieve: Program) -> None:
    blended, appended = (
        answer(retrieve, EXPANSION__BEFORE_RERANK="true", EXPANSION__PLACEMENT=placement)
        for placement in ("blend", "append")
    )
    assert appended["names"] == blended["names"]
    kept = answer(
        retrieve, EXPANSION__BEFORE_RERANK="true", EXPANSION__PLACEMENT="append", RERANK__KEEP="2", RERANK__DEPTH="3"
    )
    assert kept["related"] == []


@pytest.mark.parametrize("order", ["true", "false"])
def test_where_the_reranker_fails_the_first_by_retrieval_score_are_kept_and_that_is_said(
    retrieve: Program, order: str
) -> None:
    keys = {"EXPANSION__BEFORE_RERANK": order, "RERANK__BACKEND": "none"}
    usual = asked(retrieve, **keys)
    gone = {"RERANK__BACKEND": "remote", "RERANK__BASE_URL": "http://127.0.0.1:9/v1", "RERANK__KEEP": "3"}
    found = asked(retrieve, **{**keys, **gone})
    assert "remote" in found["strategies_skipped"]
    assert "the first 3 by retrieval score replace the reranked ones" in found["said"]
    assert len(found["names"]) == 3
    if order == "true":
        assert found["names"] == usual["names"][:3]
        assert any("path" in hit for hit in found["results"])
