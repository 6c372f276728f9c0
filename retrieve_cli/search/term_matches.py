"""Words that a question and the index share: spans in a text, retrievers without any, and answers that match badly."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Analyzer, Index, Matching, Query, Ranking, Worded
from retrieve_cli.contracts.terms import figures
from retrieve_cli.contracts.terms.words import fold, has_words, is_plain, words_of
from retrieve_cli.errors import quoted
from retrieve_cli.search.answer import removed_by
from retrieve_cli.search.results import Shown

if TYPE_CHECKING:
    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.storage.generation import Generation

_CALIBRATE = "retrieve eval --gold FILE --calibrate gives each result a confidence"


def matching_words(reader: Callable[[], Analyzer], query: str, text: str) -> list[tuple[int, int]]:
    """Return the spans of the words of `text` that share a term with the query; overlapping ones are joined."""
    analyzer = reader()
    found = analyzer.shared(query, text)
    if text.isascii() or is_plain(text):
        return found
    wanted = set(analyzer.terms(query))
    found += [(start, end) for start, end in words_of(text)[1] if fold(text[start:end]) in wanted]
    joined: list[tuple[int, int]] = []
    for span in sorted(found):
        before = joined.pop() if joined and span[0] < joined[-1][1] else span
        joined.append((before[0], max(before[1], span[1])))
    return joined


def silent(
    opened: Opened, query: Query, retrievers: Sequence[str], *, reader: Callable[[], Analyzer]
) -> dict[str, str]:
    """Return the retrievers that ran without effect on a query, and why: they compare terms, and no record that may be
    found has one of its stop words, the only words that it has."""
    return {
        name: "the query has only stop words"
        for name, _ in _analyzers(opened.indexes, retrievers)
        if has_words(query.text) and not reader().terms(query.text)
        if not _matched(opened.generation, opened.indexes[name], query)
    }


def weak_matches(
    opened: Opened,
    query: Query,
    retrievers: Collection[str],
    *,
    mute: Mapping[str, str],
    ranking: Ranking,
    shown: Shown,
) -> Iterator[str]:
    """Yield reasons to doubt an answer: it has only stop words, no word of it occurs, or the best confidence is low.

    A retriever that compares vectors always finds something near. `mute` are the retrievers without effect on the
    query.
    """
    generation, indexes = opened.generation, opened.indexes
    yield from (f"{name} is skipped: {why}" for name, why in mute.items())
    names = [name for name, _ in _analyzers(indexes, retrievers) if name not in mute]
    possible = query.records is None or bool(query.records.any())
    if (
        names
        and possible
        # A hit on the list of one of them has a word: none need be asked again.
        and not any(one.source in names and one.rank is not None for hit in ranking.hits for one in hit.evidence)
        and not any(_matched(generation, indexes[name], query) for name in names)
    ):
        where = "the records that may be found" if query.narrowed else "the index"
        notice = f"no word of the query occurs in {where}"
        if shown.results:
            notice += ": the results are the nearest by meaning, which may be far"
            notice += "" if os.path.lexists(opened.store.calibration) else f" ({_CALIBRATE})"
        yield notice
    if len(ranking.hits) == (shown.confidence or {}).get("left_out", 0):  # and not only of a page after the last one
        yield from _all_removed(generation, ranking, shown)
    if shown.confidence and shown.results:
        best = max(result.confidence or 0.0 for result in shown.results)
        average = float(shown.confidence["base_rate"])
        if best < average:
            judged = f"{average:.0%} of the results of the judged queries were relevant"
            yield f"nothing matches well: the best result has a confidence of {best:.2g}, and {judged}"


def _all_removed(generation: Generation, ranking: Ranking, shown: Shown) -> Iterator[str]:
    """Yield a sentence for each threshold, if they left no result, with the best value that failed."""
    trace = ranking.trace
    similar, scored = trace.get("threshold", {}).get("most_similar"), trace.get("rerank", {}).get("hits")
    for name, count in removed_by(trace, shown.confidence).items():
        key, _, _ = name.partition(" ")
        best = ""
        if key in ("search.grade", "search.max_distance") and similar is not None:
            encoder = generation.manifest.recipe.encoder_card.name
            best = f": the most similar has {figures.rounded(similar)} by the encoder {quoted(encoder)}"
        elif key == "rerank.min_score" and scored:
            best = f": the best score of the reranker is {figures.rounded(scored[0]['score'])}"
        removable = key.startswith(("search.", "rerank."))
        hint = f"; `{key}: null` in config.yaml removes the threshold" if removable else ""
        yield f"no result passes {name}, which removed {figures.count(count, 'result')}{best}{hint}"


def _analyzers(indexes: Indexes, retrievers: Collection[str]) -> list[tuple[str, Analyzer]]:
    """The retrievers that compare terms, and what reads text into these."""
    analyzers = {name: retriever(name).analyzer(indexes[name]) for name in retrievers if name in indexes}
    return [(name, analyzer) for name, analyzer in analyzers.items() if analyzer is not None]


def _matched(generation: Generation, opened: Index[Any], query: Query) -> bool:
    """Return True if a record that may be found shares a term with any text of a query."""
    index: Any = getattr(opened, "local", opened)  # of an index in an engine
    starts = generation.starts if index.unit == "chunk" else None
    if not isinstance(index, Matching):
        return True
    own = query.own if query.own is None or starts is None else np.repeat(query.own, np.diff(starts))
    texts = (Worded.of(text, (), own) for text in (query.text, *(other.text for other in query.also)))
    return any(len(index.matching(text, starts=starts, allowed=query.records)) for text in texts)
