"""Query relaxation: a query with too few results is retried with fewer terms; the text with most results answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from retrieve_cli.config.settings import RelaxationSettings
from retrieve_cli.contracts import Analyzer, Query, Question, Ranking
from retrieve_cli.queries.fewer_words import broader
from retrieve_cli.search.answer import Attempt


def relaxed(
    questions: Sequence[Question],
    rankings: Sequence[Ranking],
    settings: RelaxationSettings,
    *,
    analyzer: Callable[[], Analyzer],
    rank: Callable[[Sequence[Query]], Sequence[Ranking]],
    most: int,
) -> tuple[list[Ranking], list[tuple[Attempt, ...]]]:
    """Return the ranking of each question by the text with the most results, the first of equals; and its
    attempts, if any.

    `rankings` are those of their own texts; the ones that are still too short are retried as one batch by `rank`.
    There are `most` results at most.
    """
    best = list(rankings)
    attempts = [[Attempt(ranking.query.text, _good(ranking))] for ranking in rankings]
    texts = [
        _texts(question, analyzer(), most=settings.max_retries)
        if _good(ranking) < _enough(question, settings.min_results, most)
        else []
        for question, ranking in zip(questions, rankings, strict=True)
    ]
    for retry in range(settings.max_retries):
        short = [
            at
            for at, question in enumerate(questions)
            if retry < len(texts[at]) and _good(best[at]) < _enough(question, settings.min_results, most)
        ]
        if not short:
            break
        queries = [shortened(questions[at], texts[at][retry]) for at in short]
        for at, found in zip(short, rank(queries), strict=True):
            attempts[at].append(Attempt(found.query.text, _good(found)))
            if _good(found) > _good(best[at]):
                best[at] = found
    return best, [tuple(tried) if len(tried) > 1 else () for tried in attempts]


def _good(ranking: Ranking) -> int:
    """Number of hits that are good enough: those that only fill up a short answer are not."""
    return max(len(ranking.hits) - int(ranking.trace.get("threshold", {}).get("topped_up", 0)), 0)


def _enough(question: Question, least: int, most: int) -> int:
    """Number of results that are enough: never more than were requested, or may be found."""
    allowed = question.query.records
    return min(least, most if allowed is None else min(most, int(allowed.sum())))


def _texts(question: Question, analyzer: Analyzer, *, most: int) -> list[str]:
    """Texts to retry with: fewer words of the question."""
    words = [question.clean[start:end] for start, end, _ in analyzer.spans(question.clean)]
    return broader(words, most=most)


def shortened(question: Question, text: str) -> Query:
    """The query of a question in fewer words; the tokens of its files stay."""
    return replace(question.query, text=" ".join([text, *question.appended]), also=())


def answered(question: Question, attempts: Sequence[Attempt]) -> Query:
    """The query whose ranking is the answer, after these attempts: the first of those that found the most."""
    best = max(attempts, key=lambda attempt: attempt.results, default=None)
    if best is None or best is attempts[0]:
        return question.query
    return shortened(question, best.text.removesuffix(" ".join(["", *question.appended])))
