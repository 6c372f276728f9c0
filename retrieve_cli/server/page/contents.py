"""Contents of the pages: read from the index, as values for the templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from retrieve_cli.api import contents
from retrieve_cli.api.contents import Chunks
from retrieve_cli.api.neighbourhood import Link, links_of
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.contracts.tools import fields_in
from retrieve_cli.errors import NotFound, RetrieveError, UsageError
from retrieve_cli.operations.why import why_empty
from retrieve_cli.output.formats import answer_json
from retrieve_cli.output.plain_text import title as plain_title
from retrieve_cli.search.about import about_of
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.questions import WORDLESS
from retrieve_cli.server.http.answers import rejection
from retrieve_cli.server.page import view
from retrieve_cli.server.page.address import SIZE, Address, record_url
from retrieve_cli.server.page.rendering import WebLink, cut, leaves, link

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.api.live import LiveIndex

RERANKING = (("", "As configured"), ("yes", "On"), ("no", "Off"))
_PLAIN = "No record matches this query."
_LISTED = 3
"""Sources that the page names."""


class Problem(NamedTuple):
    """A failure, in words."""

    message: str
    hint: str


class PageContent(NamedTuple):
    """A page, for its template."""

    values: Mapping[str, Any]
    status: int = 200
    answers: Sequence[Answer] = ()
    """Answers to its searches."""


def search_page(live: LiveIndex, address: Address, tenant: str | None) -> PageContent:
    """Return the search page."""
    values: dict[str, Any] = {
        "address": address,
        "chips": view.chips(address),
        "kept": address.filters,
        "bare": address.without(*address.filters).url(),
        "reranking": RERANKING,
        "opened": False,
        **dict.fromkeys(("about", "answer", "error", "before", "after")),
        **dict.fromkeys(("modes", "facets"), ()),
        "count": "",
    }
    try:
        index = live.at(address.value("generation") or None)
    except UsageError as error:
        return PageContent({**values, "error": Problem(error.message, error.hint)}, 404)
    with index.reading() as generation:
        fields = view.fields_of(of_tenant_or_none(generation, tenant))
    values |= {"about": about(live, index, tenant), "modes": modes(index)}
    if not (address.query or address.filters or address.value("like") or address.value("sort")):
        return PageContent(values)
    try:
        asked = address.asked(facets=fields, tenant=tenant)
        (outcome,) = live.answer([asked._replace(generation=index.generation)])
    except RetrieveError as error:
        outcome = error
    if isinstance(outcome, RetrieveError):
        problem = Problem(outcome.message, outcome.hint)
        return PageContent({**values, "error": problem, "count": "The query has an error."}, rejection(outcome).status)
    return PageContent({**values, **_answered(index, outcome, address)}, answers=[outcome])


def _answered(index: Index, answer: Answer, address: Address) -> dict[str, Any]:
    offset = (address.page - 1) * SIZE
    around_hits = view.Surroundings.of(index.opened.generation, index.opened.settings.serve.picture_hosts)
    found = view.shown(answer, offset=offset, around=around_hits)
    boxes = view.facets(answer_json(answer).get("facets") or {}, address)
    ticked = {box.filter for facet in boxes for box in (*facet.boxes, *facet.more)}
    more = SIZE == len(found.hits) < found.total - offset
    explained = not found.hits and address.page == 1 and WORDLESS not in answer.notices
    lines = why_empty(index.opened, answer) if explained else []
    groups: dict[str, list[view.PageHit]] = {}  # by source, in the order of the best of each
    for hit in found.hits:
        groups.setdefault(hit.source if address.grouped else "", []).append(hit)
    last = offset + len(found.hits)
    matches = figures.count(max(found.total, last), "match", "matches")
    start = address._replace(page=1)
    return {
        "answer": found,
        "groups": [*groups.items()],
        "count": f"{offset + 1}–{last} of {matches}" if found.hits else "No results",
        "facets": boxes,
        "kept": [text for text in address.filters if text not in ticked],
        "before": address._replace(page=address.page - 1).url() if address.page > 1 else None,
        "after": address._replace(page=address.page + 1).url() if more else None,
        "first": start.url(),
        "past": not found.hits and address.page > 1,
        "empty": lines,
        "lost": lost(answer, lines),
        "exact": start.with_choice("exact_words", "yes").url() if answer.question.corrections else "",
        "pinned": address.with_choice("generation", answer.generation).url(),
    }


def lost(answer: Answer, lines: list[str]) -> tuple[str, str]:
    """Return why an answer is empty, in plain words, and the stage that dropped the last hit."""
    allowed, before = answer.question.query.records, ""
    if WORDLESS in answer.notices:
        return "Nothing matches punctuation alone. Try a task, a name or a topic, such as: segment lungs in CT.", ""
    if allowed is not None and not allowed.any():
        return "No record passes all filters.", ""
    for stage, hits in answer.stages:
        if not hits:
            return _PLAIN, f"{before}{stage} passed on none." if before else f"{stage} found nothing that matches."
        before = f"{stage} passed on {figures.count(hits, 'hit')}, and "
    return _PLAIN, f"{before}none of them is shown." if before else "".join(lines[:1])


def modes(index: Index) -> list[tuple[str, str]]:
    """Return the choices of retrievers."""
    names = index.opened.generation.manifest.recipe.retrievers
    return [("", "As configured"), ("hybrid", "All (hybrid)"), *((name, f"{name} only") for name in names)]


def about(live: LiveIndex, index: Index, tenant: str | None) -> dict[str, Any]:
    """Return the facts about a generation for the page, `pinned` if it is not the current one; a tenant gets the
    numbers of its records and chunks."""
    with index.reading() as generation:
        own = of_tenant_or_none(generation, tenant)
        chunks, sources = own.chunks, generation.manifest.sources if tenant is None else ()
        at = str(generation.manifest.built.get("at") or "")
        described = about_of(generation, tenant)
    try:
        age = figures.age((datetime.now(UTC) - datetime.fromisoformat(at).astimezone(UTC)).total_seconds())
    except (ValueError, OverflowError):
        age = "at an unknown time"
    holds = [
        f"{figures.count(source.records, 'record' if source.kind == 'catalog' else 'document')} of {cut(source.name)}"
        for source in sources[:_LISTED]
    ]
    if len(sources) > _LISTED:
        holds.append(figures.count(sum(source.records for source in sources[_LISTED:]), "other"))
    folder = live.store.path.resolve()
    name = folder.parent.name if folder.name == "artifacts" else folder.name
    return {
        "generation": index.generation,
        "pinned": index.generation != live.index.generation,
        "at": at,
        "age": age,
        "name": described.name or (cut(name) if tenant is None else "This index"),
        "title": described.name or "retrieve",
        "description": described.description,
        "holds": ", ".join(holds) or figures.count(own.size, "record"),
        "records": figures.count(own.size, "record"),
        "chunks": figures.count(chunks, "chunk"),
    }


def record_page(live: LiveIndex, record_id: str, first: str, generation: str, tenant: str | None) -> Mapping[str, Any]:
    """Return the values of the page of a record. Raises: NotFound if it does not exist for the caller."""
    index = live.at(generation or None)
    start = int(first) if first.isascii() and first.isdigit() and len(first) < 9 else 0
    try:
        found = contents.chunks(index, record_id, first=start, limit=CHUNKS, tenant=tenant)
        links, total = links_of(index, record_id, tenant=tenant)
    except NotFound as error:
        raise NotFound(error.message, hint="search for it") from None
    return {
        "address": Address(),
        "record": record_view(found, first=start, generation=index.generation),
        "links": [_link(each) for each in links],
        "more": total - len(links),
        "about": about(live, index, tenant),
    }


# ------------------------------------------------------------------------------------------------------------- a record


CHUNKS = 30
"""Chunks of a page."""
_LONGEST = 20_000
"""Characters of a chunk that are shown."""
_VALUES, _FIELDS, _VALUE = 50, 100, 300


def record_view(found: Chunks, *, first: int, generation: str) -> dict[str, Any]:
    """Return the view of a record of a generation, with its chunks from the one numbered `first` on; `before` and
    `after` are addresses of further chunks, or empty."""
    record, here = found.record, record_url(found.record["id"])
    last = first + len(found.rows)
    total = f"{found.total:,}"
    extent = f"Chunks {first} to {last - 1} of {total}" if found.rows else f"No chunk {first}, of {total}"
    return {
        "id": record["id"],
        "title": cut(plain_title(str(record["name"]))) or cut(record["id"]),
        "description": cut(str(record["description"] or ""), 2000),
        "place": cut(record["source"]),
        "link": link(record["url"]),
        "badges": view.badges_of(record),
        "fields": list(_fields(record)),
        "chunks": [_chunk(row, view.page_pictures(record, row, generation)) for row in found.rows],
        "extent": figures.count(found.total, "chunk") if len(found.rows) == found.total else extent,
        "before": _from(here, max(first - CHUNKS, 0)) if first else "",
        "after": _from(here, last) if last < found.total else "",
    }


def _from(here: str, first: int) -> str:
    return f"{here}{'&' if '?' in here else '?'}{urlencode({'from': first})}#text"


def _fields(record: Mapping[str, Json]) -> Iterator[tuple[str, list[tuple[str, WebLink | None]]]]:
    """Yield the fields that have values, each with its texts and links; metadata fields by their path."""
    own = {key: record.get(key) for key in ("license", "group", "keywords", "url", "kind")}
    nested = {**record.get("supporting_data", {}), **fields_in(record["metadata"])}
    for count, (name, values) in enumerate((*leaves(own), *leaves(nested))):
        if count == _FIELDS:
            return
        shown = [(cut(value, _VALUE), link(value)) for value in values[:_VALUES]]
        more = [(f"and {len(values) - _VALUES} more", None)] if len(values) > _VALUES else []
        yield view.label_of(name), [*shown, *more]


def _chunk(row: Mapping[str, Json], pictures: Sequence[tuple[int, str]]) -> dict[str, Any]:
    text = str(row["text"])
    lines = text[:_LONGEST].replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return {
        "number": int(row["index"]),
        "heading": cut(plain_title(row["section"] or "")) or f"Chunk {row['index']}",
        "place": view.within(row),
        "lines": [*lines, "…"] if len(text) > _LONGEST else lines,
        "pictures": pictures,
    }


def _link(link: Link) -> tuple[str, str, str]:
    """Return the kind of a link in words, its label and its address."""
    kind = link.kind.replace("_", " ")
    href = "" if link.record_id is None else record_url(link.record_id)
    return f"{kind} →" if link.forward else f"← {kind}", cut(link.label), href
