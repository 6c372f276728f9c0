"""Semantic Scholar: search, and citations of works that others found (https://api.semanticscholar.org/api-docs/graph).

A paper of Semantic Scholar is a work, not a version: it lists the identifiers of a preprint and of its article
side by side. An identifier that belongs to another version than the paper's DOI becomes a relation `same_as`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, KeyPlace, Need, Page, Rate, Response, WebKind, WebQuery
from retrieve_cli.contracts.works import Id, Item, RelationKind, WorkType
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import ids, items, replies

_SERVER = "https://api.semanticscholar.org"
_KEY = KeyPlace("S2_API_KEY", "header", "x-api-key")
_TERMS = "https://www.semanticscholar.org/product/api/license"
_RATE = Rate(1, 1.0)
_FACTS = (
    "title,year,publicationDate,venue,publicationTypes,externalIds,citationCount,isOpenAccess,openAccessPdf,url"
)  # fmt: skip
"""Fields of every request; `paperId` comes with any."""
_MOST_IDS = 100
"""Papers of one request for citations; the server permits 500."""
_NONE_KNOWN = "no valid paper ids given"
"""Complaint, with status 400, about a list of which it knows no identifier."""
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
_REVIEW = re.compile(
    r"(?:peer )?review (?:for|of) [\"“«]|(?:decision letter|author response)(?:: | for )|reviewer #[0-9]{1,2} \("
    r"|(?:reviewer|referee|peer review) report(?:\.|:| for | of )|faculty opinions recommendation of "
    r"|(?:(?:reply|response) to )?(?:the )?comments? on [\"“‘«]|(?:reply|response) to [\"“‘«]",
    re.IGNORECASE,
)
"""Beginning of the title that publishers give to a review or a comment of one other work; a review article has none of
these."""
_RETRACTED = re.compile(r"\W{0,3}(?:retracted|withdrawn)(?: article| paper)?\W{0,2}:", re.IGNORECASE)
_LICENCES = re.compile(r"cc(by)?((?:nc|nd|sa){0,3})", re.IGNORECASE)
_NOT_LICENCES = frozenset({"other-oa", "unspecified-oa", "implied-oa", "publisher-specific-oa"})


class SemanticScholar(Frozen):
    """Provider of publications of all fields."""

    name: ClassVar[str] = "s2"
    title: ClassVar[str] = "Semantic Scholar"
    kind: ClassVar[WebKind] = "literature"
    needs: ClassVar[tuple[Need, ...]] = (Need(_KEY.variable, False, "a higher rate"),)  # noqa: FBT003  a named tuple
    rate: ClassVar[Rate] = _RATE
    terms: ClassVar[str] = _TERMS
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
        readable = [item for paper in papers[: query.k] if (item := _item(paper))]
        if papers and not readable:
            replies.malformed("a list of papers", response)
        unread = min(len(papers), query.k) - len(readable)
        notices = ["categories of arXiv are not applied"] if query.categories else []
        notices += [f"skipped {unread} papers without a title or an identifier"] if unread else []
        return Page(tuple(readable), sent, response, total, tuple(notices))


class Citations(Frozen):
    """Source of citation counts and of identifiers that name the same work."""

    name: ClassVar[str] = "s2"
    title: ClassVar[str] = "Semantic Scholar"
    needs: ClassVar[tuple[Need, ...]] = SemanticScholar.needs
    rate: ClassVar[Rate] = _RATE
    terms: ClassVar[str] = _TERMS
    servers: ClassVar[tuple[str, ...]] = (_SERVER,)

    def enrich(self, items: Sequence[Item], fetch: Fetch) -> Page | None:
        """Return its papers for the first hundred works of which it has not described one itself.

        Raises:
            ProviderFailed: there is no answer, or it cannot be read.
        """
        wanted = list(_unknown(items))[:_MOST_IDS]
        if not wanted:
            return None
        names = [  # `DOI:…`, `ARXIV:…`, `PMID:…`, `PMCID:…`, or its own
            one.value if one.kind == "s2" else f"{one.kind.upper()}:{one.value.removeprefix('PMC')}"
            for one, _ in wanted
        ]
        body = json.dumps({"ids": names}).encode()
        headers = {"Content-Type": "application/json"}
        call = Call(f"{_SERVER}/graph/v1/paper/batch", {"fields": _FACTS}, headers, body, (_KEY,))
        response = fetch(call, accept=(200, 400))
        sent = " ".join(names)
        papers = replies.read_json(response)
        if _complaint(papers).casefold() == _NONE_KNOWN:
            return Page((), sent, response)
        _check(papers, response)
        if not isinstance(papers, list) or len(papers) != len(wanted):
            return replies.malformed(f"a list of {len(wanted)} papers", response)
        described = [
            item
            for (identifier, title), paper in zip(wanted, papers, strict=True)
            if isinstance(paper, dict) and (item := _item(paper, asked=identifier, title=title))
        ]
        if any(papers) and not described:
            replies.malformed("a list of papers", response)
        return Page(tuple(described), sent, response)


def _unknown(items: Sequence[Item]) -> Iterator[tuple[Id, str]]:
    """Yield an identifier and the title of each work that Semantic Scholar itself has not described."""
    described: set[Id] = set()
    for item in items:
        if item.citations is not None and "s2" in _kinds(item):
            described.update(item.ids, (other for kind, other in item.relations if kind == "same_as"))
    for item in items:
        kinds = _kinds(item)
        if "doi" in kinds and ids.arxiv(kinds["doi"].value):
            del kinds["doi"]  # its arXiv identifier is known for longer
        chosen = next((kinds[kind] for kind in ("s2", "doi", "arxiv", "pmid", "pmcid") if kind in kinds), None)
        if chosen and described.isdisjoint(kinds.values()):
            described.update(kinds.values())
            yield chosen, item.title


def _kinds(item: Item) -> dict[str, Id]:
    """Return the first identifier of each kind; an arXiv DOI is one of arXiv, too."""
    kinds: dict[str, Id] = {}
    for one in item.ids:
        if one.kind != "url":
            kinds.setdefault(one.kind, one)
    if "doi" in kinds and (arxiv := ids.arxiv(kinds["doi"].value)):
        kinds.setdefault("arxiv", arxiv)
    return kinds


def _complaint(answer: Json) -> str:
    """Return the reason of an answer that is a failure; empty for none."""
    return (replies.text(answer, "error") or replies.text(answer, "message")) if isinstance(answer, dict) else ""


def _check(answer: Json, response: Response) -> None:
    """Raises: ProviderFailed: the answer is an error message with any status; `RateLimited` or `Rejected`."""
    complaint = _complaint(answer)
    if replies.text(answer, "code") == "429" or complaint.startswith("Too Many Requests"):
        replies.rate_limited()
    if complaint or response.status != 200:
        said = printable(shortened(complaint)) or f"status {response.status}"
        replies.rejected(f"Semantic Scholar rejects the request: {said}", response)


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


def _item(paper: Mapping[str, Json], *, asked: Id | None = None, title: str = "") -> Item | None:
    """Return the item of a paper; if the paper has no title, `title` replaces it."""
    title = replies.text(paper, "title") or title
    kinds = _ids(paper)
    doi, arxiv = kinds.get("doi"), kinds.get("arxiv")
    type_ = _type(paper, title, doi)
    if doi and arxiv and not _PREPRINT_DOI.match(doi.value):
        del kinds["arxiv"]  # of the preprint of what the DOI names
    else:
        arxiv = None
    related: list[tuple[RelationKind, Id | None]] = [("same_as", arxiv)]
    related += [("same_as", asked)] if asked not in kinds.values() else []
    pdf = replies.text(paper, "openAccessPdf", "url")
    return items.made(
        type=type_,
        title=title,
        ids_=kinds.values(),
        url=replies.text(paper, "url"),
        pdf_url="" if ids.doi(pdf) else pdf,  # a DOI leads to a page
        authors=[replies.text(author, "name") for author in replies.objects(paper, "authors")],
        date=replies.text(paper, "publicationDate") or replies.text(paper, "year"),
        venue=replies.text(paper, "venue"),
        abstract=replies.text(paper, "abstract"),
        open_access=free if isinstance(free := paper.get("isOpenAccess"), bool) else None,
        license=_licence(replies.text(paper, "openAccessPdf", "license")),
        citations=replies.number(paper, "citationCount"),
        retracted=True if _RETRACTED.match(title) else None,
        relations=related,
    )


def _ids(paper: Mapping[str, Json]) -> dict[str, Id]:
    """Return the identifiers of a paper by kind."""
    pmcid = replies.text(paper, "externalIds", "PubMedCentral")
    known = (
        ids.doi(replies.text(paper, "externalIds", "DOI")),
        ids.pmid(replies.text(paper, "externalIds", "PubMed")),
        ids.pmcid(pmcid if pmcid.startswith("PMC") else f"PMC{pmcid}"),
        ids.arxiv(replies.text(paper, "externalIds", "ArXiv")),
        ids.s2(replies.text(paper, "paperId")),
    )
    return {one.kind: one for one in known if one}


def _type(paper: Mapping[str, Json], title: str, doi: Id | None) -> WorkType:
    """Return the type. Reviews of a field, letters, editorials and books are articles: only its title shows that a
    paper is a review of one other work."""
    types = paper.get("publicationTypes")
    if _REVIEW.match(title):
        return "review"
    if types == ["Dataset"]:
        return "dataset"
    venue = replies.text(paper, "venue").casefold()
    if doi:
        return "preprint" if _PREPRINT_DOI.match(doi.value) or venue in _PREPRINT_VENUES else "article"
    return "preprint" if venue in _PREPRINT_VENUES or (not venue and _ids(paper).get("arxiv")) else "article"


def _licence(name: str) -> str:
    """Return the name of a licence with its words apart: `CC BY-NC-ND` for `CCBYNCND`; empty for none."""
    if name.casefold() in _NOT_LICENCES:
        return ""
    parts = _LICENCES.fullmatch(name)
    if not parts or not parts[1]:
        return name
    return "-".join(["CC BY", *re.findall("..", parts[2].upper())])
