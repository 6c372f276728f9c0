"""Crossref: what publishers declare about works by DOI: relations, retractions, licences
(https://www.crossref.org/documentation/retrieve-metadata/rest-api/)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, KeyPlace, Need, Page, Rate, Response
from retrieve_cli.contracts.works import Id, Item, RelationKind, WorkType
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items, replies

_SERVER = "https://api.crossref.org"
_CONTACT = KeyPlace("NCBI_EMAIL", "parameter", "mailto")
_FIELDS = (
    "DOI,URL,type,title,author,issued,container-title,license,relation,update-to,updated-by,is-referenced-by-count"
)
_A_CALL, _CALLS = 50, 2
"""DOIs of one call, and calls."""
_RELATIONS: Mapping[RelationKind, str] = {
    "preprint_of": "is-preprint-of",
    # with `has-preprint`: `preprint_of` has the preprint on its left
    "version_of": "has-preprint is-version-of has-version is-manuscript-of has-manuscript is-variant-form-of "
    "is-original-form-of is-replaced-by replaces",
    "same_as": "is-same-as is-identical-to",
    "reviews": "is-review-of is-comment-on is-reply-to",
    "reviewed_by": "has-review has-comment has-reply",
}
"""Types of relations that concern the identity of a work, or its reviews; parts, data and references do not."""
_READERS: Mapping[str, Callable[[str], Id | None]] = {
    "doi": ids.doi,
    "arxiv": ids.arxiv,
    "pmid": ids.pmid,
    "pmcid": ids.pmcid,
    "uri": lambda text: ids.of_address(text) or ids.url(text),
}
"""Readers of identifiers by their types."""
_VERSIONS = frozenset({"new_version", "new_edition"})
_RETRACTIONS = frozenset({"retraction", "withdrawal", "removal"})
_NOTICES = _RETRACTIONS | frozenset(
    "addendum clarification correction corrigendum erratum expression_of_concern partial_retraction".split()
)
"""Types of updates (https://www.crossref.org/documentation/crossmark/version-control-corrections-and-retractions/)."""
_TYPES: Mapping[str, WorkType] = {
    "posted-content": "preprint",
    "peer-review": "review",
    "dataset": "dataset",
    "database": "dataset",
}


class Crossref(Frozen):
    """Source of declared relations, retractions and licences."""

    name: ClassVar[str] = "crossref"
    title: ClassVar[str] = "Crossref"
    needs: ClassVar[tuple[Need, ...]] = (Need(_CONTACT.variable, False, "contact address"),)  # noqa: FBT003  a named tuple
    terms: ClassVar[str] = (
        "https://www.crossref.org/documentation/retrieve-metadata/rest-api/access-and-authentication/"
    )
    servers: ClassVar[tuple[str, ...]] = (_SERVER,)

    @property
    def rate(self) -> Rate:
        """Return the rate of requests for lists: three a second with a contact address, else one."""
        return Rate(3 if os.environ.get(_CONTACT.variable) else 1, 1.0)

    def enrich(self, items: Sequence[Item], fetch: Fetch) -> Page | None:
        """Return its records of the first hundred DOIs; works that it does not know are missing.

        Raises:
            ProviderFailed: there is no answer, or it cannot be read.
        """
        titles = _titles(items)
        dois = [doi for doi in titles if "," not in doi][: _A_CALL * _CALLS]  # a comma ends a condition of its filter
        works: list[Item] = []
        first: Response | None = None
        for begin in range(0, len(dois), _A_CALL):
            some = dois[begin : begin + _A_CALL]
            parameters = {"filter": ",".join(f"doi:{doi}" for doi in some), "select": _FIELDS, "rows": str(len(some))}
            response = fetch(Call(f"{_SERVER}/works", parameters, keys=(_CONTACT,)))
            first = first or response
            records = _records(response)
            described = [item for record in records if (item := _item(record, titles, response.at))]
            if records and not described:
                replies.malformed("a list of works", response)
            works += described
        if first is None:
            return None
        missing = len(titles) - len(dois)
        limit = f"at most {_A_CALL * _CALLS} are, and none with a comma"
        notices = (f"{missing} of {len(titles)} DOIs were not looked up: {limit}",) if missing else ()
        return Page(tuple(works), " ".join(dois), first, notices=notices)


def _titles(items: Sequence[Item]) -> dict[str, str]:
    """Return the DOIs of items in their order, with a title for each. arXiv registers its own with DataCite."""
    titles: dict[str, str] = {}
    for item in items:
        for one in item.ids:
            if one.kind == "doi" and not ids.arxiv(one.value):
                titles.setdefault(one.value, item.title)
    return titles


def _records(response: Response) -> list[Mapping[str, Json]]:
    """Return the records of an answer. Raises: ProviderFailed: `Rejected` with its complaint, or `Malformed`."""
    answer = replies.read_object(response)
    if replies.text(answer, "status") == "failed" or replies.text(answer, "message-type") == "validation-failure":
        said = "; ".join(replies.text(part, "message") for part in replies.objects(answer, "message"))
        said = said or replies.text(answer, "message") or "no reason given"
        replies.rejected(f"Crossref rejects the request: {printable(shortened(said))}", response)
    message = answer.get("message")
    if replies.text(answer, "status") != "ok" or not isinstance(message, dict):
        replies.malformed("an object with status and message", response)
    return replies.listed(message.get("items"), response, "items")


def _item(record: Mapping[str, Json], titles: Mapping[str, str], at: str) -> Item | None:
    """Return the item of a record; if the record has no title, the title of the query replaces it."""
    doi = ids.doi(replies.text(record, "DOI"))
    if doi is None:
        return None
    updates = list(_updates(record, "update-to"))
    relations = _relations(record, updates, doi)
    reviews = any(kind == "reviews" for kind, _ in relations)
    licence, is_open = _licence(record, at)
    # a notice retracts the work, or it is declared as the notice of the retraction of itself
    notices = {kind for other, kind in updates if other == doi} | {kind for _, kind in _updates(record, "updated-by")}
    return items.made(
        type="review" if reviews else _TYPES.get(replies.text(record, "type"), "article"),
        title=_first(record, "title") or titles.get(doi.value, ""),
        ids_=[doi],
        url=replies.text(record, "URL"),
        authors=[_name(author) for author in replies.objects(record, "author")],
        first_family=next((replies.text(author, "family") for author in replies.objects(record, "author")), ""),
        date=_date(record.get("issued")),
        venue=_first(record, "container-title"),
        open_access=is_open,
        license=licence,
        citations=replies.number(record, "is-referenced-by-count"),
        retracted=True if notices & _RETRACTIONS else None,
        relations=relations,
    )


def _first(record: Mapping[str, Json], key: str) -> str:
    values = record.get(key)
    return next((value for value in values if isinstance(value, str)), "") if isinstance(values, list) else ""


def _name(author: Mapping[str, Json]) -> str:
    parts = (replies.text(author, key) for key in ("given", "family", "suffix"))
    return " ".join(filter(None, parts)) or replies.text(author, "name")


def _date(value: Json) -> str:
    """Return the date of `{"date-parts": [[2024, 3, 5]]}`; empty for `[[null]]`."""
    parts = value.get("date-parts") if isinstance(value, dict) else None
    first = parts[0] if isinstance(parts, list) and parts else None
    numbers = [part for part in first if isinstance(part, int)] if isinstance(first, list) else []
    return dates.of_parts(*numbers[:3]) if numbers else ""


def _relations(record: Mapping[str, Json], updates: Sequence[tuple[Id, str]], own: Id) -> list[tuple[RelationKind, Id]]:
    """Return the relations to other works. A notice (a correction, a retraction) is linked to the work that it
    concerns, even if the publisher declares it as a version of it."""
    relations = [*_links(updates, "reviews"), *_links(_updates(record, "updated-by"), "reviewed_by")]
    updated = {other for _, other in relations}
    for relation, names in _RELATIONS.items():
        for entry in (entry for name in names.split() for entry in replies.objects(record, "relation", name)):
            read = _READERS.get(replies.text(entry, "id-type").lower())
            if read and (other := read(replies.text(entry, "id"))) and other not in updated:
                relations.append((relation, other))
    return [(kind, other) for kind, other in dict.fromkeys(relations) if other != own]


def _links(updates: Iterable[tuple[Id, str]], notice: RelationKind) -> Iterator[tuple[RelationKind, Id]]:
    for other, kind in updates:
        if kind in _NOTICES | _VERSIONS:
            yield "version_of" if kind in _VERSIONS else notice, other


def _updates(record: Mapping[str, Json], key: str) -> Iterator[tuple[Id, str]]:
    """Yield the DOI of the other work and the type of each update, such as `retraction`."""
    for entry in replies.objects(record, key):
        if other := ids.doi(replies.text(entry, "DOI")):
            yield other, replies.text(entry, "type").lower().replace("-", "_").replace(" ", "_")


def _licence(record: Mapping[str, Json], at: str) -> tuple[str, bool | None]:
    """Return the address of the licence for readers that applies at a time, and True if it is of Creative Commons;
    licences for text mining alone are not for readers. None: Crossref has no licence."""
    applying = [
        entry
        for entry in replies.objects(record, "license")
        if replies.text(entry, "content-version") != "tdm" and _date(entry.get("start")) <= at
    ]
    addresses = [replies.text(entry, "URL") for entry in applying]
    free = [address for address in addresses if "://creativecommons.org/" in address.replace("://www.", "://").lower()]
    return (free[0], True) if free else (addresses[0] if addresses else "", None)
