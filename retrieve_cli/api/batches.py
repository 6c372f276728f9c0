"""Several requests of which some may be wrong: each gets its answer or its error, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Question, Request
from retrieve_cli.errors import STEP_FAILURES, RetrieveError, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.plan import check
from retrieve_cli.search.searcher import Searcher

if TYPE_CHECKING:
    from retrieve_cli.api.asked import Asked

Outcome = Answer | RetrieveError
_SOME_TEXT = "text"
Answering = Callable[[Sequence[Request]], list[Answer]]


def answer_groups(asked: Sequence[Asked], answer: Callable[[Sequence[Asked]], Sequence[Outcome]]) -> list[Outcome]:
    """Return the answer to each request or its error, in order. `answer` answers as one batch those that are answered
    alike, so that none depends on the others: of equal choices, generation and tenant.
    """
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(asked):
        alike = (one.generation, one.request.tenant, sorted(one.choices.items()))
        groups.setdefault(repr(alike), []).append(place)
    outcomes: dict[int, Outcome] = {}
    for places in groups.values():
        outcomes.update(zip(places, answer([asked[place] for place in places]), strict=True))
    return [outcomes[place] for place in range(len(asked))]


def answer_each(
    searcher: Searcher,
    requests: Sequence[Request],
    *,
    common: Request,
    answer: Answering,
) -> list[Outcome]:
    """Return the answer to each request, or the error of the request itself, in order.

    `common` is what all requests have in common: an error of that is the caller's and is raised. `answer` answers
    several requests as one batch, as `searcher` does.

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


def expect_sound(searcher: Searcher, common: Request, *, facets: Sequence[str] = ()) -> None:
    """Hold what all requests have in common to the index.

    Raises:
        UsageError: its filters, records, tenant or facets cannot be read, or the index does not have them.
    """
    _expect_facets(searcher, searcher.read([replace(common, text=_SOME_TEXT)]), facets)


def _fault(searcher: Searcher, request: Request) -> Outcome | None:
    """The error of a request by itself, before anything is searched."""
    try:
        searcher.check([request])
        questions = searcher.read([request])
        check([question.query for question in questions], replace(searcher.options, k=1))
        _expect_facets(searcher, questions, searcher.options.facets)
    except UsageError as error:
        return error
    return None


def _expect_facets(searcher: Searcher, questions: Sequence[Question], facets: Sequence[str]) -> None:
    """Raises: UsageError: no record that a question may find has one of the fields."""
    if facets:
        from retrieve_cli.search.facets import expect_fields

        expect_fields(searcher.opened.generation, [question.query for question in questions], facets)
