"""Milvus as an engine: against a real server 2.3.5, which has vectors only, and against Milvus Lite."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from engines.contents import GENERATION, Content, content, parts_of, send
from engines.milvus_server import LiteProcess, MilvusProcess, collections, emptied
from engines.suite import EngineSuite
from hypothesis import given, strategies as st
from waiting import PATIENCE_S

from retrieve_cli.config.index_settings import MilvusSettings
from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import AnyOf, Batch, Engine, Label, Part, Within
from retrieve_cli.engines.milvus.engine import MilvusEngine
from retrieve_cli.engines.milvus.entities import LONGEST, MOST_TAGS, cut, expression, packed, tag, tags, unpacked
from retrieve_cli.engines.milvus.server import parsed
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError

NewEngine = Callable[..., MilvusEngine]
TOKEN = "root:a-secret-word"


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusProcess]:
    server = MilvusProcess(tmp_path_factory.mktemp("milvus"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteProcess]:
    server = LiteProcess(tmp_path_factory.mktemp("lite"))
    yield server
    server.kill()


def maker(server: MilvusProcess) -> NewEngine:
    """Return a function that makes engines over an empty server."""
    pytest.importorskip("pymilvus", reason="the package pymilvus is not installed: pip install 'retrieve-cli[milvus]'")
    emptied(server)

    def new_engine(**changed: Any) -> MilvusEngine:
        settings = {"url": server.url, "collection": "suite", "timeout_s": PATIENCE_S} | changed
        return MilvusEngine(MilvusSettings(**settings))

    return new_engine


class MilvusSuite(EngineSuite):
    """Promises of the engine that do not depend on the server's version."""

    share = 0.1
    server: MilvusProcess

    def losses(self) -> dict[str, Callable[[], object]]:
        return collections(self.server)

    def kill_server(self) -> None:
        self.server.kill()

    def unreachable(self) -> Engine:
        return MilvusEngine(MilvusSettings(url="http://127.0.0.1:1", timeout_s=2.0), token=TOKEN)


class TestMilvus(MilvusSuite):
    """A server of version 2.3.5. It takes about 3 seconds for each generation, however small."""

    has_terms = False

    @pytest.fixture
    def new_engine(self, milvus: MilvusProcess) -> NewEngine:
        self.server = milvus
        return maker(milvus)

    def test_a_server_that_answers_has_no_generations_and_no_problems(self, engine: Engine) -> None:
        """The lack of sparse vectors is a problem that is reported, with the version that has them."""
        assert (list(engine.generations()), engine.live()) == ([], None)
        ((problem, fix),) = engine.problems()
        assert "2.3.5" in problem
        assert "2.4" in fix
        assert not engine.capabilities.terms

    def test_term_weights_are_rejected_before_anything_is_stored(self, engine: Engine) -> None:
        with pytest.raises(Unavailable, match=r"Milvus 2\.4") as caught:
            engine.stage(GENERATION, [Part("lexical", "chunk", 5)])
        assert "engines.lexical" in caught.value.hint
        assert list(engine.generations()) == []


class TestMilvusLite(MilvusSuite):
    """Milvus Lite, which has sparse vectors."""

    @pytest.fixture
    def new_engine(self, lite: LiteProcess) -> NewEngine:
        self.server = lite
        return maker(lite)

    def test_an_index_without_a_graph_is_exact(self, new_engine: NewEngine) -> None:
        made = content(300)
        engine = new_engine(index="flat")
        send(engine, made, parts_of(made, vectors=True, terms=False))
        vectors = engine.open(GENERATION).vectors("dense")
        query = made.vectors[7]
        for exact in (False, True):
            rows, scores = vectors.nearest(query, 20, exact=exact)
            wanted = np.sort(made.vectors @ query)[::-1][:20]
            assert np.allclose(scores, wanted, atol=1e-5)
            assert np.allclose(made.vectors[rows] @ query, wanted, atol=1e-5)
        engine.close()

    def test_weights_below_zero_count_in_lists(self, engine: MilvusEngine) -> None:
        made, random = content(400), np.random.default_rng(5)
        weights = [
            TermWeights(np.arange(8, dtype=np.int32), random.normal(size=8).astype(np.float32)) for _ in range(400)
        ]
        made = Content(made.vectors, weights, made.labels, made.starts)
        send(engine, made, parts_of(made, vectors=False, terms=True))
        terms = engine.open(GENERATION).terms("sparse")
        query = TermWeights(np.array([1, 4, 6], np.int32), np.array([1.0, 2.0, 0.5], np.float32))
        every = np.array([row.weights[[1, 4, 6]] @ query.weights for row in weights])
        for limit in (1, 10, 399, 400, 500):
            rows, scores = terms.nearest(query, limit)
            assert np.allclose(scores, np.sort(every)[::-1][:limit], atol=1e-5)
            assert np.allclose(every[rows], scores, atol=1e-5)

    def test_a_row_with_more_terms_than_a_varchar_holds_comes_back_to_the_bit(self, engine: MilvusEngine) -> None:
        random = np.random.default_rng(0)
        long = TermWeights(np.arange(30_000, dtype=np.int32), random.random(30_000).astype(np.float32))
        staging = engine.stage(GENERATION, [Part("lexical", "record", 1)])
        staging.put("lexical", Batch(np.array([0]), [Label("a", "a")], weights=[long]))
        staging.finish()
        (stored,) = engine.open(GENERATION).terms("lexical").weights(np.array([0]), long.terms[:1])
        assert packed(stored) == packed(long)

    def test_more_rows_match_than_one_answer_of_milvus_holds(self, engine: MilvusEngine) -> None:
        rows = 17_000
        one = TermWeights(np.array([3], np.int32), np.array([0.5], np.float32))
        staging = engine.stage(GENERATION, [Part("lexical", "chunk", rows)])
        staging.put("lexical", Batch(np.arange(rows), [Label("a", "a")] * rows, weights=[one] * rows))
        staging.finish()
        terms = engine.open(GENERATION).terms("lexical")
        asked = np.array([3, 4], np.int32)
        assert terms.count(asked, 10_001) == 10_001
        assert len(set(terms.matching(asked, 10_001).tolist())) == 10_001
        assert len(terms.nearest(one, rows)[0]) == rows

    def test_a_dropped_generation_is_missing_for_its_readers(self, engine: MilvusEngine, new_engine: NewEngine) -> None:
        made = content(10)
        other = new_engine()
        send(engine, made, parts_of(made, vectors=True, terms=False))
        opened = engine.open(GENERATION)
        other.drop(GENERATION)
        with pytest.raises(IndexCorrupt):
            opened.vectors("dense").vectors(np.arange(3))
        other.close()

    def test_parts_without_metadata_are_an_incomplete_generation(self, engine: MilvusEngine, lite: LiteProcess) -> None:
        made = content(10)
        send(engine, made, parts_of(made, vectors=True, terms=True))
        engine._server.ask("drop_collection", f"suite_{GENERATION}")
        assert [(each.generation, each.complete) for each in engine.generations()] == [(GENERATION, False)]
        send(engine, made, parts_of(made, vectors=True, terms=True))
        assert [each.complete for each in engine.generations()] == [True]

    def test_a_collection_with_the_name_of_the_alias_is_reported_and_kept(self, engine: MilvusEngine) -> None:
        made = content(10)
        engine._server.ask("create_collection", "suite", dimension=4)
        send(engine, made, parts_of(made, vectors=True, terms=False))
        with pytest.raises(UsageError, match="suite"):
            engine.publish(GENERATION)
        assert engine.live() is None
        assert any("suite" in problem for problem, _ in engine.problems())

    def test_generations_of_other_names_are_not_ours(self, engine: MilvusEngine, new_engine: NewEngine) -> None:
        made = content(10)
        other = new_engine(collection="suite_other")
        send(other, made, parts_of(made, vectors=True, terms=False))
        assert list(engine.generations()) == []
        engine.drop(GENERATION)
        assert len(other.generations()) == 1
        other.close()

    def test_an_effort_at_query_time_keeps_what_is_stored(self, new_engine: NewEngine) -> None:
        made = content(10)
        first = new_engine()
        send(first, made, parts_of(made, vectors=True, terms=False))
        for changed, kept in (({"hnsw_ef_search": 50}, True), ({"hnsw_m": 8}, False)):
            engine = new_engine(**changed)
            assert engine.card != first.card
            engine.stage(GENERATION, parts_of(made, vectors=True, terms=False)).close()
            assert [each.complete for each in engine.generations()] == [kept]
            engine.close()
        first.close()

    def test_vectors_of_one_number_are_stored(self, engine: MilvusEngine) -> None:
        vectors = np.array([[1.0], [-2.0], [3.0]], np.float32)
        staging = engine.stage(GENERATION, [Part("dense", "chunk", 3, 1)])
        staging.put("dense", Batch(np.arange(3), [Label("a", "a")] * 3, vectors))
        staging.finish()
        stored = engine.open(GENERATION).vectors("dense")
        assert stored.vectors(np.arange(3)).tolist() == vectors.tolist()
        assert stored.nearest(np.array([-1.0], np.float32), 1)[0].tolist() == [1]


@given(st.text(), st.text(), st.text(), st.text())
def test_tags_of_different_values_differ(field: str, value: str, other_field: str, other: str) -> None:
    assert (tag(field, value) == tag(other_field, other)) == ((field, value) == (other_field, other))


@given(st.lists(st.builds(AnyOf, st.text(), st.lists(st.text(max_size=30), max_size=5), st.booleans()), max_size=4))
def test_no_text_of_a_condition_is_part_of_an_expression(conditions: list[AnyOf]) -> None:
    text = expression(Within(conditions=conditions))
    if text is not None:
        words = text.replace("(", " ").replace(")", " ").replace("[", " ").replace("]", " ").replace(",", " ").split()
        plain = {"and", "not", "array_contains_any", "tags"}
        digests = [word for word in words if word not in plain]
        assert all(len(word) == 34 and set(word[1:-1]) <= set("0123456789abcdef") for word in digests)


def test_a_condition_with_no_value_admits_no_row_or_all() -> None:
    assert expression(Within(conditions=[AnyOf("a", [])])) is None
    assert expression(Within(conditions=[AnyOf("a", [], negated=True)])) == ""


def test_a_condition_with_too_many_values_is_not_sent() -> None:
    many = [str(number) for number in range(MOST_TAGS + 1)]
    assert expression(Within(conditions=[AnyOf("a", many)])) == ""


def test_a_row_with_too_many_values_satisfies_every_condition_that_is_not_negated() -> None:
    stored = tags({"a": [str(number) for number in range(MOST_TAGS + 1)]})
    assert len(stored) == MOST_TAGS
    sought = expression(Within(conditions=[AnyOf("a", ["absent"])])) or ""
    assert any(f'"{each}"' in sought for each in stored)
    negated = expression(Within(conditions=[AnyOf("a", ["absent"], negated=True)])) or ""
    assert not any(f'"{each}"' in negated for each in stored)


@given(st.text() | st.integers(LONGEST - 3, LONGEST + 3).map(lambda length: "é" * (length // 2) + "x" * (length % 2)))
def test_texts_are_cut_to_what_a_varchar_holds(text: str) -> None:
    kept = cut(text)
    assert len(kept.encode()) <= LONGEST
    assert text.encode("utf-8", "replace").decode().startswith(kept)


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.floats(width=32), max_size=20))
def test_packed_weights_come_back_to_the_bit(weights: dict[int, float]) -> None:
    row = TermWeights(np.array(sorted(weights), np.int32), np.array([weights[t] for t in sorted(weights)], np.float32))
    assert packed(unpacked(packed(row))) == packed(row)


@pytest.mark.parametrize(
    ("reported", "name", "sparse"),
    [
        ("v2.3.5-lite", "Milvus 2.3.5-lite", False),
        ("v2.4.0", "Milvus 2.4.0", True),
        ("2.6.1-dev", "Milvus 2.6.1-dev", True),
        ("milvus_lite-3.2.2", "Milvus Lite 3.2.2", True),
        ("unknown", "Milvus unknown", False),
    ],
)
def test_versions_are_read(reported: str, name: str, sparse: bool) -> None:
    version = parsed(reported)
    assert (version.name, version.has_sparse) == (name, sparse)


@pytest.mark.parametrize("name", ["", "a b", "a-b", "1a", "a;drop", "x" * 200, "a\n"])
def test_names_that_milvus_rejects_are_rejected_here(name: str) -> None:
    with pytest.raises(UsageError, match="collection"):
        MilvusEngine(MilvusSettings(collection=name))


def test_a_missing_client_package_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(Unavailable, match="pymilvus") as caught:
        MilvusEngine(MilvusSettings()).live()
    assert caught.value.hint == "pip install 'retrieve-cli[milvus]'"
    assert "PYTHON_DOTENV_DISABLED" not in os.environ


def test_the_token_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymilvus")
    engine = MilvusEngine(MilvusSettings(url="http://user:word@127.0.0.1:1", timeout_s=1.0), token=TOKEN)
    with pytest.raises(Unavailable) as caught:
        engine.live()
    assert not any(secret in f"{caught.value.message} {caught.value.hint}" for secret in (TOKEN, "a-secret", "word@"))
    assert TOKEN not in repr(vars(engine)) + repr(vars(engine._server))
