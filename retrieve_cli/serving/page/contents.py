"""Contents of the pages: read from the index, as values for the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.api import contents
from retrieve_cli.api.neighbourhood import neighbourhood
from retrieve_cli.errors import NotFound, RetrieveError, UsageError
from retrieve_cli.inspect.why import why_empty
from retrieve_cli.output.formats import answer_json
from retrieve_cli.search.answer import Answer
from retrieve_cli.serving.answers import rejection
from retrieve_cli.serving.page.address import SIZE, Address
from retrieve_cli.serving.page.facets import chips, facets, fields_of
from retrieve_cli.serving.page.record_view import CHUNKS, around, record_view
from retrieve_cli.serving.page.view import Shown, shown
from retrieve_cli.terms import figures

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.api.live import LiveIndex

RERANKING = (("", "As configured"), ("yes", "On"), ("no", "Off"))


class About(NamedTuple):
    """The generation that answers."""

    generation: str
    pinned: bool
    """True if it is not the current one."""
    at: str
    age: str
    records: str
    chunks: str


class Problem(NamedTuple):
    """A failure, in words."""

    message: str
    hint: str


class Page(NamedTuple):
    """A page, for its template."""

    values: Mapping[str, Any]
    status: int = 200
    answers: Sequence[Answer] = ()
    """Answers to its searches."""


def search_page(live: LiveIndex, address: Address, tenant: str | None) -> Page:
    """Return the search page."""
    values = _search_values(address)
    try:
        index = live.at(address.generation or None)
    except UsageError as error:
        return Page({**values, "error": Problem(error.message, error.hint)}, 404)
    with index.reading() as generation:
        visible = contents.visible_to(generation, tenant)
        fields = fields_of(generation, visible)
    values |= {"about": about(live, index, tenant), "modes": modes(index)}
    if not address.query:
        return Page(values)
    asked = None
    try:
        asked = address.asked(facets=fields, tenant=tenant)
        (outcome,) = live.answer([asked._replace(generation=index.generation)])
    except RetrieveError as error:
        outcome = error
    if isinstance(outcome, RetrieveError):
        problem = Problem(outcome.message, outcome.hint)
        return Page({**values, "error": problem, "count": "The query has an error."}, rejection(outcome).status)
    return Page({**values, **_answered(index, outcome, address)}, answers=[outcome])


def _search_values(address: Address) -> dict[str, Any]:
    """Return the values of a search page without an answer."""
    return {
        "address": address,
        "chips": chips(address),
        "kept": address.filters,
        "bare": address.without(*address.filters).url(),
        "reranking": RERANKING,
        "opened": False,
        **dict.fromkeys(("about", "answer", "error", "before", "after")),
        **dict.fromkeys(("modes", "facets"), ()),
        "count": "",
    }


def _answered(index: Index, answer: Answer, address: Address) -> dict[str, Any]:
    """Return the values of the page that an answer adds."""
    offset = (address.page - 1) * SIZE
    found = shown(answer, offset=offset)
    boxes = facets(answer_json(answer).get("facets") or {}, address)
    ticked = {box.filter for facet in boxes for box in (*facet.boxes, *facet.more)}
    more = SIZE == len(found.hits) < found.total - offset
    lines = why_empty(index.opened, answer) if not found.hits and address.page == 1 else []
    return {
        "answer": found,
        "count": _count(found, offset),
        "facets": boxes,
        "kept": [text for text in address.filters if text not in ticked],
        "before": address._replace(page=address.page - 1).url() if address.page > 1 else None,
        "after": address._replace(page=address.page + 1).url() if more else None,
        "first": address._replace(page=1).url(),
        "past": not found.hits and address.page > 1,
        "empty": lines,
        "lost": lost(answer, lines),
        "compared": "/compare?" + address._replace(page=1).url().partition("?")[2],
        "pinned": address._replace(generation=answer.generation).url(),
    }


def lost(answer: Answer, lines: list[str]) -> str:
    """Return the stage that dropped the last hit of an empty answer, in words."""
    allowed, before = answer.question.query.records, ""
    if allowed is not None and not allowed.any():
        return "No record passes all filters."
    for stage, hits in answer.stages:
        if not hits:
            return f"{before}{stage} passed on none." if before else f"{stage} found nothing that matches."
        before = f"{stage} passed on {figures.count(hits, 'hit')}, and "
    return f"{before}none of them is shown." if before else (lines or ["Nothing matches."])[0]


def _count(found: Shown, offset: int) -> str:
    """Return how many results there are, and which of them are shown."""
    if not found.hits:
        return "No results"
    total = figures.count(max(found.total, offset + len(found.hits)), "match", "matches")
    return f"{offset + 1}–{offset + len(found.hits)} of {total}"


def modes(index: Index) -> list[tuple[str, str]]:
    """Return the choices of retrievers."""
    names = index.opened.generation.manifest.recipe.retrievers
    return [("", "As configured"), ("hybrid", "All (hybrid)"), *((name, f"{name} only") for name in names)]


def about(live: LiveIndex, index: Index, tenant: str | None) -> About:
    """Return what the page says of a generation; a tenant is told the number of its own records, and of no chunks."""
    with index.reading() as generation:
        visible = contents.visible_to(generation, tenant)
        records = len(generation.records) if visible is None else int(visible.sum())
        chunks = len(generation.chunks)
        if visible is not None:
            import numpy as np

            chunks = int(np.diff(generation.starts)[visible].sum())
        at = str(generation.manifest.built.get("at") or "")
    return About(
        generation=index.generation,
        pinned=index.generation != live.index.generation,
        at=at,
        age=_age(at),
        records=figures.count(records, "record"),
        chunks=figures.count(chunks, "chunk"),
    )


def _age(at: str) -> str:
    try:
        built = datetime.fromisoformat(at)
        return figures.age((datetime.now(UTC) - built.astimezone(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return "at an unknown time"


def record_page(live: LiveIndex, record_id: str, first: str, generation: str, tenant: str | None) -> Mapping[str, Any]:
    """Return the values of the page of a record. Raises: NotFound if it does not exist for the caller."""
    index = live.at(generation or None)
    start = int(first) if first.isascii() and first.isdigit() and len(first) < 9 else 0
    try:
        found = contents.chunks(index, record_id, first=start, limit=CHUNKS, tenant=tenant)
        near = neighbourhood(index, record_id, tenant=tenant)
    except NotFound as error:
        raise NotFound(error.message, hint="search for it") from None
    return {
        "address": Address(),
        "record": record_view(found, first=start, generation=index.generation),
        "around": None if near is None else around(near),
        "about": about(live, index, tenant),
    }
