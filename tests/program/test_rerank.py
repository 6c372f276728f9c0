"""Reranking in the whole program: the offline default, what is configured, and what is said where it cannot run."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from encoders.remote.servers import Api, Asked, chat, running
from hypothesis import given, strategies as st
from samples import TOOLS, Program, write_catalog

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Query, TokenVectors
from retrieve_cli.encoders.maxsim import STRIDE, WINDOW, Words, maxsim, windows
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import pickles
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.token_table import Stretch, TokenTable, pack, unpack, width_of, write


@pytest.fixture
def real(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of five tools by the real encoder, at the default place."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    return Path("artifacts")


# -------------------------------------------------------------------------------------------- the formula


def plain(query: Words, texts: Words, ends: list[int], owners: list[int], candidates: int) -> list[float]:
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

    def some(count: int) -> Words:
        vectors = generator.normal(size=(count, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Words(vectors, generator.uniform(0.1, 5, count).astype(np.float32))

    query, texts = some(words), some(sum(sizes))
    owners = sorted(generator.integers(0, len(sizes), len(sizes)).tolist())
    ends = np.cumsum(sizes)
    ours = maxsim(query, texts, ends, np.array(owners), len(sizes))
    assert ours == pytest.approx(plain(query, texts, ends.tolist(), owners, len(sizes)), abs=1e-5)


@given(st.integers(0, 50), st.integers(1, 500))
def test_windows_cover_a_text_and_are_alike(first: int, size: int) -> None:
    found = list(windows(first, first + size))
    assert (found[0][0], found[-1][1]) == (first, first + size)
    assert {end - start for start, end in found} == {min(size, WINDOW)}
    assert all(after[0] - before[0] <= STRIDE for before, after in pairwise(found))


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([8, 30, 384]))
def test_packed_vectors_point_where_they_pointed(seed: int, rows: int, dim: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32) * 7
    packed = pack(TokenVectors(np.arange(rows, dtype=np.int32), vectors))
    assert packed.codes.shape == (rows, width_of(dim))
    again = unpack(packed.codes, dim)
    assert np.linalg.norm(again, axis=1) == pytest.approx(1, abs=1e-5)
    cosines = np.einsum("ij,ij->i", again, vectors) / np.linalg.norm(vectors, axis=1)
    assert cosines.mean() > (0.9 if dim == 384 else 0.6)


def test_the_table_gives_back_what_was_written_and_counts_chunks_a_token(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    texts = [[5, 5, 7], [], [7], [9, 5]]
    tokens = [
        pack(TokenVectors(np.array(ids, np.int32), generator.normal(size=(len(ids), 12)).astype(np.float32)))
        for ids in texts
    ]
    stretches = [Stretch(one, np.array([len(one.ids)])) for one in tokens]
    assert write(stretches, tmp_path / "t.pkl", dim=12) == 4
    table = TokenTable(pickles.load(tmp_path / "t.pkl"))
    ids, vectors, ends = table.tokens([3, 1, 0])
    assert (ids.tolist(), ends.tolist()) == ([9, 5, 5, 5, 7], [2, 2, 5])
    assert vectors[:2].tolist() == unpack(tokens[3].codes, 12).tolist()
    both = table.stretch(2, 4)
    assert (both.tokens.ids.tolist(), both.sizes.tolist()) == ([7, 9, 5], [1, 2])
    wanted = [np.log1p((4 - df + 0.5) / (df + 0.5)) for df in (2, 2, 1, 0)]
    assert table.idf(np.array([5, 7, 9, 1000], np.int32)) == pytest.approx(wanted)


# -------------------------------------------------------------------------------------------- the program


def test_by_default_a_hybrid_answer_is_read_again_and_every_hit_says_so(real: Path, retrieve: Program) -> None:
    found = retrieve("query", "segment lungs in CT", "--json").json
    assert (found["reranked"], found["pipeline"]) == (True, "fuse(bm25@200, dense@200) > maxsim@50")
    before = retrieve("query", "segment lungs in CT", "--no-rerank", "--json").json
    places = {result["id"]: result["rank"] for result in before["results"]}
    scores = {result["id"]: result["score"] for result in before["results"]}
    assert sorted(places) == sorted(result["id"] for result in found["results"])
    for result in found["results"]:
        assert result["rerank"]["scorer"] == "maxsim"
        assert result["rerank"]["rank_before"] == places[result["id"]]
        assert result["retrieval_score"] == pytest.approx(scores[result["id"]])
    assert not before["reranked"]
    assert "reranked #1\n" in retrieve("query", "segment lungs in CT").out
    assert "maxsim  rank 1 with " in retrieve("query", "segment lungs in CT", "--explain").out


def test_a_single_leg_is_read_again_only_where_that_is_asked_for(real: Path, retrieve: Program) -> None:
    assert not retrieve("query", "lungs", "--mode", "bm25", "--json").json["reranked"]
    found = retrieve("query", "lungs", "--mode", "bm25", "--rerank", "--json").json
    assert found["pipeline"] == "bm25@200 > maxsim@50"
    assert retrieve("query", "lungs", "--chunks", "--json").json["reranked"]


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
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = retrieve("query", "lungs", "--json")
    assert (done.json["reranked"], done.json["strategies_skipped"]) == (False, {})
    monkeypatch.setenv("RETRIEVE_RERANK__BACKEND", "maxsim")
    done = retrieve("query", "lungs")
    assert done.code == 0
    assert "maxsim is skipped: this index has no token vectors" in done.err
    assert "maxsim" in retrieve("query", "lungs", "--json").json["strategies_skipped"]
    assert retrieve("query", "lungs", "--rerank").code == 6
    monkeypatch.setenv("RETRIEVE_RERANK__POLICY", "required")
    assert retrieve("query", "lungs").code == 6


@pytest.mark.parametrize("backend", ["cross_encoder", "remote", "llm"])
def test_a_backend_without_model_server_or_key_says_which_key_is_missing(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("RETRIEVE_RERANK__BACKEND", backend)
    done = retrieve("query", "lungs")
    assert (done.code, "rerank.model" in done.err) == (2, True)
    monkeypatch.setenv("RETRIEVE_RERANK__MODEL", "no/such-model")
    done = retrieve("query", "lungs")
    if backend == "cross_encoder":
        assert done.code == 0
        assert "cross_encoder is skipped" in done.err
        return
    assert (done.code, "rerank.base_url" in done.err) == (2, True)
    monkeypatch.setenv("RETRIEVE_RERANK__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RETRIEVE_RERANK__API_KEY_ENV", "MY_KEY")
    done = retrieve("query", "lungs", "--json")
    assert done.code == 0
    assert "MY_KEY" in done.json["strategies_skipped"][backend]


def by_length(asked: Asked) -> dict[str, list[dict[str, float]]]:
    """Answer as a rerank endpoint that likes long texts."""
    return {"results": [{"index": at, "relevance_score": len(text)} for at, text in enumerate(asked.json["documents"])]}


def test_a_remote_reranker_decides_the_order_and_one_that_is_gone_is_left_out(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    api.respond = by_length
    for key, value in {"BACKEND": "remote", "MODEL": "long", "BASE_URL": api.url, "INTERPOLATE": "1"}.items():
        monkeypatch.setenv(f"RETRIEVE_RERANK__{key}", value)
    found = retrieve("query", "brain volumes and images", "--json").json
    assert found["pipeline"].endswith("> long@50")
    given = [result["rerank"]["score"] for result in found["results"]]
    assert given == sorted(given, reverse=True)
    monkeypatch.setenv("RETRIEVE_RERANK__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RETRIEVE_RERANK__RETRIES", "0")
    done = retrieve("query", "brain volumes and images", "--json")
    assert done.code == 0
    assert "remote" in done.json["strategies_skipped"]
    assert retrieve("query", "brain", "--rerank").code == 6


def test_an_ablation_switches_it_off(real: Path, retrieve: Program, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query": "lungs in CT", "relevant": ["lungs"]}\n')
    found = retrieve("eval", "--gold", gold, "--ablate", "--json").json
    assert found["pipeline"].endswith("maxsim@50")
    assert found["arms"][0]["arm"] == "without the reranker"
    assert "rerank_p50" in found["latency_ms"]


# ------------------------------------------------------------------------------------------ build and sync


def test_a_sync_gives_the_tokens_that_a_fresh_build_gives(real: Path, retrieve: Program, tmp_path: Path) -> None:
    more = [*TOOLS[1:], {"id": "new", "name": "Denoise", "description": "Removes noise from micrographs."}]
    write_catalog(tmp_path / "tools.jsonl", more)
    synced = retrieve("sync", "--json").json
    assert synced["embedded"] == 1
    built = retrieve("build", "--catalog", tmp_path / "tools.jsonl", "--artifacts", "fresh", "--json").json
    assert built["generation"] == synced["generation"]


def test_what_the_cache_of_tokens_lost_is_read_again_and_nothing_else(
    real: Path, retrieve: Program, tmp_path: Path
) -> None:
    before = (real / "current").read_text()
    cached = list((real / "cache").glob("*.tokens/*.pkl"))
    assert cached
    for path in cached:
        path.write_bytes(path.read_bytes()[:-9] + b"damaged!!")
    again = retrieve("build", "--catalog", tmp_path / "tools.jsonl", "--json").json
    assert (again["embedded"], again["generation"]) == (len(TOOLS), before.strip())
    assert retrieve("build", "--catalog", tmp_path / "tools.jsonl", "--json").json["embedded"] == 0


def test_a_damaged_table_is_named(real: Path, retrieve: Program) -> None:
    path = next(real.glob("generations/*/tokens.pkl"))
    path.write_bytes(path.read_bytes()[:-1])
    done = retrieve("query", "lungs")
    assert done.code == 5
    assert "tokens.pkl" in done.err


def test_the_score_of_a_record_is_that_of_its_best_window(real: Path) -> None:
    searcher = Searcher(Store(real), Settings())
    found = searcher.rank([Query("segment lungs in CT")], searcher.options(k=5)).rankings[0].hits
    assert all(hit.reranked is not None and -1 <= hit.reranked.score <= 1 for hit in found)
    assert found[0].id.startswith("lungs")


@pytest.fixture
def api() -> Iterator[Api]:
    yield from running()


def test_a_chat_model_is_asked_to_pick_as_many_as_are_kept_or_asked_for(
    real: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    def asked(*arguments: object) -> str:
        api.respond = chat({"picked": [2, 1]})
        assert retrieve("query", "brain volumes", "--json", *arguments).json["reranked"]
        return str(api.last.json["messages"][1]["content"])

    given = {"BACKEND": "llm", "MODEL": "qwen", "BASE_URL": api.url, "PROMPT": "pick", "INTERPOLATE": "1"}
    for key, value in given.items():
        monkeypatch.setenv(f"RETRIEVE_RERANK__{key}", value)
    assert "Pick at most 3 of the 5 candidates." in asked("-k", 3)
    monkeypatch.setenv("RETRIEVE_RERANK__KEEP", "2")
    assert "Pick at most 2 of the 5 candidates." in asked("-k", 3)
    assert api.last.json["response_format"]["json_schema"]["schema"]["properties"]["picked"]["maxItems"] == 2
