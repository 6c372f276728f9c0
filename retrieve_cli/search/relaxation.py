"""Query relaxation: a query for which the first stage finds too few candidates is retried with fewer terms.

It runs before any threshold, so that what a threshold removes stays removed, and a reranker reads one text only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrieve_cli.config.settings import RelaxationSettings
from retrieve_cli.contracts import Analyzer, Query, Question, Ranking
from retrieve_cli.frozen import Frozen, replace

_WORDS = (3, 2)
"""Content words of the first and of the second retry."""


class Attempt(Frozen):
    """A text of a question that was searched for, and the number of results that were good enough."""

    text: str
    results: int


class Relaxation:
    """The retries of some questions, with at most `most` results each."""

    def __init__(
        self,
        questions: Sequence[Question],
        settings: RelaxationSettings,
        analyzer: Callable[[Question], Analyzer],
        *,
        most: int,
    ) -> None:
        self._questions = questions
        self._settings = settings
        self._analyzer = analyzer
        self._most = most
        self.attempts: list[tuple[Attempt, ...]] = [()] * len(questions)
        """The texts that were tried for each question, if others than the original were tried."""

    def __call__(
        self, rankings: Sequence[Ranking], retrieve: Callable[[Sequence[Query]], Sequence[Ranking]]
    ) -> list[Ranking]:
        """Return the candidates of each question by the text with the most results, the first of equals.

        `rankings` are the first stage's for the original texts; questions with too few results are retried as one batch
        by `retrieve`, the same stage.
        """
        best = list(rankings)
        attempts = [[Attempt(ranking.query.text, self._count(ranking))] for ranking in rankings]
        texts = [self._texts(question) if self._short(at, best) else [] for at, question in enumerate(self._questions)]
        for retry in range(self._settings.max_retries):
            short = [at for at in range(len(best)) if retry < len(texts[at]) and self._short(at, best)]
            if not short:
                break
            queries = [shortened(self._questions[at], texts[at][retry]) for at in short]
            for at, ranking in zip(short, retrieve(queries), strict=True):
                attempts[at].append(Attempt(ranking.query.text, self._count(ranking)))
                if self._count(ranking) > self._count(best[at]):
                    best[at] = ranking
        self.attempts = [tuple(tried) if len(tried) > 1 else () for tried in attempts]
        return best

    def _count(self, ranking: Ranking) -> int:
        """Number of results that the candidates may become."""
        return min(len(ranking.hits), self._most)

    def _short(self, at: int, rankings: Sequence[Ranking]) -> bool:
        """Return True if a question has fewer candidates than are enough: never more than may be found."""
        query = self._questions[at].query
        most = self._most
        if query.narrowed and query.records is not None:
            most = min(most, int(query.records.sum()))
        return self._count(rankings[at]) < min(self._settings.min_results, most)

    def _texts(self, question: Question) -> list[str]:
        words = [question.clean[start:end] for start, end, _ in self._analyzer(question).spans(question.clean)]
        return broader(words, most=self._settings.max_retries)


def broader(words: Sequence[str], *, most: int) -> list[str]:
    """Return at most `most` texts, each broader than the one before: the first three `words`, then the first two.

    `words` are the content words of the query, in order. A text with all of them is not broader, and is skipped.
    """
    return [" ".join(words[:count]) for count in _WORDS if count < len(words)][:most]


def shortened(question: Question, text: str) -> Query:
    """The query of a question in fewer words; the tokens of its files stay."""
    return replace(question.query, text=" ".join([text, *question.appended]), also=(), beside=())


def answered(question: Question, attempts: Sequence[Attempt]) -> Query:
    """The query whose ranking is the answer, after these attempts: the first of those that found the most."""
    best = max(attempts, key=lambda attempt: attempt.results, default=None)
    if best is None or best is attempts[0]:
        return question.query
    return shortened(question, best.text.removesuffix(" ".join(["", *question.appended])))
