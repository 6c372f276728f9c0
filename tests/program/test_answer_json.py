"""What the JSON of an answer counts and says of its results: each number is held to what other queries find."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cross_models import make_bert
from golden.corpora import TOOLS
from program.asking import Configure
from samples import Program, write_catalog

Rerank = Callable[[str], None]
ALONE = ("--no-expand", "--no-rerank")
TEXTS = ("scan", "count cells in microscopy images", "segment lungs and ribs in chest CT", "zebra", "removes noise")


@pytest.fixture
def _shallow(configure: Configure) -> None:
    """Three candidates of each retriever, and no query is put in fewer words."""
    configure("search", depth=3)
    configure("broadening", max_retries=0)


@pytest.fixture
def tools(_shallow: None, tmp_path: Path, retrieve: Program) -> Path:
    """An index of tools of several groups and owners, some of them in several chunks."""
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    return Path("artifacts")


def answered(retrieve: Program, *words: str) -> dict[str, Any]:
    done = retrieve("query", *words, *ALONE, "--json")
    assert done.code == 0, done
    return dict(done.json)


def ids(retrieve: Program, mode: str, k: int, *words: str) -> set[str]:
    found = answered(retrieve, *words, "--mode", mode, "-k", str(k))
    return {result["id" if "--chunks" in words else "doc_id"] for result in found["results"]}


NARROWED = [
    (),
    ("--filter", "license=MIT"),
    ("--filter", "!group=radiology"),
    ("--tenant", "acme"),
    ("--doc-id", "cells", "--doc-id", "brain"),
    ("--chunks",),
    ("--chunks", "--tenant", "globex"),
]


@pytest.mark.parametrize("narrowed", NARROWED, ids=" ".join)
def test_matches_share_a_term_or_are_among_the_nearest_and_those_on_the_lists_are_considered(
    tools: Path, narrowed: tuple[str, ...], retrieve: Program
) -> None:
    for text in TEXTS:
        found = answered(retrieve, text, "-k", "2", *narrowed)
        by_terms = ids(retrieve, "bm25", 1000, text, *narrowed)
        nearest = ids(retrieve, "dense", 3, text, *narrowed)
        assert found["total_matches"] == len(by_terms | nearest), text
        assert found["total_results"] == len(found["results"]) <= 2
        listed = ids(retrieve, "bm25", 3, text, *narrowed) | nearest
        assert found["pipeline_info"]["candidates_considered"] == len(listed), text
        assert answered(retrieve, text, "-k", "1", "--mode", "bm25", *narrowed)["total_matches"] == len(by_terms)
        assert answered(retrieve, text, "-k", "1", "--mode", "dense", *narrowed)["total_matches"] == len(nearest)


# ------------------------------------------------------------------------------------------------ of a result


def test_highlights_are_the_words_of_the_content_that_share_a_term_with_the_query(
    tools: Path, retrieve: Program
) -> None:
    (first, *_) = answered(retrieve, "counting of cells")["results"]
    spans = first["highlights"]
    words = {first["content"][start:end].casefold() for start, end in spans}
    assert words == {"cellfinder", "counts", "cells", "counting"}
    assert spans == sorted(spans)


def test_passages_say_whether_they_are_tables(guides: Path, retrieve: Program) -> None:
    found = retrieve("query", "volumes option effect", "--chunks", "-k", "20", "--json").json["results"]
    assert {result["content_type"] for result in found} == {"text", "table"}
    for result in found:
        assert (result["content_type"] == "table") == (result["content"].count("|") > 4)


# ------------------------------------------------------------------------------------------------- its scores


@pytest.fixture
def crossed(tmp_path: Path, configure: Configure, index: Path) -> Rerank:
    """Has a cross-encoder rerank three hits, its score what an activation makes of its logit."""

    def rerank(activation: str) -> None:
        folder = tmp_path / f"cross-{activation}"
        make_bert(folder, sentence_transformers={"activation_fn": f"torch.nn.modules.linear.{activation}"})
        configure("rerank", backend="cross_encoder", model=folder, depth=3, max_tokens=40)
        configure("models", cache_dir=tmp_path / "cache")

    return rerank


def test_the_final_score_is_the_rerankers_where_it_read_the_hit(crossed: Rerank, retrieve: Program) -> None:
    crossed("Identity")
    found = retrieve("query", "cells in images", "--no-expand", "--json").json
    read = [result for result in found["results"] if "rerank" in result]
    rest = [result for result in found["results"] if "rerank" not in result]
    assert (len(read), len(rest)) == (3, 2)
    for result in read:
        assert result["final_score"] == result["retrieval_score"] == result["rerank"]["score"]
        assert result["rerank"]["score_before"] != result["rerank"]["score"]
    for result in rest:
        assert result["final_score"] == result["retrieval_score"] == result["score"]
    assert found["pipeline_info"]["rerank_strategy"] == "cross_encoder"
    assert found["pipeline_info"]["reranked"] is True


def test_without_a_reranker_the_three_scores_are_one_and_the_engine_is_named(index: Path, retrieve: Program) -> None:
    found = retrieve("query", "cells in images", "--json").json
    assert all(each["score"] == each["retrieval_score"] == each["final_score"] for each in found["results"])
    stages = {"engine_used": "advanced", "reranked": False, "rerank_strategy": None}
    assert found["pipeline_info"] == {**stages, "candidates_considered": 5}


def test_the_sigmoid_of_a_reranker_is_a_relevance_and_no_other_score_is(crossed: Rerank, retrieve: Program) -> None:
    crossed("Sigmoid")
    results = retrieve("query", "cells in images", "--no-expand", "--json").json["results"]
    assert [each["relevance"] for each in results] == [each.get("rerank", {}).get("score") for each in results]
    assert all(0 <= each["relevance"] <= 1 for each in results if each["relevance"] is not None)
    assert [each["relevance"] for each in results].count(None) == 2
    crossed("Identity")
    results = retrieve("query", "cells in images", "--no-expand", "--json").json["results"]
    assert {each["relevance"] for each in results} == {None}
