"""Facets: how many of the records that match a question have each value of a field.

The records of `total_matches` are counted. For a field that filters concern, these filters do not apply, so that the
other values of the field can be chosen; the tenant, exclusions, ids and all other filters do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.frozen import replace
from retrieve_cli.search.ranking import rank
from retrieve_cli.storage.records.view import RecordView

if TYPE_CHECKING:
    from retrieve_cli.contracts import Query, Question, Ranking
    from retrieve_cli.retrieval.stages.pipeline import Pipeline
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions
    from retrieve_cli.search.questions import RequestReader
    from retrieve_cli.storage.generation import Generation

MOST_VALUES = 50
"""Values of a field that an answer lists."""


class Facet(NamedTuple):
    """Values of a field among the records that match."""

    values: tuple[tuple[str, int], ...]
    """The most frequent values with their numbers of records, most frequent first; of equal ones in their order."""
    others: int
    """Number of further values."""


def expect_fields(generation: Generation, queries: Iterable[Query], fields: Sequence[str]) -> None:
    """Hold the fields of facets to those that the visible records have.

    Raises:
        UsageError: no visible record has such a field; names the nearest that one has.
    """
    for query in queries:
        columns = RecordView(generation, query.visible).columns
        for field in fields:
            columns.find(field)


class FacetCounter(NamedTuple):
    """Counts the values of fields for the questions of a batch."""

    opened: Opened
    reader: RequestReader
    retrievers: tuple[str, ...]
    """Those that answered the batch."""
    options: SearchOptions

    def facets_of(self, questions: Sequence[Question], rankings: Sequence[Ranking]) -> list[dict[str, Facet]]:
        """Return the facets of each question by field, from the ranking that answers it.

        Raises:
            UsageError: no visible record has such a field.
        """
        fields = tuple(dict.fromkeys(self.options.facets))
        others = self._under_other_filters(questions, rankings)
        return [
            {field: self._facet(field, others.get((place, field), ranking)) for field in fields}
            for place, ranking in enumerate(rankings)
        ]

    def _under_other_filters(
        self, questions: Sequence[Question], rankings: Sequence[Ranking]
    ) -> dict[tuple[int, str], Ranking]:
        """The rankings of questions without their filters on a field, by place of the question and field."""
        queries: dict[tuple[int, str], Query] = {}
        for place, (question, ranking) in enumerate(zip(questions, rankings, strict=True)):
            for field in self.options.facets if question.filters else ():
                if (masks := self.reader.beside(question.request, field)) is not None:
                    records, chunks = masks
                    other = {"records": records, "chunks": chunks, "conditions": None}
                    also = tuple(replace(variant, **other) for variant in ranking.query.also)
                    queries[place, field] = replace(ranking.query, **other, also=also)
        if not queries:
            return {}
        names = () if self.options.dense_only else self.retrievers
        options = replace(self.options.whole, retrievers=names, deadline_ms=None)
        matching = rank(self.opened, list(queries.values()), options, _retrieving).rankings
        return dict(zip(queries, matching, strict=True))

    def _facet(self, field: str, ranking: Ranking) -> Facet:
        generation = self.opened.generation
        column = RecordView(generation, ranking.query.visible).columns.find(field)
        matched = np.zeros(len(generation.records), np.bool_)
        if ranking.matches is not None:
            rows, starts = ranking.matches.rows(), generation.starts
            matched[rows if self.options.unit == "record" else np.searchsorted(starts, rows, side="right") - 1] = True
        counts = column.within(matched).counts()
        return Facet(tuple(islice(counts.items(), MOST_VALUES)), max(len(counts) - MOST_VALUES, 0))


def _retrieving(pipeline: Pipeline) -> Pipeline:
    """The pipeline up to what the retrievers match."""
    return pipeline.without("rerank").without("expand")
