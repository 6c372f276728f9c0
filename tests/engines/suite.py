"""The promises of `contracts/engines.py` as tests, for any engine.

A subclass has a fixture `new_engine`, which returns a function that makes an Engine over one namespace of a server,
empty at the beginning of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import ClassVar

import numpy as np
import pytest
from engines.rows import DIM, GENERATIONS, NAMES, ODD, queries, row, vector, weights
from engines.sqlite_engine import passes
from hypothesis import HealthCheck, given, settings, strategies as st
from profiles import examples
from waiting import PATIENCE_S, until

from retrieve_cli.assemble.engines import marker
from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import BATCH_ROWS, Combined, Engine, Equal, Filter, Range, Row, Schema
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError

NAME, OTHER, _ = NAMES
OLD, NEW = GENERATIONS
plain_filters: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equal, st.just("keywords"), st.lists(st.sampled_from(["kind 1", "kind 2", "none"])), st.just("modality")),
    st.builds(Equal, st.just("record"), st.lists(st.sampled_from(["record-1", "record-7", "none"]))),
    st.builds(
        Range,
        st.just("numbers"),
        st.sampled_from(["year", "size"]),
        st.one_of(st.none(), st.floats(0, 2010, width=32)),
        st.one_of(st.none(), st.floats(0, 2010, width=32)),
    ),
    st.builds(Range, st.just("dates"), st.just("released"), st.none(), st.integers(0, 10**6).map(float)),
)
filters = st.recursive(
    plain_filters,
    lambda part: st.builds(Combined, st.sampled_from(["all", "any", "none"]), st.lists(part, max_size=3)),
    max_leaves=5,
)


def markers(engine: Engine) -> dict[str, str]:
    """Return the markers of the collections that exist."""
    found = {name: marker(engine, name) for name in NAMES}
    return {name: held for name, held in found.items() if held is not None}


class EngineSuite:
    """Promises of an engine, to be subclassed."""

    precision: ClassVar[float] = 1e-2
    """Largest difference of the score of a vector or of term weights from the exact one."""
    share: ClassVar[float] = 0.2
    """Number of examples of a law, as a share of those of the profile."""
    kill_server: ClassVar[Callable[..., None] | None] = None
    """Method that kills the server; `new_engine` starts it again for the next test."""
    unreachable: ClassVar[Callable[..., Engine] | None] = None
    """Method that returns an engine whose address nobody listens at."""

    @pytest.fixture
    def engine(self, new_engine: Callable[[], Engine]) -> Engine:
        return new_engine()

    def schema(self, engine: Engine) -> Schema:
        sparse = {"splade": False} if engine.sparse else {}
        words = {"bm25": True} if engine.words == "terms" else {}
        texts = ("bm25",) if engine.words == "text" else ()
        return Schema({"dense": DIM}, {**words, **sparse}, texts)

    def filled(self, engine: Engine, count: int = 40, name: str = NAME) -> list[Row]:
        """Create a collection with some rows."""
        rows = [row(number, self.schema(engine), tenants=["a", "b"][: number % 3]) for number in range(count)]
        engine.create(name, self.schema(engine))
        for first in range(0, count, BATCH_ROWS):
            engine.upsert(name, rows[first : first + BATCH_ROWS])
        assert engine.count(name) == count
        return rows

    def listed(self, engine: Engine, where: Filter | None = None, name: str = NAME) -> set[str]:
        """Return the ids of the rows that pass a filter."""
        (hits,) = engine.search(name, [("", None)], where, 10_000).hits
        assert len({hit.id for hit in hits}) == len(hits)
        return {hit.id for hit in hits}

    def expect(self, engine: Engine, rows: Sequence[Row], where: Filter | None) -> None:
        """Compare all searches with a filter with the rows that pass it, one by one."""
        wanted = {one.id for one in rows if passes(one, where)}
        assert self.listed(engine, where) == wanted
        assert engine.count(NAME, where) == len(wanted)
        for name, query in queries(self.schema(engine)):
            (hits,) = engine.search(NAME, [(name, query)], where, len(rows) + 1).hits
            found = {hit.id for hit in hits}
            assert found == wanted if isinstance(query, np.ndarray) else found <= wanted
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    # ------------------------------------------------------------------------------------------------ collections

    def test_an_empty_server_has_no_collections_and_no_alias(self, engine: Engine) -> None:
        assert (markers(engine), engine.published()) == ({}, None)

    def test_a_collection_is_created_without_rows_and_marker(self, engine: Engine) -> None:
        engine.create(NAME, self.schema(engine))
        assert markers(engine) == {NAME: ""}
        assert engine.count(NAME) == 0
        found = engine.search(NAME, queries(self.schema(engine)), None, 10)
        assert [list(hits) for hits in found.hits] == [[] for _ in queries(self.schema(engine))]
        assert found.marker == ""

    def test_a_collection_that_is_created_again_is_empty(self, engine: Engine) -> None:
        self.filled(engine)
        engine.publish(NAME, OLD)
        engine.create(NAME, self.schema(engine))
        assert (engine.count(NAME), markers(engine)) == (0, {NAME: ""})

    def test_collections_are_independent(self, engine: Engine) -> None:
        rows = self.filled(engine)
        self.filled(engine, 4, OTHER)
        engine.delete(OTHER, [one.id for one in rows])
        engine.publish(OTHER, NEW)
        assert engine.count(NAME) == len(rows)
        assert markers(engine) == {NAME: "", OTHER: NEW}

    def test_a_dropped_collection_is_gone_and_may_be_dropped_again(self, engine: Engine) -> None:
        self.filled(engine)
        self.filled(engine, 4, OTHER)
        engine.drop(NAME)
        engine.drop(NAME)
        assert markers(engine) == {OTHER: ""}

    def test_a_missing_collection_is_an_error_that_names_the_command(self, engine: Engine) -> None:
        one = row(1, self.schema(engine))
        for call in (
            lambda: engine.upsert(NAME, [one]),
            lambda: engine.publish(NAME, OLD),
            lambda: engine.search(NAME, queries(self.schema(engine)), None, 10),
            lambda: engine.count(NAME),
        ):
            with pytest.raises(IndexCorrupt) as caught:
                call()
            assert "retrieve engines push" in caught.value.hint

    def test_the_alias_names_one_collection_and_moves(self, engine: Engine) -> None:
        self.filled(engine, 4)
        self.filled(engine, 4, OTHER)
        engine.publish(NAME, OLD)
        assert engine.published() == NAME
        engine.publish(OTHER, NEW)
        engine.publish(OTHER, NEW)
        assert engine.published() == OTHER

    def test_an_alias_does_not_outlive_its_collection(self, engine: Engine) -> None:
        self.filled(engine, 4)
        engine.publish(NAME, OLD)
        engine.drop(NAME)
        assert engine.published() is None
        self.filled(engine, 4, OTHER)
        engine.publish(OTHER, NEW)
        assert engine.published() == OTHER

    def test_another_engine_over_the_server_sees_the_same(
        self, engine: Engine, new_engine: Callable[[], Engine]
    ) -> None:
        rows = self.filled(engine)
        engine.publish(NAME, OLD)
        other = new_engine() if self.kill_server is None else engine
        assert (markers(other), other.published(), other.count(NAME)) == ({NAME: OLD}, NAME, len(rows))

    def test_a_snapshot_has_a_name_or_a_hint(self, engine: Engine) -> None:
        self.filled(engine, 4)
        name = hint = ""
        try:
            name = engine.snapshot(NAME)
        except UsageError as error:
            hint = error.hint
        assert name or hint

    def test_facts_have_a_version_and_no_problem_is_found(self, engine: Engine) -> None:
        assert any(character.isdigit() for character in "".join(engine.describe().values()))
        assert list(engine.problems()) == []

    # ----------------------------------------------------------------------------------------------------- marker

    def test_the_marker_comes_with_a_search_and_is_no_row(self, engine: Engine) -> None:
        rows = self.filled(engine)
        for generation in (OLD, NEW):
            engine.publish(NAME, generation)
            assert markers(engine) == {NAME: generation}
            assert engine.search(NAME, queries(self.schema(engine)), None, 5).marker == generation
            assert engine.search(NAME, [("", None)], Equal("id", ["nothing"]), 5).marker == generation
        assert engine.count(NAME) == len(rows)
        assert self.listed(engine) == {one.id for one in rows}
        self.expect(engine, rows, Combined("none", [Equal("keywords", ["kind 1"], "modality")]))

    # ------------------------------------------------------------------------------------------------------- rows

    def test_contents_return_as_they_were_stored_and_only_if_asked_for(self, engine: Engine) -> None:
        rows = {one.id: one for one in self.filled(engine)}
        for query in (("", None), *queries(self.schema(engine))):
            (hits,) = engine.search(NAME, [query], None, 10, contents=True).hits
            assert hits
            assert all((hit.text, hit.stored) == (rows[hit.id].text, rows[hit.id].stored) for hit in hits)
            (hits,) = engine.search(NAME, [query], None, 10).hits
            assert {(hit.text, hit.stored) for hit in hits} == {("", "")}

    def test_contents_of_chosen_rows_come_by_their_ids(self, engine: Engine) -> None:
        rows = self.filled(engine)
        wanted = [one.id for one in rows[::3]]
        (hits,) = engine.search(NAME, [("", None)], Equal("id", wanted), len(wanted), contents=True).hits
        assert sorted(hit.id for hit in hits) == sorted(wanted)

    def test_a_row_is_replaced_as_a_whole(self, engine: Engine) -> None:
        rows = self.filled(engine)
        rows[6] = row(6, self.schema(engine), version=1)._replace(keywords={"new": ["x"]}, numbers={}, dates={})
        engine.upsert(NAME, [rows[6]])
        assert engine.count(NAME) == len(rows)
        (hits,) = engine.search(NAME, [("", None)], Equal("id", [rows[6].id]), 5, contents=True).hits
        assert [(hit.text, hit.stored) for hit in hits] == [(rows[6].text, rows[6].stored)]
        self.expect(engine, rows, Equal("keywords", ["x"], "new"))
        self.expect(engine, rows, Equal("keywords", ["kind 2"], "modality"))
        self.expect(engine, rows, Range("numbers", "year", low=0))
        self.expect(engine, rows, Equal("tenants", ["a"]))
        for name, query in queries(self.schema(engine), 2):
            own = rows[6].vectors.get(name, rows[6].weights.get(name))
            (hits,) = engine.search(NAME, [(name, query if own is None else own)], None, 1).hits
            assert own is None or isinstance(own, TermWeights) or hits[0].id == rows[6].id

    def test_the_same_rows_again_change_nothing(self, engine: Engine) -> None:
        rows = self.filled(engine)
        engine.upsert(NAME, rows)
        assert engine.count(NAME) == len(rows)
        self.expect(engine, rows, None)

    def test_deleted_rows_are_not_found_and_unknown_ids_are_no_error(self, engine: Engine) -> None:
        rows = self.filled(engine)
        engine.delete(NAME, [one.id for one in rows[::2]] + ["unknown"])
        engine.delete(NAME, [])
        assert engine.count(NAME) == len(rows[1::2])
        self.expect(engine, rows[1::2], None)
        engine.upsert(NAME, rows[::2])
        assert engine.count(NAME) == len(rows)

    def test_many_rows_are_deleted_at_once(self, engine: Engine) -> None:
        self.filled(engine, 4)
        engine.delete(NAME, [f"record-{number}#0" for number in range(10_000)])
        assert engine.count(NAME) == 2

    def test_a_full_batch_is_stored(self, engine: Engine) -> None:
        rows = self.filled(engine, BATCH_ROWS + 3)
        assert self.listed(engine) == {one.id for one in rows}

    def test_any_text_is_stored_and_filtered_as_text(self, engine: Engine) -> None:
        engine.create(NAME, self.schema(engine))
        rows = [
            row(number, self.schema(engine))._replace(
                id=f"{text}#{number}",
                record=text or "empty",
                text=text,
                title=text,
                section=text,
                stored=f'"{number}"',
                tenants=[text or "empty"],
                keywords={text or "empty": [text], "field": [text]},
                numbers={text or "empty": [float(number)]},
            )
            for number, text in enumerate(ODD)
        ]
        engine.upsert(NAME, rows)
        assert engine.count(NAME) == len(rows)
        assert self.listed(engine) == {one.id for one in rows}
        for number, text in enumerate(ODD):
            name = text or "empty"
            for where in (
                Equal("id", [rows[number].id]),
                Equal("record", [name]),
                Equal("tenants", [name]),
                Equal("keywords", [text], name),
                Equal("keywords", [text], "field"),
                Range("numbers", name, float(number), float(number)),
            ):
                assert self.listed(engine, where) == {rows[number].id}, where

    def test_a_row_may_have_no_fields_and_empty_texts(self, engine: Engine) -> None:
        engine.create(NAME, self.schema(engine))
        one = row(1, self.schema(engine))
        bare = one._replace(title="", text="", section="", keywords={}, numbers={}, dates={})
        engine.upsert(NAME, [bare._replace(weights={name: weights(0, 0) for name in one.weights})])
        assert engine.count(NAME) == 1
        assert self.listed(engine, Combined("none", [Equal("keywords", ["x"], "modality")])) == {one.id}

    def test_a_long_text_is_stored(self, engine: Engine) -> None:
        engine.create(NAME, self.schema(engine))
        text = "lung 肺 " * 40_000
        engine.upsert(NAME, [row(1, self.schema(engine))._replace(text=text, stored=f'"{text}"')])
        assert engine.count(NAME) == 1
        (hits,) = engine.search(NAME, [("", None)], None, 1, contents=True).hits
        assert (hits[0].text, hits[0].stored) == (text, f'"{text}"')

    # ----------------------------------------------------------------------------------------------------- search

    def test_vectors_are_ranked_by_cosine(self, engine: Engine) -> None:
        rows = {one.id: one for one in self.filled(engine, 60)}
        (hits,) = engine.search(NAME, [("dense", vector(7))], None, 10).hits
        exact = {name: float(one.vectors["dense"] @ vector(7)) for name, one in rows.items()}
        assert [hit.score for hit in hits] == pytest.approx([exact[hit.id] for hit in hits], abs=self.precision)
        best = sorted(exact, key=exact.__getitem__, reverse=True)[:10]
        assert len({hit.id for hit in hits} & set(best)) >= 9

    def test_term_weights_are_ranked_by_inner_product(self, engine: Engine) -> None:
        if not engine.sparse:
            pytest.skip("the engine holds no term weights")
        rows = {one.id: one for one in self.filled(engine, 60)}
        (hits,) = engine.search(NAME, [("splade", weights(7))], None, 60).hits
        exact = {name: _product(weights(7), one.weights["splade"]) for name, one in rows.items()}
        assert {hit.id for hit in hits} == {name for name, score in exact.items() if score}
        for hit in hits:
            assert hit.score == pytest.approx(exact[hit.id], rel=self.precision)

    def test_words_find_rows_that_have_them(self, engine: Engine) -> None:
        if not engine.words:
            pytest.skip("the engine has no BM25")
        rows = {one.id: one for one in self.filled(engine, 60)}
        query = weights(7) if engine.words == "terms" else "kidney"
        (hits,) = engine.search(NAME, [("bm25", query)], None, 60).hits
        if isinstance(query, TermWeights):
            wanted = {name for name, one in rows.items() if _product(query, one.weights["bm25"])}
        else:
            wanted = {name for name, one in rows.items() if query in one.text}
        assert {hit.id for hit in hits} == wanted
        assert all(hit.score > 0 for hit in hits)

    def test_rare_words_weigh_more(self, engine: Engine) -> None:
        if not engine.words:
            pytest.skip("the engine has no BM25")
        engine.create(NAME, self.schema(engine))
        terms, common = [np.array([term], np.int32) for term in (1, 2)], np.ones(1, np.float32)
        rows = [row(number, self.schema(engine)) for number in range(20)]
        for number, one in enumerate(rows):
            own = TermWeights(terms[number == 7], common)
            text = "rare words" if number == 7 else "common words"
            engine.upsert(NAME, [one._replace(title="", text=text, weights=dict.fromkeys(one.weights, own))])
        assert engine.count(NAME) == 20
        both = TermWeights(np.array([1, 2], np.int32), np.ones(2, np.float32))
        query = both if engine.words == "terms" else "rare common"
        (hits,) = engine.search(NAME, [("bm25", query)], None, 20).hits
        assert (hits[0].id, len(hits)) == (rows[7].id, 20)
        assert hits[0].score > hits[1].score

    def test_titles_are_searched_with_the_words(self, engine: Engine) -> None:
        if engine.words != "text":
            pytest.skip("the engine does not search texts")
        engine.create(NAME, self.schema(engine))
        engine.upsert(NAME, [row(1, self.schema(engine))._replace(title="Unheard", text="of")])
        assert engine.count(NAME) == 1
        (hits,) = engine.search(NAME, [("bm25", "unheard")], None, 5).hits
        assert len(hits) == 1

    def test_a_query_of_any_text_is_words(self, engine: Engine) -> None:
        if engine.words != "text":
            pytest.skip("the engine does not search texts")
        self.filled(engine)
        for text in (*ODD, "lung AND", "lung^2", "(lung", "lung:heart", "\x00"):
            engine.search(NAME, [("bm25", text)], None, 5)

    def test_a_query_that_shares_no_term_finds_nothing(self, engine: Engine) -> None:
        self.filled(engine)
        other = TermWeights(np.array([12345], np.int32), np.ones(1, np.float32))
        asked = [(name, other) for name in self.schema(engine).weights]
        asked += [(name, "nowhere") for name in self.schema(engine).texts]
        if asked:
            assert not any(engine.search(NAME, asked, None, 10).hits)

    def test_the_queries_of_a_search_are_answered_in_order_and_as_alone(self, engine: Engine) -> None:
        self.filled(engine)
        asked = [query for seed in range(8) for query in queries(self.schema(engine), seed)][:32]
        together = engine.search(NAME, asked, Equal("keywords", ["kind 1", "kind 2"], "modality"), 5).hits
        for query, hits in zip(asked, together, strict=True):
            (alone,) = engine.search(NAME, [query], Equal("keywords", ["kind 1", "kind 2"], "modality"), 5).hits
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], abs=1e-5)

    def test_no_more_hits_than_asked_for(self, engine: Engine) -> None:
        rows = self.filled(engine)
        for k in (1, 7, len(rows), 10_000):
            found = engine.search(NAME, [("", None), *queries(self.schema(engine))], None, k)
            assert all(len(hits) <= k for hits in found.hits)
            assert len(found.hits[0]) == min(k, len(rows))

    # ---------------------------------------------------------------------------------------------------- filters

    @pytest.mark.parametrize(
        "where",
        [
            None,
            Equal("id", ["record-3#0", "record-3#1", "nothing"]),
            Equal("record", ["record-3", "record-9"]),
            Equal("tenants", ["a"]),
            Equal("tenants", ["nobody"]),
            Equal("keywords", ["kind 1", "kind 3"], "modality"),
            Equal("keywords", ["kind 1"], "nothing"),
            Equal("keywords", [], "modality"),
            Equal("keywords", ["lung"], "all"),
            Range("numbers", "year", 2003, 2005),
            Range("numbers", "size", 2.25, 2.25),
            Range("numbers", "size", low=3.1),
            Range("numbers", "nothing", high=3),
            Range("dates", "released", 86400 * 3, 86400 * 7.5),
            Range("dates", "released", high=0),
            Combined("all", [Equal("keywords", ["kind 1"], "modality"), Range("numbers", "year", 2005)]),
            Combined("any", [Equal("keywords", ["kind 1"], "modality"), Range("numbers", "year", 2005)]),
            Combined("none", [Equal("keywords", ["kind 1"], "modality"), Range("numbers", "year", 2005)]),
            Combined("all", [Equal("tenants", ["a"]), Combined("none", [Equal("tenants", ["b"])])]),
            Combined("all", []),
            Combined("any", []),
            Combined("none", []),
        ],
    )
    def test_a_filter_lets_exactly_its_rows_through(self, engine: Engine, where: Filter | None) -> None:
        self.expect(engine, self.filled(engine), where)

    def test_filters_may_be_nested_in_any_way(self, engine: Engine) -> None:
        rows = self.filled(engine)

        @settings(max_examples=examples(self.share), suppress_health_check=list(HealthCheck), deadline=None)
        @given(filters)
        def law(where: Filter) -> None:
            wanted = {one.id for one in rows if passes(one, where)}
            assert self.listed(engine, where) == wanted

        law()

    def test_a_filter_takes_many_values(self, engine: Engine) -> None:
        rows = self.filled(engine)
        many = [f"value {number}" for number in range(990)]
        self.expect(engine, rows, Equal("keywords", [*many, "kind 1"], "modality"))
        self.expect(engine, rows, Equal("id", [*many, rows[3].id]))

    def test_a_rare_filter_finds_its_rows_among_many(self, engine: Engine) -> None:
        rows = self.filled(engine, 1000)
        wanted = {one.id for one in rows[5::200]}
        (hits,) = engine.search(NAME, [("dense", vector(1))], Equal("id", sorted(wanted)), 10).hits
        assert {hit.id for hit in hits} == wanted

    def test_a_tenant_sees_no_rows_of_others(self, engine: Engine) -> None:
        rows = self.filled(engine, 60)
        own = {one.id for one in rows if "b" in one.tenants}
        found = engine.search(NAME, [("", None), *queries(self.schema(engine))], Equal("tenants", ["b"]), 60)
        assert {hit.id for hit in found.hits[0]} == own
        assert all(hit.id in own for hits in found.hits for hit in hits)

    # --------------------------------------------------------------------------------------------------- failures

    def test_searches_run_while_rows_are_replaced(self, engine: Engine) -> None:
        rows, schema = self.filled(engine), self.schema(engine)
        errors: list[BaseException] = []
        done = Event()

        def read() -> None:
            try:
                while not done.is_set():
                    found = engine.search(NAME, [("", None), *queries(schema)], None, 100, contents=True)
                    assert {hit.id for hit in found.hits[0]} <= {one.id for one in rows}
            except BaseException as error:  # noqa: BLE001  the test looks at what it is
                errors.append(error)

        threads = [Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for version in range(1, 6):
            engine.upsert(NAME, [row(number, schema, version=version) for number in range(len(rows))])
        done.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert errors == []
        assert engine.count(NAME) == len(rows)

    def test_a_server_that_nobody_started_is_unavailable_with_a_hint(self) -> None:
        if self.unreachable is None:
            pytest.skip("the subclass has no method `unreachable`")
        engine: Engine = self.unreachable()
        for call in (
            engine.published,
            lambda: engine.search(NAME, [("", None)], None, 1),
            lambda: engine.create(NAME, Schema()),
            lambda: engine.publish(NAME, OLD),
            engine.describe,
        ):
            with pytest.raises(Unavailable) as caught:
                call()
            assert caught.value.hint

    def test_a_server_that_dies_in_the_middle_of_a_search_is_unavailable(self, engine: Engine) -> None:
        if self.kill_server is None:
            pytest.skip("the subclass has no method `kill_server`")
        self.filled(engine)
        started, errors = Event(), list[BaseException]()

        def search_until_it_fails() -> None:
            try:
                while True:
                    engine.search(NAME, [("", None)], None, 10)
                    started.set()
            except BaseException as error:  # noqa: BLE001  the test looks at what it is
                errors.append(error)
                started.set()

        threads = [Thread(target=search_until_it_fails) for _ in range(3)]
        for thread in threads:
            thread.start()
        started.wait(PATIENCE_S)
        self.kill_server()
        until(lambda: len(errors) == len(threads), "all searches to fail")
        assert [type(error) for error in errors] == [Unavailable] * 3, errors
        assert all(isinstance(error, RetrieveError) and error.hint for error in errors)


def _product(query: TermWeights, own: TermWeights) -> float:
    weights_of = dict(zip(own.terms.tolist(), own.weights.tolist(), strict=True))
    pairs = zip(query.terms.tolist(), query.weights.tolist(), strict=True)
    return sum(weight * weights_of.get(term, 0.0) for term, weight in pairs)
