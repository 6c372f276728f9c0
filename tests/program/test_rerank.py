"""Reranking in the whole program: the offline default, what is configured, and what is said where it cannot run."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from models.remote.servers import Api, Asked, chat, running
from program.asking import Configure, answered, indexed, refused
from samples import TOOLS, Program

from retrieve_cli.models.rerankers.late_interaction import WeightedTokens, match_windows, windows


@pytest.fixture
def real(retrieve: Program, configure: Configure) -> Path:
    """An index of five tools by the real encoder, at the default place; their catalog is `records.jsonl`."""
    configure("encoder", kind="onnx")
    indexed(retrieve, TOOLS)
    return Path("artifacts")


# -------------------------------------------------------------------------------------------- the formula


def plain(
    query: WeightedTokens, texts: WeightedTokens, ends: list[int], owners: list[int], candidates: int
) -> list[float]:
    """The same by loops."""
    spans, first = [], 0
    for end, owner in zip(ends, owners, strict=True):
        spans += [(owner, *span) for span in (windows(first, end) if end > first else ())]
        first = end
    if not spans:
        return [-1.0] * candidates
    mean = sum(stop - start for _, start, stop in spans) / len(spans)
    share = mean / (mean + len(query.weights))
    scores = [-1.0] * candidates
    for owner, start, stop in spans:
        similar = [[float(q @ texts.vectors[at]) for at in range(start, stop)] for q in query.vectors]
        found = sum(w * max(row) for w, row in zip(query.weights, similar, strict=True)) / sum(query.weights)
        weights = texts.weights[start:stop]
        columns = zip(*similar, strict=True)
        covered = sum(w * max(column) for w, column in zip(weights, columns, strict=True)) / sum(weights)
        scores[owner] = max(scores[owner], share * float(found) + (1 - share) * float(covered))
    return scores


@given(st.integers(0, 2**32), st.lists(st.integers(0, 230), min_size=1, max_size=6), st.integers(1, 9))
def test_it_equals_plain_loops(seed: int, sizes: list[int], words: int) -> None:
    generator = np.random.default_rng(seed)

    def some(count: int) -> WeightedTokens:
        vectors = generator.normal(size=(count, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return WeightedTokens(vectors, generator.uniform(0.1, 5, count).astype(np.float32))

    query, texts = some(words), some(sum(sizes))
    owners = sorted(generator.integers(0, len(sizes), len(sizes)).tolist())
    ends = np.cumsum(sizes)
    ours = match_windows(query, texts, ends, np.array(owners)).best(len(sizes))
    assert ours == pytest.approx(plain(query, texts, ends.tolist(), owners, len(sizes)), abs=1e-5)


# -------------------------------------------------------------------------------------------- the program


def test_by_default_a_hybrid_answer_is_read_again_and_every_hit_says_so(real: Path, retrieve: Program) -> None:
    found = answered(retrieve, "segment lungs in CT")
    assert (found["reranked"], found["pipeline"]) == (True, "fuse(bm25@200, dense@200) > maxsim@50")
    before = retrieve("query", "segment lungs in CT", "--no-rerank", "--json").json
    plain = {result["id"]: result for result in before["results"]}
    assert sorted(plain) == sorted(result["id"] for result in found["results"])
    for result in found["results"]:
        assert result["rerank"]["scorer"] == "maxsim"
        assert result["rerank"]["rank_before"] == plain[result["id"]]["rank"]
        assert result["rerank"]["score_before"] == pytest.approx(plain[result["id"]]["score"])
        assert result["retrieval_score"] == result["rerank"]["score"]
    assert not before["reranked"]
    assert "reranked #1\n" in retrieve("query", "segment lungs in CT").out
    assert "maxsim  rank 1 with " in retrieve("query", "segment lungs in CT", "--explain").out


def test_keys_of_the_stage_change_the_answer(real: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(**keys: object) -> dict[str, object]:
        with monkeypatch.context() as patch:
            for key, value in keys.items():
                patch.setenv(f"RETRIEVE_RERANK__{key.upper()}", str(value))
            found = retrieve("query", "brain volumes and images", "--json").json
            return {"ids": [(each["id"], round(each["score"], 6)) for each in found["results"]], **found}

    usual = asked()
    assert asked(backend="none")["ids"] != usual["ids"]
    assert asked(depth=1)["pipeline"] == "fuse(bm25@200, dense@200) > maxsim@1"
    assert len(asked(keep=2)["results"]) == 2
    assert asked(interpolate=0.1)["ids"] != usual["ids"]
    assert asked(interpolate=0)["ids"] == asked(backend="none")["ids"]
    assert len(asked(min_score=0.5)["results"]) < len(usual["results"])


def test_without_token_vectors_auto_is_silent_and_maxsim_says_what_to_do(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    plain = answered(retrieve, "lungs")
    assert (plain["reranked"], plain["strategies_skipped"]) == (False, {})
    configure("rerank", backend="maxsim")
    assert "maxsim is skipped: this index has no token vectors" in retrieve("query", "lungs").err
    assert "maxsim" in answered(retrieve, "lungs")["strategies_skipped"]
    assert retrieve("query", "lungs", "--rerank").code == 6
    configure("rerank", policy="required")
    assert retrieve("query", "lungs").code == 6


@pytest.mark.parametrize("backend", ["cross_encoder", "remote", "llm"])
def test_a_backend_without_model_server_or_key_says_which_key_is_missing(
    index: Path, retrieve: Program, configure: Configure, backend: str
) -> None:
    configure("rerank", backend=backend)
    assert "rerank.model" in refused(retrieve, "query", "lungs")
    configure("rerank", model="no/such-model")
    if backend == "cross_encoder":
        done = retrieve("query", "lungs")
        assert (done.code, "cross_encoder is skipped" in done.err) == (0, True)
        return
    assert "rerank.base_url" in refused(retrieve, "query", "lungs")
    configure("rerank", base_url="http://127.0.0.1:9/v1", api_key_env="MY_KEY")
    assert "MY_KEY" in answered(retrieve, "lungs")["strategies_skipped"][backend]


def by_length(asked: Asked) -> dict[str, list[dict[str, float]]]:
    """Answer as a rerank endpoint that likes long texts."""
    return {"results": [{"index": at, "relevance_score": len(text)} for at, text in enumerate(asked.json["documents"])]}


def test_a_remote_reranker_decides_the_order_and_one_that_is_gone_is_left_out(
    index: Path, retrieve: Program, configure: Configure, api: Api
) -> None:
    api.respond = by_length
    configure("rerank", backend="remote", model="long", base_url=api.url, interpolate=1)
    found = answered(retrieve, "brain volumes and images")
    assert found["pipeline"].endswith("> long@50")
    given = [result["rerank"]["score"] for result in found["results"]]
    assert given == sorted(given, reverse=True)
    configure("rerank", base_url="http://127.0.0.1:9/v1", retries=0)
    assert "remote" in answered(retrieve, "brain volumes and images")["strategies_skipped"]
    assert retrieve("query", "brain", "--rerank").code == 6


# ------------------------------------------------------------------------------------------ build and sync


@pytest.fixture
def api() -> Iterator[Api]:
    yield from running()


def test_a_chat_model_is_asked_to_pick_as_many_as_are_kept_or_asked_for(
    real: Path, retrieve: Program, configure: Configure, api: Api
) -> None:
    def asked(*arguments: object) -> str:
        api.respond = chat({"picked": [2, 1]})
        assert answered(retrieve, "brain volumes", *arguments)["reranked"]
        return str(api.last.json["messages"][1]["content"])

    configure("rerank", backend="llm", model="qwen", base_url=api.url, prompt="pick", interpolate=1)
    assert "Pick at most 3 of the 5 candidates." in asked("-k", 3)
    configure("rerank", keep=2)
    assert "Pick at most 2 of the 5 candidates." in asked("-k", 3)
    assert api.last.json["response_format"]["json_schema"]["schema"]["properties"]["picked"]["maxItems"] == 2
