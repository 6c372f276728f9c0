"""Answers of the indexes over an engine, which are those of local indexes of the same rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engines.contents import VECTORS, Content, content
from engines.suite_base import ERROR, Base, plain_conditions, same, vector, words
from hypothesis import strategies as st

from retrieve_cli.contracts import Candidates
from retrieve_cli.contracts.engines import AnyOf, Engine, EngineGeneration
from retrieve_cli.engines.listing import spread
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Mask, Rows

MakeQuery = Callable[[int], Any]
ROWS = 1500
"""More than an index reads without a list from the engine."""


def masks_of(made: Content, shares: float, conditions: list[AnyOf] | None, starts: Rows | None) -> Mask:
    """Return units that may be found: those that satisfy conditions, or without conditions a share of all."""
    if conditions is None:
        units = len(made) if starts is None else len(starts) - 1
        return np.random.default_rng(7).random(units) < shares
    rows = made.admitted(conditions)
    return rows if starts is None else np.logical_or.reduceat(rows, starts[:-1])


limits = (
    st.integers(0, 1000),
    st.sampled_from([1, 10, 100]),
    st.booleans(),
    st.none() | st.floats(0, 1) | st.lists(plain_conditions, min_size=1, max_size=2),
    st.booleans(),
)


def options(made: Content, grouped: bool, limit: Any, sent: bool) -> dict[str, Any]:
    """Return the restriction of a search; `sent` if its conditions are said in words too."""
    starts = made.starts if grouped else None
    if limit is None:
        return {"starts": starts}
    conditions = limit if isinstance(limit, list) else None
    visible = masks_of(made, 0.9, None, starts)
    allowed = masks_of(made, limit if conditions is None else 0.0, conditions, starts)
    return {"starts": starts, "allowed": [allowed], "visible": [visible]} | (
        {"conditions": [conditions]} if sent else {}
    )


def local(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "conditions"}


class AnswerSuite(Base):
    """Tests of lists and scores."""

    def test_lists_of_vectors_are_those_of_a_local_index(self, engine: Engine) -> None:
        self.needs("has_vectors")
        made = content(ROWS)
        opened = self.opened(engine, made)
        index = self.vector_index(engine, opened, made)
        reference = FlatIndex(index.vectors(np.arange(ROWS)))
        listed: list[tuple[int, int]] = []

        @self.law(*limits)
        def holds(seed: int, depth: int, grouped: bool, limit: Any, sent: bool) -> None:
            asked = options(made, grouped, limit, sent)
            (found,) = index.search([vector(seed)], depth=depth, **asked)
            (wanted,) = reference.search([vector(seed)], depth=depth, **local(asked))
            exact = reference.score(vector(seed), found.rows, starts=asked["starts"])
            assert np.allclose(found.scores, exact, rtol=ERROR, atol=ERROR)
            assert (found.mean, found.deviation) == spread(found.scores)
            assert len(found.rows) <= len(wanted.rows)
            if self.exact_nearest:
                assert same(found, wanted)
            assert (found.before, found.after) == (wanted.before, wanted.after)
            shared = set(found.rows.tolist()) & set(wanted.rows.tolist())
            listed.append((len(shared), len(wanted.rows)))

        holds()
        shared, wanted = map(sum, zip(*listed, strict=True))
        assert shared >= self.recall * wanted

    def test_lists_of_terms_are_those_of_a_local_index(self, engine: Engine) -> None:
        self.needs("has_terms")
        made = content(ROWS)
        index, reference = self.term_index(engine, self.opened(engine, made), made), made.sparse

        @self.law(*limits)
        def holds(seed: int, depth: int, grouped: bool, limit: Any, sent: bool) -> None:
            asked = options(made, grouped, limit, sent)
            (found,) = index.search([words(seed)], depth=depth, **asked)
            (wanted,) = reference.search([words(seed)], depth=depth, **local(asked))
            assert same(found, wanted)
            for mask in asked.get("allowed", [None]):
                matching = index.matching(words(seed), starts=asked["starts"], allowed=mask)
                listed = reference.matching(words(seed), starts=asked["starts"], allowed=mask)
                assert matching.tolist() == listed.tolist()
            assert found.relation == "eq"  # 1,500 rows are counted

        holds()

    def test_scores_of_given_rows_are_those_of_a_local_index(self, engine: Engine) -> None:
        made = content(ROWS)
        random = np.random.default_rng(0)
        for found, query in self.indexes(engine, self.opened(engine, made), made):
            wanted = FlatIndex(found.vectors(np.arange(ROWS))) if query is vector else made.sparse
            for starts in (None, made.starts):
                for count in (0, 1, 30, 900):
                    rows = random.integers(0, ROWS if starts is None else len(starts) - 1, count)
                    scores = found.score(query(count), rows, starts=starts)
                    exact = wanted.score(query(count), rows, starts=starts)
                    assert np.allclose(scores, exact, rtol=ERROR, atol=ERROR)

    def test_an_answer_does_not_depend_on_the_batch(self, engine: Engine) -> None:
        made = content(ROWS)
        opened = self.opened(engine, made)
        masks = [None, masks_of(made, 0.5, None, None), None, masks_of(made, 0.01, None, None)] * 2
        for index, query in self.indexes(engine, opened, made):
            queries = [query(seed) for seed in range(8)]
            together = index.search(queries, depth=10, allowed=masks)
            alone = [
                index.search([each], depth=10, allowed=[mask])[0] for each, mask in zip(queries, masks, strict=True)
            ]
            assert all(same(*pair) for pair in zip(together, alone, strict=True))

    def test_threads_share_an_engine(self, engine: Engine) -> None:
        made = content(ROWS)
        opened = self.opened(engine, made)
        for index, query in self.indexes(engine, opened, made):
            ask = partial(listed, index, query)
            with ThreadPoolExecutor(8) as threads:
                found = list(threads.map(ask, [*range(8)] * 3))
            assert all(same(*pair) for pair in zip(found, [ask(seed) for seed in range(8)] * 3, strict=True))

    def indexes(self, engine: Engine, opened: EngineGeneration, made: Content) -> list[tuple[Any, MakeQuery]]:
        found: list[tuple[Any, MakeQuery]] = []
        if self.has_vectors:
            found.append((self.vector_index(engine, opened, made), vector))
        if self.has_terms:
            found.append((self.term_index(engine, opened, made), words))
        return found

    @pytest.mark.parametrize("sent", ["rows", "conditions", "nothing"])
    def test_records_of_two_tenants_are_never_mixed(self, engine: Engine, sent: str) -> None:
        half = content(ROWS // 2)
        made = twins(half)
        opened = self.opened(engine, made)
        for tenant in ("a", "b"):
            mask = np.array([label.tenant == tenant for label in made.labels])
            asked: dict[str, Any] = {"allowed": [mask], "visible": [mask]}
            if sent == "conditions":
                asked["conditions"] = [[AnyOf("tenant", [tenant])]]
            if sent == "rows":
                asked = {name: [mask & (np.arange(ROWS) % 2 == 0)] for name in asked}
            for index, query in self.indexes(engine, opened, made):
                (found,) = index.search([query(3)], depth=100, **asked)
                assert {made.labels[row].tenant for row in found.rows.tolist()} == {tenant}
                assert found.before == found.after <= ROWS // 2

    def test_twenty_thousand_rows_are_found_as_declared(self, engine: Engine) -> None:
        made = content(20_000)
        opened = self.opened(engine, made)
        if self.has_vectors:
            self.recalls(opened, FlatIndex(opened.vectors(VECTORS).vectors(np.arange(20_000))))
        for index, query in self.indexes(engine, opened, made):
            reference = FlatIndex(made.vectors) if query is vector else made.sparse
            for seed in range(20):
                (found,) = index.search([query(seed)], depth=100, starts=made.starts)
                (wanted,) = reference.search([query(seed)], depth=100, starts=made.starts)
                assert len(found.rows) == len(wanted.rows)
                if query is words or self.exact_nearest:
                    assert same(found, wanted)

    def recalls(self, opened: EngineGeneration, reference: FlatIndex) -> None:
        """Compare lists of ten with those of a local index; equal scores count as found."""
        shares = []
        for seed in range(100):
            rows, _ = opened.vectors(VECTORS).nearest(vector(seed), 10)
            (wanted,) = reference.search([vector(seed)], depth=10)
            shares.append(float((reference.score(vector(seed), rows) >= wanted.scores[-1] - 1e-6).sum()) / 10)
        assert np.mean(shares) >= (1.0 if self.exact_nearest else self.recall)


def listed(index: Any, query: MakeQuery, seed: int) -> Candidates:
    (found,) = index.search([query(seed)], depth=10)
    return found


def twins(half: Content) -> Content:
    """Return each row twice, once of tenant a and once of tenant b, which cannot be told apart otherwise."""
    labels = [
        label._replace(id=f"{label.id} {tenant}", tenant=tenant, fields={**label.fields, "tenant": [tenant]})
        for tenant in "ab"
        for label in half.labels
    ]
    starts = np.append(half.starts, half.starts[1:] + len(half))
    return Content(np.concatenate([half.vectors] * 2), [*half.weights, *half.weights], labels, starts)
