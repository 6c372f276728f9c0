"""Semantic Scholar: publications of all fields with citations (https://api.semanticscholar.org/api-docs/graph).

A paper of Semantic Scholar lists the identifiers of a preprint and of its article side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import (
    Call,
    Fetch,
    Id,
    Item,
    ItemType,
    KeyPlace,
    Need,
    Page,
    Response,
    WebKind,
    WebQuery,
)
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import ids, items, replies

_SERVER = "https://api.semanticscholar.org"
_KEY = KeyPlace("S2_API_KEY", "header", "x-api-key")
_FACTS = (
    "title,year,publicationDate,venue,publicationTypes,externalIds,citationCount,isOpenAccess,openAccessPdf,url"
)  # fmt: skip
"""Fields of every request; `paperId` comes with any."""
_HYPHENS = re.compile(r"[-‐‑‒–—−]")
_PREPRINT_DOI = re.compile(
    r"10\.48550/arxiv\.|10\.1101/[0-9]|10\.64898/|10\.21203/rs\.|10\.20944/preprints|10\.26434/chemrxiv"
    r"|10\.3123[0-9]/osf\.io|10\.31219/osf\.io|10\.2139/ssrn|10\.36227/techrxiv|10\.22541/au\."
)
"""DOIs of preprint servers; articles of 10.1101 begin with letters."""
_PREPRINT_VENUES = frozenset(
    "arxiv|arxiv.org|biorxiv|medrxiv|chemrxiv|psyarxiv|techrxiv|research square|preprints.org|ssrn electronic journal"
    "|social science research network|authorea".split("|")
)
_RETRACTED = re.compile(r"\W{0,3}(?:retracted|withdrawn)(?: article| paper)?\W{0,2}:", re.IGNORECASE)
_LICENCES = re.compile(r"cc(by)?((?:nc|nd|sa){0,3})", re.IGNORECASE)
_NOT_LICENCES = frozenset({"other-oa", "unspecified-oa", "implied-oa", "publisher-specific-oa"})


class SemanticScholar(Frozen):
    """Provider of publications of all fields."""

    name: ClassVar[str] = "s2"
    title: ClassVar[str] = "Semantic Scholar"
    kind: ClassVar[WebKind] = "literature"
    needs: ClassVar[tuple[Need, ...]] = (Need(_KEY.variable, False, "a higher rate"),)  # noqa: FBT003  a named tuple
    pause_s: ClassVar[float] = 1.0
    servers: ClassVar[tuple[str, ...]] = (_SERVER,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return the papers that match, by relevance. Raises: ProviderFailed: see `Provider.search`."""
        # its search has no syntax, and finds nothing for words with hyphens
        sent = " ".join(_HYPHENS.sub(" ", query.text).split())
        if not any(char.isalnum() for char in sent):
            replies.rejected(f"{quoted(query.text)} has no words to search for")
        parameters = {"query": sent, "fields": f"{_FACTS},abstract,authors", "limit": str(query.k), "offset": "0"}
        if query.since:
            parameters["publicationDateOrYear"] = f"{query.since}:"
        response = fetch(Call(f"{_SERVER}/graph/v1/paper/search", parameters, keys=(_KEY,)))
        total, papers = _papers(response)
        return replies.page_of(map(_item, papers), sent, response, k=query.k, total=total)


def _complaint(answer: Json) -> str:
    """Return the reason of an answer that is a failure; empty for none."""
    return (replies.text(answer, "error") or replies.text(answer, "message")) if isinstance(answer, dict) else ""


def _check(answer: Json, response: Response) -> None:
    """Raises: ProviderFailed: the answer is an error message with any status."""
    complaint = _complaint(answer)
    if replies.text(answer, "code") == "429" or complaint.startswith("Too Many Requests"):
        replies.rate_limited()
    if complaint or response.status != 200:
        message = printable(shortened(complaint)) or f"status {response.status}"
        replies.rejected(f"Semantic Scholar rejects the request: {message}")


def _papers(response: Response) -> tuple[int, Sequence[Mapping[str, Json]]]:
    """Return the number of matches and a page of them, which may only be missing or empty if nothing matches."""
    answer = replies.read_json(response)
    _check(answer, response)
    total = replies.number(answer, "total")
    if not isinstance(answer, dict) or total is None:
        return replies.malformed("an object with the number of matches", response)
    if not total and not answer.get("data"):
        return 0, ()
    papers = replies.listed(answer.get("data"), response, "data")
    if not papers:
        replies.none_listed(total)
    return total, papers


def _item(paper: Mapping[str, Json]) -> Item | None:
    title, pdf = replies.text(paper, "title"), replies.text(paper, "openAccessPdf", "url")
    is_open = paper.get("isOpenAccess")
    return items.made(
        type=_type(paper),
        title=title,
        ids_=_ids(paper),
        url=replies.text(paper, "url"),
        pdf_url="" if ids.doi(pdf) else pdf,  # a DOI leads to a page
        authors=[replies.text(author, "name") for author in replies.objects(paper, "authors")],
        date=replies.text(paper, "publicationDate") or replies.text(paper, "year"),
        venue=replies.text(paper, "venue"),
        abstract=replies.text(paper, "abstract"),
        open_access=is_open if isinstance(is_open, bool) else None,
        license=_licence(replies.text(paper, "openAccessPdf", "license")),
        citations=replies.number(paper, "citationCount"),
        retracted=True if _RETRACTED.match(title) else None,
    )


def _ids(paper: Mapping[str, Json]) -> list[Id | None]:
    pmcid = replies.text(paper, "externalIds", "PubMedCentral")
    return [
        ids.doi(replies.text(paper, "externalIds", "DOI")),
        ids.pmid(replies.text(paper, "externalIds", "PubMed")),
        ids.pmcid(pmcid if pmcid.startswith("PMC") else f"PMC{pmcid}"),
        ids.arxiv(replies.text(paper, "externalIds", "ArXiv")),
        ids.s2(replies.text(paper, "paperId")),
    ]


def _type(paper: Mapping[str, Json]) -> ItemType:
    if paper.get("publicationTypes") == ["Dataset"]:
        return "dataset"
    doi, venue = ids.doi(replies.text(paper, "externalIds", "DOI")), replies.text(paper, "venue").casefold()
    if venue in _PREPRINT_VENUES or (doi and _PREPRINT_DOI.match(doi.value)):
        return "preprint"
    is_only_on_arxiv = not doi and not venue and replies.text(paper, "externalIds", "ArXiv")
    return "preprint" if is_only_on_arxiv else "article"


def _licence(name: str) -> str:
    """Return the name of a licence with its words apart: `CC BY-NC-ND` for `CCBYNCND`; empty for none."""
    if name.casefold() in _NOT_LICENCES:
        return ""
    parts = _LICENCES.fullmatch(name)
    if not parts or not parts[1]:
        return name
    return "-".join(["CC BY", *re.findall("..", parts[2].upper())])
