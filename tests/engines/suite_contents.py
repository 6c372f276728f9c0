"""Promises on what an engine stores, and on what it finds of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engines.contents import GENERATION, INJECTIONS, ODD, TERMS, VECTORS, Content, content
from engines.suite_base import Base, plain_conditions, vector, words
from hypothesis import strategies as st

from retrieve_cli.contracts.engines import AnyOf, Engine, EngineGeneration, Within
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows

CLOSE = 1e-4


class ContentSuite(Base):
    """Tests of rows, conditions and lists."""

    def test_vectors_come_back_in_the_requested_order(self, engine: Engine, made: Content) -> None:
        self.needs("has_vectors")
        collection = self.opened(engine, made).vectors(VECTORS)
        rows = np.random.default_rng(0).permutation(60)
        stored = collection.vectors(rows)
        assert stored.dtype == np.float32
        assert np.allclose(stored, made.vectors[rows], atol=0)
        assert np.allclose(collection.scores(vector(1), rows), np.einsum("ij,j->i", stored, vector(1)), atol=CLOSE)
        for absent in (60, 2**40):
            with pytest.raises(IndexCorrupt):
                collection.vectors(np.array([3, absent]))

    def test_texts_of_any_kind_are_stored_and_found_by_conditions(self, engine: Engine) -> None:
        made = content(120, odd=(*ODD, *INJECTIONS))
        opened = self.opened(engine, made)
        for text in (*ODD, *INJECTIONS):
            for condition in (
                AnyOf("odd", [text]),
                AnyOf(text or "empty", ["named"]),
                AnyOf("odd", [text, "x"], negated=True),
            ):
                self.expect(opened, made, [condition])

    def test_texts_with_nul_characters_are_stored(self, engine: Engine) -> None:
        made = content(40, odd=("a\0b", "a", "\0"))
        opened = self.opened(engine, made)
        for text in ("a\0b", "a", "\0"):
            self.expect(opened, made, [AnyOf("odd", [text])])

    def test_values_that_look_like_queries_are_only_values(self, engine: Engine, made: Content) -> None:
        opened = self.opened(engine, made)
        for text in INJECTIONS:
            for condition in (AnyOf("odd", [text]), AnyOf(text, ["named"]), AnyOf(text, [text], negated=True)):
                self.expect(opened, made, [condition])
        assert [each.complete for each in engine.generations()] == [True]
        assert {engine.open(GENERATION).count(part.name) for part in self.parts(made)} == {60}

    def test_a_search_finds_only_the_rows_that_it_is_restricted_to(self, engine: Engine) -> None:
        made = content(200)
        opened = self.opened(engine, made)
        most = min(len(made), engine.capabilities.most_rows)

        @self.law(st.lists(plain_conditions, max_size=3), st.sets(st.integers(0, 199), max_size=most))
        def holds(conditions: list[AnyOf], listed: set[int]) -> None:
            self.expect(opened, made, conditions)
            rows = np.array(sorted(listed), np.int64)
            self.expect_among(opened, made, rows)

        holds()

    def expect_among(self, opened: EngineGeneration, made: Content, rows: Rows) -> None:
        """Compare what is found among some rows with all rows looked at one by one."""
        mask, within = np.isin(np.arange(len(made)), rows), Within(rows=rows)
        if self.has_vectors:
            collection = opened.vectors(VECTORS)
            found, scores = collection.nearest(vector(1), len(made), within=within, exact=True)
            assert sorted(found.tolist()) == rows.tolist()
            assert np.allclose(scores, made.vectors[found] @ vector(1), atol=1e-5)
            assert bool((np.diff(scores) <= 0).all())
            few, _ = collection.nearest(vector(1), 3, within=within)
            assert len(few) <= 3
            assert set(few.tolist()) <= set(rows.tolist())
        if self.has_terms:
            matching = made.sparse.matching(words(2), allowed=mask)
            asked = np.sort(words(2).terms)
            assert opened.terms(TERMS).matching(asked, len(made), within=within).tolist() == matching.tolist()
            for limit in (1, 5, len(made)):
                few = opened.terms(TERMS).matching(asked, limit, within=within)
                assert len(few) == min(limit, len(matching)) == opened.terms(TERMS).count(asked, limit, within=within)
                assert set(few.tolist()) <= set(matching.tolist())
            every = np.arange(len(made))[::-1]
            wanted = made.sparse.score(words(2), every)
            assert np.allclose(opened.terms(TERMS).scores(words(2), every), wanted, rtol=1e-5, atol=1e-6)
            found, scores = opened.terms(TERMS).nearest(words(2), len(made), within=within)
            assert sorted(found.tolist()) == matching.tolist()
            assert np.allclose(scores, made.sparse.score(words(2), found), rtol=1e-5, atol=1e-6)
            assert bool((np.diff(scores) <= 0).all())

    def test_exact_lists_of_vectors_are_the_best_rows(self, engine: Engine) -> None:
        self.needs("has_vectors")
        made = content(200)
        collection = self.opened(engine, made).vectors(VECTORS)
        stored = collection.vectors(np.arange(200))
        for seed in range(10):
            rows, _ = collection.nearest(vector(seed), 10, exact=True)
            exact = np.einsum("ij,j->i", stored, vector(seed))
            assert len(set(rows.tolist())) == 10
            assert float(exact[rows].min()) >= float(np.sort(exact)[-10]) - CLOSE

    @pytest.mark.parametrize("sent", ["rows", "conditions", "nothing"])
    def test_records_of_two_tenants_are_never_mixed(self, engine: Engine, sent: str) -> None:
        half = content(750)
        made = twins(half)
        opened = self.opened(engine, made)
        for tenant in ("a", "b"):
            mask = np.array([label.tenant == tenant for label in made.labels])
            asked: dict[str, Any] = {"allowed": [mask], "visible": [mask]}
            if sent == "conditions":
                asked["conditions"] = [[AnyOf("tenant", [tenant])]]
            if sent == "rows":
                asked = {name: [mask & (np.arange(1500) % 2 == 0)] for name in asked}
            for index, query in self.indexes(engine, opened, made):
                (found,) = index.search([query(3)], depth=100, **asked)
                assert {made.labels[row].tenant for row in found.rows.tolist()} == {tenant}
                assert found.before == found.after <= 750

    def indexes(
        self, engine: Engine, opened: EngineGeneration, made: Content
    ) -> list[tuple[Any, Callable[[int], Any]]]:
        found: list[tuple[Any, Callable[[int], Any]]] = []
        if self.has_vectors:
            found.append((self.vector_index(engine, opened, made), vector))
        if self.has_terms:
            found.append((self.term_index(engine, opened, made), words))
        return found


def twins(half: Content) -> Content:
    """Return each row twice, equal except for the tenant: a and b."""
    labels = [
        label._replace(id=f"{label.id} {tenant}", tenant=tenant, fields={**label.fields, "tenant": [tenant]})
        for tenant in "ab"
        for label in half.labels
    ]
    starts = np.append(half.starts, half.starts[1:] + len(half))
    return Content(np.concatenate([half.vectors] * 2), [*half.weights, *half.weights], labels, starts)
