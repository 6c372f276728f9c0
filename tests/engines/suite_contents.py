"""Promises on what an engine stores, and on what it finds of that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engines.contents import GENERATION, INJECTIONS, ODD, VECTORS, Content, content
from engines.suite_base import Base, plain_conditions, vector
from hypothesis import strategies as st

from retrieve_cli.contracts.engines import AnyOf, Engine, Within


class ContentSuite(Base):
    """Tests of rows, conditions and lists."""

    def test_texts_of_any_kind_are_stored_and_found_by_conditions(self, engine: Engine) -> None:
        odd = (*ODD, *INJECTIONS, "a\0b", "a", "\0")
        made = content(130, odd=odd)
        opened = self.opened(engine, made)
        for text in odd:
            for condition in (
                AnyOf("odd", [text]),
                AnyOf(text or "empty", ["named"]),
                AnyOf("odd", [text, "x"], negated=True),
            ):
                self.expect_conditions(opened, made, [condition])
        assert [each.complete for each in engine.generations()] == [True]
        assert {engine.open(GENERATION).count(part.name) for part in self.parts(made)} == {130}

    def test_a_search_finds_only_the_rows_that_it_is_restricted_to(self, engine: Engine) -> None:
        made = content(200)
        opened = self.opened(engine, made)
        most = min(len(made), engine.capabilities.most_rows)

        @self.law(st.lists(plain_conditions, max_size=3), st.sets(st.integers(0, 199), max_size=most))
        def holds(conditions: list[AnyOf], listed: set[int]) -> None:
            self.expect_conditions(opened, made, conditions)
            rows = np.array(sorted(listed), np.int64)
            self.expect(opened, made, Within(rows=rows), rows)

        holds()

    def test_the_nearest_vectors_are_listed_first(self, engine: Engine) -> None:
        self.needs_vectors()
        made = content(200)
        collection = self.opened(engine, made).collection(VECTORS)
        for seed in range(10):
            rows, _ = collection.nearest(vector(seed), 10)
            exact = made.vectors @ vector(seed)
            assert len(set(rows.tolist())) == 10
            assert float(exact[rows].min()) >= float(np.sort(exact)[-10]) - 1e-4

    def needs_vectors(self) -> None:
        if not self.has_vectors:
            pytest.skip("the engine holds no vectors")

    @pytest.mark.parametrize("sent", ["rows", "conditions", "nothing"])
    def test_records_of_two_tenants_are_never_mixed(self, engine: Engine, sent: str) -> None:
        half = content(750)
        made = twins(half)
        opened = self.opened(engine, made)
        for tenant in ("a", "b"):
            mask = np.array([label.tenant == tenant for label in made.labels])
            options: dict[str, Any] = {"allowed": [mask], "visible": [mask]}
            if sent == "conditions":
                options["conditions"] = [[AnyOf("tenant", [tenant])]]
            if sent == "rows":
                options = {name: [mask & (np.arange(1500) % 2 == 0)] for name in options}
            for index, query in self.indexes(engine, opened, made):
                (found,) = index.search([query(3)], depth=100, **options)
                assert {made.labels[row].tenant for row in found.rows.tolist()} == {tenant}
                assert found.before == found.after <= 750


def twins(half: Content) -> Content:
    """Return each row twice, equal except for the tenant: a and b."""
    labels = [
        label._replace(id=f"{label.id} {tenant}", tenant=tenant, fields={**label.fields, "tenant": [tenant]})
        for tenant in "ab"
        for label in half.labels
    ]
    starts = np.append(half.starts, half.starts[1:] + len(half))
    return Content(np.concatenate([half.vectors] * 2), [*half.weights, *half.weights], labels, starts)
