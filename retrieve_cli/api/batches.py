"""Several requests of which some may be wrong: each gets its answer or its error, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from retrieve_cli.contracts import Request
from retrieve_cli.errors import STEP_FAILURES, RetrieveError, UsageError
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.plan import check
from retrieve_cli.search.searcher import Searcher

_SOME_TEXT = "text"
Answering = Callable[[Sequence[Request]], list[Answer]]


def answer_each(
    searcher: Searcher, requests: Sequence[Request], *, common: Request, answer: Answering
) -> list[Answer | RetrieveError]:
    """Return the answer to each request, or the error of the request itself, in order.

    `common` is what all requests have in common: an error of that is the caller's and is raised. `answer` answers
    several requests as one batch, by `searcher`.

    Raises:
        RetrieveError: no request can be answered, whatever it says: the index is damaged or stale, a model is missing.
    """
    if not requests:
        return []
    try:
        return list(answer(requests))
    except (UsageError, *STEP_FAILURES):
        outcomes = {place: error for place, request in enumerate(requests) if (error := _fault(searcher, request))}
    if outcomes:
        expect_sound(searcher, common)
    for retrievers in dict.fromkeys(request.retrievers for request in requests):
        places = [
            place
            for place, request in enumerate(requests)
            if request.retrievers == retrievers and place not in outcomes
        ]
        try:
            answers = answer([requests[place] for place in places]) if places else []
            outcomes.update(zip(places, answers, strict=True))
        except STEP_FAILURES as error:
            if retrievers == common.retrievers:
                raise
            outcomes.update(dict.fromkeys(places, error))
    return [outcomes[place] for place in range(len(requests))]


def expect_sound(searcher: Searcher, common: Request) -> None:
    """Hold what all requests have in common to the index.

    Raises:
        UsageError: its filters, records or tenant cannot be read, or the index does not have them.
    """
    searcher.read([replace(common, text=_SOME_TEXT)])


def _fault(searcher: Searcher, request: Request) -> Answer | RetrieveError | None:
    """The error of a request by itself, before anything is searched."""
    try:
        searcher.check([request])
        check([question.query for question in searcher.read([request])], 1)
    except UsageError as error:
        return error
    return None
