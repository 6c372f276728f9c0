"""Indexes of several segments with deleted rows answer as one segment of the live rows, and merge to its bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st
from indexes.searches import shared_folder

from retrieve_cli.contracts import Field, TermWeights
from retrieve_cli.contracts.terms.languages import ENGLISH
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_formula import Formula
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors
from retrieve_cli.storage import pickles
from retrieve_cli.storage.token_table import ChunkTokenVectors, PackedTokens, Stretch, TokenTable, write

WORDS = "ct the lung-scan lungScan Lunge liver WHO die AT&T 3D segmentation".split()
Text = tuple[str, str, float, str]
texts: st.SearchStrategy[Text] = st.tuples(
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.sampled_from([ENGLISH, "de"]),
)
weights = st.dictionaries(st.integers(0, 9), st.floats(2**-10, 8, width=32), max_size=5)
tokens = st.lists(st.integers(0, 5), max_size=4)
vectors = st.lists(st.integers(-4, 4), min_size=3, max_size=3)


class Kind(NamedTuple):
    """How an index is written and opened."""

    write: Callable[[Sequence[Any]], Any]
    """The contents of a segment with some rows."""
    merge: Callable[[Sequence[tuple[Any, Any]]], Any]
    """The contents of one with rows of others, each with its new rows."""
    open: Callable[[Sequence[Any], Any, Any], Any]
    """The index of some contents, given the live rows and who chooses among equals."""


def _bm25() -> Bm25Writer:
    return Bm25Writer(analyzer=TextAnalyzer(stemming="auto", stop_words="auto"), unit="chunk")


def _write_bm25(rows: Sequence[Text]) -> Any:
    writer = _bm25()
    for text, name, weight, language in rows:
        writer.add([Field("name", name, weight), Field("text", text)], language)
    return writer.stored()


def _write_sparse(rows: Sequence[dict[int, float]]) -> Any:
    writer = SparseWriter(unit="chunk")
    for row in rows:
        writer.add(_terms(row))
    return writer.stored()


def _terms(row: dict[int, float]) -> TermWeights:
    return TermWeights(np.array(sorted(row), np.int32), np.array([row[term] for term in sorted(row)], np.float32))


def _merged(writer: Any, parts: Sequence[tuple[Any, Any]]) -> Any:
    for stored, rows in parts:
        writer.take(stored, rows)
    return writer.stored()


def _bm25_kind(formula: Formula) -> Kind:
    def opened(stored: Sequence[Any], live: Any, lowest: Any) -> Bm25Index:
        return Bm25Index(stored, formula=formula, live=live, lowest=lowest)

    return Kind(_write_bm25, lambda parts: _merged(_bm25(), parts), opened)


SPARSE = Kind(
    _write_sparse,
    lambda parts: _merged(SparseWriter(unit="chunk"), parts),
    lambda stored, live, lowest: SparseIndex(stored, lowest=lowest),
)
DENSE = Kind(
    lambda rows: FlatVectors(np.array(rows, np.float32).reshape(-1, 3)),
    lambda parts: None,
    lambda stored, live, lowest: DenseIndex(stored, lowest=lowest),
)


class History(NamedTuple):
    """Rows in segments, in another order than their ids; some are deleted."""

    rows: list[Any]
    order: list[int]
    """The id of each row."""
    cuts: list[int]
    live: Any

    def segments(self, kind: Kind) -> list[Any]:
        return [kind.write(self.rows[first:end]) for first, end in zip(self.cuts, self.cuts[1:], strict=False)]

    def fresh(self) -> list[int]:
        """The rows of a build of the same rows, in the order of their ids."""
        return sorted(np.flatnonzero(self.live).tolist(), key=self.order.__getitem__)

    def lowest(self, rows: Any, count: int, *, unit: str) -> Any:
        return np.array(sorted(rows.tolist(), key=self.order.__getitem__)[:count], np.int64)


def histories(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[History]:
    @st.composite
    def drawn(draw: Any) -> History:
        listed = draw(st.lists(rows, min_size=1, max_size=14))
        size = len(listed)
        cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=3))) if size > 1 else []
        live = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        return History(listed, draw(st.permutations(range(size))), [0, *cuts, size], live | (not live.any()))

    return drawn()


def check_answers(kind: Kind, history: History, query: Any, depth: int) -> tuple[Any, Any]:
    """Compare a search; return both indexes."""
    live, fresh = history.live, history.fresh()
    index = kind.open(history.segments(kind), None if live.all() else live, history.lowest)
    reference = kind.open([kind.write([history.rows[row] for row in fresh])], None, None)
    (found,) = index.search([query], depth=depth, allowed=[live], visible=[live])
    (expected,) = reference.search([query], depth=depth)

    assert [history.order[row] for row in found.rows] == [history.order[fresh[row]] for row in expected.rows]
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    assert (found.before, found.after) == (expected.before, expected.after)
    assert (found.mean, found.deviation) == pytest.approx((expected.mean, expected.deviation), abs=1e-9)
    assert index.score(query, np.array(fresh)).tolist() == reference.score(query, np.arange(len(fresh))).tolist()
    return index, reference


def check_bytes(kind: Kind, history: History, folder: Path) -> None:
    """Compare the file of a merge with the file of a build of the same rows."""
    new = np.full(len(history.rows), -1, np.int64)
    new[history.fresh()] = np.arange(len(history.fresh()))
    spans = zip(history.cuts, history.cuts[1:], strict=False)
    parts = [(stored, new[first:end]) for stored, (first, end) in zip(history.segments(kind), spans, strict=True)]
    pickles.dump(kind.merge(parts), folder / "merged.pkl")
    pickles.dump(kind.write([history.rows[row] for row in history.fresh()]), folder / "built.pkl")
    assert (folder / "merged.pkl").read_bytes() == (folder / "built.pkl").read_bytes()


variants = st.sampled_from(["lucene", "robertson", "atire", "okapi"])
queries = st.lists(st.sampled_from([*WORDS, "lungs", "unknown"]), max_size=4).map(" ".join)


@given(history=histories(texts), query=queries, variant=variants, depth=st.integers(1, 9))
def test_words_are_found_and_scored_as_in_one_segment(history: History, query: str, variant: Any, depth: int) -> None:
    index, reference = check_answers(_bm25_kind(Formula(variant)), history, query, depth)

    assert index.rows_by_language() == reference.rows_by_language()
    assert index.analyzer.languages == reference.analyzer.languages
    for term in reference.analyzer.query_terms(" ".join(WORDS)):
        assert index.rows_with(term) == reference.rows_with(term) == len(index.rows_of(term))


@shared_folder
@given(history=histories(texts))
def test_merged_words_have_the_bytes_of_a_build(history: History, tmp_path: Path) -> None:
    check_bytes(_bm25_kind(Formula()), history, tmp_path)


@shared_folder
@given(history=histories(weights), query=weights, depth=st.integers(1, 9))
def test_sparse_vectors_are_found_and_merged_as_in_one_segment(
    history: History, query: dict[int, float], depth: int, tmp_path: Path
) -> None:
    check_answers(SPARSE, history, _terms(query), depth)
    check_bytes(SPARSE, history, tmp_path)


@given(history=histories(vectors), query=vectors, depth=st.integers(1, 9))
def test_vectors_are_found_and_scored_as_in_one_segment(history: History, query: list[int], depth: int) -> None:
    index, reference = check_answers(DENSE, history, np.array(query, np.float32), depth)

    assert index.vectors(np.array(history.fresh())).tolist() == reference.vectors(np.arange(len(reference))).tolist()


@shared_folder
@given(history=histories(tokens))
def test_tokens_weigh_as_in_one_segment(history: History, tmp_path: Path) -> None:
    numbers = count()

    def table(rows: Sequence[list[int]]) -> TokenTable:
        path = tmp_path / f"{next(numbers)}.pkl"
        path.unlink(missing_ok=True)  # another example may have it mapped
        ids = np.array([number for row in rows for number in row], np.int32)
        packed = PackedTokens(ids, ids.astype(np.uint8)[:, None])
        stretch = Stretch(packed, np.array([len(row) for row in rows], np.int64))
        write(lambda stretch=stretch: [stretch], path, dim=4)
        return TokenTable(pickles.load(path))

    fresh = history.fresh()
    spans = zip(history.cuts, history.cuts[1:], strict=False)
    several = ChunkTokenVectors([table(history.rows[first:end]) for first, end in spans], history.live)
    single = ChunkTokenVectors([table([history.rows[row] for row in fresh])])

    assert several.idf(np.arange(9)).tolist() == single.idf(np.arange(9)).tolist()
    (ids, found, ends), (wanted, expected, stops) = several.tokens(fresh), single.tokens(range(len(fresh)))
    assert (ids.tolist(), ends.tolist()) == (wanted.tolist(), stops.tolist())
    assert found[:].tolist() == expected[:].tolist()
