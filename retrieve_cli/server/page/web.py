"""The tab "Web" of the page: results of the web and literature with their providers and their status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from retrieve_cli.api.web import read_web
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.contracts.works import Work
from retrieve_cli.output.plain_text import significant
from retrieve_cli.output.web_works import RELATIONS
from retrieve_cli.search.web_answer import ProviderStatus, WebAnswer, WebHit, WebOptions
from retrieve_cli.server.page.contents import Problem
from retrieve_cli.server.page.rendering import cut, link
from retrieve_cli.server.page.view import Badge

_TEXT = 700
"""Characters of an abstract or snippet."""
_AUTHORS = 6
_VERSIONS = 10
"""Most versions, linked works and conflicts of a result."""
KINDS = (("", "Chosen by the query"), ("web", "Web"), ("literature", "Literature"))


class Search(NamedTuple):
    """A web search as the parameters of an address."""

    query: str = ""
    kind: str = ""
    """Empty: chosen by the query."""
    since: str = ""
    category: str = ""
    """Categories of arXiv with commas between them."""

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, str]]) -> Search:
        """Return the search that the parameters describe; unknown ones are ignored."""
        last = dict(parameters)
        return cls(*(last.get(key, "").strip() for key in ("q", "kind", "since", "category")))

    def options(self) -> WebOptions:
        """Return the options of the search. Raises: UsageError."""
        given: dict[str, Json] = {"kind": self.kind, "since": self.since, "categories": self.category}
        item = {"query": self.query, **{key: value for key, value in given.items() if value}}
        return read_web(item, where="the address").options


def web_values(search: Search, *, problem: Problem | None = None, answer: WebAnswer | None = None) -> dict[str, Any]:
    """Return the values of the page: of the form alone, of an error, or of an answer."""
    values = {"search": search, "kinds": KINDS, "error": problem, "hits": None, "providers": (), "notices": ()}
    if answer is None:
        return {**values, "count": "The query has an error." if problem else "", "partial": False}
    skipped = (f"{name} was skipped: {reason}" for name, reason in answer.strategies_skipped.items())
    works = figures.count(answer.total_works, "work")
    incomplete = ", incomplete: a provider failed" if answer.partial else ""
    return {
        **values,
        "hits": [_shown(hit) for hit in answer.hits],
        "providers": [_asked(status) for status in answer.statuses],
        "notices": [*map(cut, answer.notices), *skipped],
        "partial": answer.partial,
        "count": f"{len(answer.hits)} of {works}{incomplete}. {cut(answer.kind_reason)}",
    }


def _shown(hit: WebHit) -> dict[str, Any]:
    """Return the view of a result; `facts` are identifiers, licence, citations and conflicting values of providers,
    `others` other versions and works that are linked: the relation, a text and a link."""
    work = hit.work
    more = len(work.authors) - _AUTHORS
    names = ", ".join(map(cut, work.authors[:_AUTHORS])) + (f" and {more} more" if more > 0 else "")
    badges = [Badge(work.type, "modality")]
    badges += [Badge(cut(name), "found") for name in dict.fromkeys(source.provider for source in work.found_by)]
    badges += [Badge("open access", "licence")] if work.open_access else []
    others = [
        (version.relation, " · ".join(filter(None, (cut(version.title), version.date, cut(version.id)))), version.url)
        for version in work.versions[:_VERSIONS]
    ]
    others += [(linked.relation, cut(linked.id), linked.id) for linked in work.linked[:_VERSIONS]]
    return {
        "title": cut(work.title) or cut(work.id),
        "link": link(work.url),
        "pdf": link(work.pdf_url),
        "badges": badges,
        "about": " · ".join(filter(None, (names, work.date, cut(work.venue)))),
        "text": cut(work.abstract or work.snippet, _TEXT),
        "retracted": work.retracted,
        "others": [(RELATIONS.get(relation, relation), text, link(url)) for relation, text, url in others],
        "facts": [*_facts(work), ("score", significant(hit.hit.score, 4))],
    }


def _facts(work: Work) -> Iterator[tuple[str, str]]:
    yield from ((id_.kind, cut(id_.value)) for id_ in work.ids if id_.kind != "url")
    if work.license:
        yield "licence", cut(work.license)
    if work.citations is not None:
        yield "citations", f"{work.citations.number:,} ({cut(work.citations.source)})"
    for source in work.found_by:
        place = f"rank {source.rank}" if source.rank else "further facts"
        yield cut(source.provider), f"{place}, {source.at}"
    for name, conflicts in list(work.conflicts.items())[:_VERSIONS]:
        said = "; ".join(f"{cut(each.value)} ({cut(each.source)})" for each in conflicts[:_VERSIONS])
        yield f"{cut(name)} elsewhere", said


def _asked(status: ProviderStatus) -> dict[str, Any]:
    name = cut(status.provider) + (" (further facts)" if status.role == "enricher" else "")
    if status.status == "ok":
        total = "" if status.total is None else f" of {status.total:,}"
        age = "" if status.age_s is None else f", stored {status.age_s / 3600:.3g} h ago"
        message = f"{status.results}{total} results{age}" + "".join(f"; {cut(notice)}" for notice in status.notices)
        return {"name": name, "status": "answered", "failed": False, "message": message}
    message = cut("; ".join(filter(None, (status.message, status.hint))), _TEXT)
    return {"name": name, "status": status.status.replace("_", " "), "failed": status.failed, "message": message}
