"""Indexes over an engine: what they make of its lists, and what they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engines.contents import Content, content
from engines.suite_base import in_order, vector, words

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Within
from retrieve_cli.engines.index import EngineIndex, TermEngineIndex
from retrieve_cli.errors import IndexCorrupt, Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

ROWS = 3000


class Listing:
    """A collection that lists the rows of a local index, ignores conditions, and notes what it is asked."""

    def __init__(self, local: Any) -> None:
        self._local = local
        self.asked: list[tuple[int, Within | None]] = []

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        self.asked.append((limit, within))
        rows = None if within is None or within.rows is None else [np.isin(np.arange(ROWS), within.rows)]
        (found,) = self._local.search([query], depth=limit, allowed=rows)
        return found.rows, found.scores


@pytest.fixture(scope="module")
def made() -> Content:
    return content(ROWS)


def index(local: Any, *, most_rows: int = 700, kind: Any = EngineIndex) -> tuple[EngineIndex[Any], Listing]:
    collection = Listing(local)
    able = Capabilities(most_rows)
    return kind(local, collection, capabilities=able, form=lambda query: query, lowest=in_order), collection


def test_conditions_that_are_ignored_let_no_row_through(made: Content) -> None:
    for conditions in ([AnyOf("decile", ["3"])], [AnyOf("modality", ["kind 1"], negated=True)]):
        mask = made.admitted(conditions)
        for local, query, kind in ((made.dense, vector(1), EngineIndex), (made.sparse, words(1), TermEngineIndex)):
            remote, _ = index(local, most_rows=0, kind=kind)
            (found,) = remote.search([query], depth=100, allowed=[mask], conditions=[conditions])
            (wanted,) = local.search([query], depth=100, allowed=[mask])
            assert mask[found.rows].all()
            assert (found.before, found.after) == (wanted.before, wanted.after)
            assert found.rows.tolist() == wanted.rows[: len(found.rows)].tolist()


def test_few_rows_are_named_and_many_are_described(made: Content) -> None:
    remote, collection = index(made.dense)
    conditions = [AnyOf("decile", ["3"])]
    few, many = np.arange(ROWS) < 300, np.arange(ROWS) < 600
    for mask, stated in ((few, conditions), (many, conditions), (many, None), (np.ones(ROWS, np.bool_), None)):
        (found,) = remote.search([vector(1)], depth=50, allowed=[mask], conditions=[stated])
        (wanted,) = made.dense.search([vector(1)], depth=50, allowed=[mask])
        assert found.rows.tolist() == wanted.rows[: len(found.rows)].tolist()
    named, described, numbered, neither = (within for _, within in collection.asked)
    assert named is not None
    assert named.rows is not None
    assert named.rows.tolist() == list(range(300))
    assert described == Within(conditions=conditions)
    assert numbered is not None
    assert numbered.rows is not None
    assert neither is None


def test_mean_and_deviation_are_of_the_list(made: Content) -> None:
    (found,) = index(made.dense)[0].search([vector(1)], depth=20)
    assert (found.mean, found.deviation) == (float(found.scores.mean()), float(found.scores.std()))


def test_a_request_that_can_find_nothing_is_not_sent(made: Content) -> None:
    remote, collection = index(made.sparse, kind=TermEngineIndex)
    (found,) = remote.search([words(1)], depth=10, allowed=[np.zeros(ROWS, np.bool_)])
    assert (len(found.rows), found.after) == (0, 0)
    assert not collection.asked
    nothing = TermWeights(np.empty(0, np.int32), np.empty(0, np.float32))
    (found,) = remote.search([nothing], depth=10)
    assert (len(found.rows), found.before, found.after) == (0, 0, 0)


@pytest.mark.parametrize("failure", [Unavailable("the server is down", hint="start it"), IndexCorrupt("row 3")])
def test_failures_of_an_engine_pass_through(made: Content, failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise failure

    remote, collection = index(made.dense)
    monkeypatch.setattr(collection, "nearest", fails)
    for queries in ([vector(1)], [vector(1), vector(2)]):
        with pytest.raises(type(failure)) as caught:
            remote.search(queries, depth=3)
        assert caught.value is failure
