"""Europe PMC: articles, preprints and books of the life sciences, with licences, citations and full texts.

Documentation: https://europepmc.org/RestfulWebService and, for the syntax of questions, https://europepmc.org/help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, Need, Page, Rate, WebKind, WebQuery
from retrieve_cli.contracts.works import Id, Item, RelationKind, WorkType
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items
from retrieve_cli.websearch.providers.pubmed_xml import RELATIONS, issue_date, sentence
from retrieve_cli.websearch.providers.syntax import balanced
from retrieve_cli.websearch.replies import at, listed, malformed, number, objects, read_object, rejected, text

ORIGIN = "https://www.ebi.ac.uk"
TERMS = "https://europepmc.org/Copyright"
RATE = Rate(10, 1.0)
"""Europe PMC names no number; its documentation asks for considerate use."""
_SEARCH = f"{ORIGIN}/europepmc/webservices/rest/search"
_PAGE = "https://europepmc.org/article"
_PREPRINT = "PPR"
_WITHOUT_PATENTS = "NOT SRC:PAT"
"""Patents are not a type of work."""
_FIELDS = frozenset(
    "ABSTRACT ABBR ACCESSION_ID ACCESSION_TYPE AFF ANNOTATION_TYPE ARXIV_ID AUTH AUTH_FIRST AUTH_LAST AUTHOR_ROLE "
    "AUTHORID BOOK_ID BODY CHEBITERM CHEM CITED CITES DISEASE DOI EDITOR EMBL EXT_ID FIRST_PDATE FT_ID GENE_PROTEIN "
    "GRANT_AGENCY GRANT_ID HAS_ABSTRACT HAS_DOI HAS_FT HAS_PDF IN_EPMC IN_PMC INVESTIGATOR ISBN ISSN ISSUE JOURNAL KW "
    "LANG LICENSE MESH METHODS OPEN_ACCESS ORGANISM ORG_ID PAGE_INFO PMCID PMID PUB_TYPE PUB_YEAR PUBLISHER REF "
    "RESULTS SRC TAXON_ID TITLE TITLE_ABS UNIPROT_PUBS UPDATE_DATE VOLUME".split()
)
"""Fields of a question that Europe PMC documents; another word before a colon is text."""
_SYNTAX = re.compile(
    r"\b([A-Z_]{2,20}):(?:(\[[0-9*-]{1,10} TO [0-9*-]{1,10}\])|(?![\s:)]))"  # AUTH:"…", PUB_YEAR:[2020 TO 2024]
    r"|(?<![^\s(-])-"  # before a word, it excludes the word
    r"|(?<![^\W_])\*"  # Europe PMC has wildcards only behind letters
    r"|[\[\]{}^~\\!?+:&|]"
)
_HEADING = re.compile(r"<(?:h[1-6]|title)>([^<]{1,200})</(?:h[1-6]|title)>")
"""Heading of a part of an abstract, which becomes its label."""
_BLOCK = re.compile(r"</?(?:p|br|div|sec|ul|ol|li)(?: [^<>]{0,200})?/?>")
"""Tags that separate words, which others do not: `CO<sub>2</sub>`."""
_INITIALS = re.compile(r"(\S.{0,200}) ([^\W\d_a-z]{1,5})")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z]|and[A-Z])")
"""Ends of the words of `CommentOn` and `CorrectedandRepublishedIn`."""
_RELATIONS: Mapping[str, RelationKind] = {
    "preprint in": "version_of",
    "preprint of": "published_as",
    **{
        _WORDS.sub(" ", name).lower(): kind
        for name, kind in RELATIONS.items()
        if not name.startswith(("Reprint", "Retractedand"))
    },
}
"""Relation for each `type` of `commentCorrectionList`, in lower case: mostly the types of PubMed, as words."""
_RETRACTED = frozenset({"retracted publication", "preprint withdrawal", "preprint removal"})
_OPEN, _READABLE = "OA", ("OA", "F")
"""Availability of a full text: open access, free to read."""


class EuropePmc(Frozen):
    """Articles, preprints, books and theses of the life sciences."""

    name: str = "europepmc"
    title: str = "Europe PMC"
    kind: WebKind = "literature"
    needs: tuple[Need, ...] = ()
    rate: Rate = RATE
    terms: str = TERMS
    servers: tuple[str, ...] = (ORIGIN,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        return results(query, fetch, restriction=_WITHOUT_PATENTS)


def results(query: WebQuery, fetch: Fetch, *, restriction: str) -> Page:
    """Return the results of a question within a restriction in the syntax of Europe PMC.

    Raises:
        ProviderFailed: there is no answer, it reports an error, or it cannot be read.
    """
    asked = balanced(query.text, _as_text).removesuffix(":")
    if not asked:
        rejected("the question has no word to search for")
    dated = f" AND FIRST_PDATE:[{dates.first_day(query.since)} TO 3000-12-31]" if query.since else ""
    sent = f"({asked}){dated} {restriction}"
    parameters = {"query": sent, "resultType": "core", "format": "json", "pageSize": str(query.k)}
    response = fetch(Call(_SEARCH, parameters))
    answer = read_object(response)
    complaint = text(answer, "errMsg") or text(answer, "error")
    if complaint or "errCode" in answer:
        reported = printable(shortened(complaint or text(answer, "errCode")))
        rejected(f"it reports an error: “{reported}”", response)
    total, listing = number(answer, "hitCount"), answer.get("resultList")
    if total is None or not isinstance(listing, dict):
        malformed("an object with `hitCount` and `resultList`", response)
    entries = listed(listing.get("result"), response, "result")
    if total and not entries:
        malformed(f"a list of results for its {total:,} matches", response)
    found = [(entry, item(entry)) for entry in entries]
    unreadable = [f"{text(entry, 'source')} {text(entry, 'id')}" for entry, made in found if made is None]
    notices = ["categories are arXiv categories: Europe PMC cannot apply them"] if query.categories else []
    if unreadable:
        notices.append(f"records without a title are skipped: {printable(shortened(', '.join(unreadable)))}")
    return Page(tuple(made for _, made in found if made), sent, response, total, tuple(notices))


def _as_text(stretch: str) -> str:
    """Return a text in which only documented fields and their ranges are syntax: `CRISPR: a review` has no field."""
    return _SYNTAX.sub(
        lambda one: one[0] if one[1] in _FIELDS else f"{one[1] or ''} {(one[2] or '').strip('[]')}", stretch
    )


def item(entry: Mapping[str, Json]) -> Item | None:
    """Return a result of `resultType=core` as an item; None if it has no title."""
    source, own = text(entry, "source"), text(entry, "id")
    kinds = at(entry, "pubTypeList", "pubType")
    types = {text(kind).lower().replace("-", " ") for kind in (kinds if isinstance(kinds, list) else [kinds])}
    references = list(objects(entry, "commentCorrectionList", "commentCorrection"))
    retracted = any(text(reference, "type").lower() == "retraction in" for reference in references)
    relations = list(_relations(entry, references))
    authors = [_author(author) for author in objects(entry, "authorList", "author")]
    authors = authors or [_cited(name) for name in text(entry, "authorString").removesuffix(".").split(", ")]
    publisher, license_ = text(entry, "bookOrReportDetails", "publisher"), text(entry, "license")
    if publisher in ("bioRxiv", "medRxiv") and license_.lower().startswith("cc by"):
        license_ = f"{license_.upper().replace(' ', '-')}-4.0"  # the only version that these servers offer
    links = list(objects(entry, "fullTextUrlList", "fullTextUrl"))
    readable = [link for link in links if text(link, "availabilityCode") in _READABLE]
    # `N` only means that the full text is not in the open access subset of Europe PMC
    is_open = text(entry, "isOpenAccess") == "Y" or any(text(link, "availabilityCode") == _OPEN for link in links)
    return items.made(
        type=_type(source, types, relations),
        title=sentence(text(entry, "title")),
        ids_=[ids.doi(text(entry, "doi")), ids.pmid(text(entry, "pmid")), ids.pmcid(text(entry, "pmcid"))],
        url=_address(source, own),
        pdf_url=next((text(link, "url") for link in readable if text(link, "documentStyle") == "pdf"), ""),
        authors=[name for name, _ in authors],
        first_family=authors[0][1],
        date=_date(entry),
        venue=text(entry, "journalInfo", "journal", "title") or publisher,
        abstract=_BLOCK.sub(" ", _HEADING.sub(r" \1: ", text(entry, "abstractText")[: 2 * items.ABSTRACT])),
        open_access=is_open or None,
        license=license_,
        citations=number(entry, "citedByCount"),
        retracted=True if types & _RETRACTED or retracted else None,
        version=text(entry, "versionNumber") if source == _PREPRINT else "",
        relations=relations,
    )


def _type(source: str, types: set[str], relations: list[tuple[RelationKind, Id | None]]) -> WorkType:
    if source == _PREPRINT or "preprint" in types:
        return "preprint"
    if "dataset" in types:
        return "dataset"
    return "review" if len({other for kind, other in relations if kind == "reviews" and other}) == 1 else "article"


def _address(source: str, own: str) -> str:
    return f"{_PAGE}/{source}/{own}" if source.isalnum() and own.isalnum() and (source + own).isascii() else ""


def _identifier(source: str, own: str) -> Id | None:
    """Return the identifier of a record of Europe PMC: a PMID, a PMCID, or its address there."""
    return ids.pmid(own) if source == "MED" else ids.pmcid(own) if source == "PMC" else ids.url(_address(source, own))


def _relations(
    entry: Mapping[str, Json], references: Iterable[Mapping[str, Json]]
) -> Iterator[tuple[RelationKind, Id | None]]:
    for reference in references:
        if kind := _RELATIONS.get(text(reference, "type").lower()):
            yield kind, _identifier(text(reference, "source"), text(reference, "id"))
    for version in objects(entry, "versionList", "version"):
        if text(version, "id") != text(entry, "id"):
            yield "version_of", _identifier(text(version, "source"), text(version, "id"))


def _author(author: Mapping[str, Json]) -> tuple[str, str]:
    """Return the name of an author with the family name, which a group does not have."""
    family = text(author, "lastName")
    given = text(author, "firstName") or text(author, "initials")
    if family:
        return " ".join(part for part in (given, family, text(author, "suffix")) if part), family
    collective = text(author, "collectiveName")
    return (collective, "") if collective else _cited(text(author, "fullName"))


def _cited(name: str) -> tuple[str, str]:
    """Return a name in the form of citations, `Family IM`, as `IM Family`, with the family name."""
    found = _INITIALS.fullmatch(name.strip())
    return (f"{found[2]} {found[1]}", found[1]) if found else (name, "")


def _date(entry: Mapping[str, Json]) -> str:
    """Return the date of first publication.

    Europe PMC gives a printed issue of a month or year the first day of it; then the date of the issue is the truth.
    """
    first, journal = text(entry, "firstPublicationDate"), entry.get("journalInfo")
    printed = text(journal, "printPublicationDate")
    if first and first == printed and first != text(entry, "electronicPublicationDate"):
        return issue_date(text(journal, "dateOfPublication")) or dates.of_text(first)[:7]
    return (
        dates.of_text(first) or issue_date(text(journal, "dateOfPublication")) or dates.of_text(text(entry, "pubYear"))
    )
