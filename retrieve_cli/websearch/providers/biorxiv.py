"""bioRxiv and medRxiv: keywords through Europe PMC, which indexes their preprints.

The API of bioRxiv itself has no search by keyword (https://api.biorxiv.org/). Documentation of Europe PMC:
https://europepmc.org/RestfulWebService and, for the syntax of questions, https://europepmc.org/help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, Item, Need, Page, WebKind, WebQuery
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items
from retrieve_cli.websearch.providers.wording import attempts, balanced, has_syntax
from retrieve_cli.websearch.replies import listed, malformed, number, objects, read_object, rejected, text

_ORIGIN = "https://www.ebi.ac.uk"
_SEARCH = f"{_ORIGIN}/europepmc/webservices/rest/search"
_RESTRICTION = 'SRC:PPR AND (PUBLISHER:"bioRxiv" OR PUBLISHER:"medRxiv")'
_SYNTAX = re.compile(r"[\[\]{}^~\\!?+:&|*/]|(?<![^\s(])-")
"""Characters of fields, ranges, wildcards and exclusions at Europe PMC: `CRISPR: a review` has no field."""
_HEADING = re.compile(r"<(?:h[1-6]|title)>([^<]{1,200})</(?:h[1-6]|title)>")
"""Heading of a part of an abstract, which becomes its label."""
_READABLE = ("OA", "F")
"""Availability of a full text: open access, free to read."""


class BioRxiv(Frozen):
    """Preprints of biology and medicine."""

    name: ClassVar[str] = "biorxiv"
    title: ClassVar[str] = "bioRxiv and medRxiv (through Europe PMC)"
    kind: ClassVar[WebKind] = "literature"
    needs: ClassVar[tuple[Need, ...]] = ()
    pause_s: ClassVar[float] = 0.1  # Europe PMC names no number and asks for considerate use
    servers: ClassVar[tuple[str, ...]] = (_ORIGIN,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return the preprints that match, by relevance. Raises: ProviderFailed: see `Provider.search`."""
        notices = ["categories are arXiv categories: bioRxiv cannot apply them"] if query.categories else []
        page = Page((), "")
        for count, words in enumerate(_wordings(query.text)):
            page = _page(words, query, fetch)
            if page.total:
                if count:
                    notices.append(f"bioRxiv has nothing with all words: searched for {quoted(words)}")
                break
        return Page(page.items, page.query, page.total, (*notices, *page.notices))


def _wordings(question: str) -> Iterator[str]:
    """Yield the question without foreign syntax, or its content words and fewer of them. Raises: ProviderFailed."""
    plain = balanced(_SYNTAX.sub(" ", question))
    if not plain:
        rejected("the question has no word to search for")
    if has_syntax(plain):
        yield plain
    else:
        yield from map(" ".join, attempts(plain))


def _page(words: str, query: WebQuery, fetch: Fetch) -> Page:
    dated = f" AND FIRST_PDATE:[{dates.first_day(query.since)} TO 3000-12-31]" if query.since else ""
    sent = f"({words}){dated} AND {_RESTRICTION}"
    parameters = {"query": sent, "resultType": "core", "format": "json", "pageSize": str(query.k)}
    response = fetch(Call(_SEARCH, parameters))
    answer = read_object(response)
    complaint = text(answer, "errMsg") or text(answer, "error") or text(answer, "errCode")
    if complaint:
        rejected(f"it reports an error: “{printable(shortened(complaint))}”")
    total, listing = number(answer, "hitCount"), answer.get("resultList")
    if total is None or not isinstance(listing, dict):
        malformed("an object with `hitCount` and `resultList`", response)
    entries = listed(listing.get("result"), response, "result")
    if total and not entries:
        malformed(f"a list of results for its {total:,} matches", response)
    found = [item for item in map(_item, entries) if item]
    if entries and not found:
        malformed("a list of results with titles", response)
    lost = len(entries) - len(found)
    notices = (f"skipped {lost} records without a title or an identifier",) if lost else ()
    return Page(tuple(found), sent, total, notices)


def _item(entry: Mapping[str, Json]) -> Item | None:
    """Return a result of `resultType=core` as an item; None if it has no title."""
    own = text(entry, "id")
    references = objects(entry, "commentCorrectionList", "commentCorrection")
    is_retracted = any(text(one, "type").lower() == "retraction in" for one in references)
    authors = [_author(author) for author in objects(entry, "authorList", "author")]
    publisher, terms = text(entry, "bookOrReportDetails", "publisher"), text(entry, "license")
    if terms.lower().startswith("cc by"):
        terms = f"{terms.upper().replace(' ', '-')}-4.0"  # the only version that these servers offer
    links = list(objects(entry, "fullTextUrlList", "fullTextUrl"))
    readable = [link for link in links if text(link, "availabilityCode") in _READABLE]
    pdfs = (text(link, "url") for link in readable if text(link, "documentStyle") == "pdf")
    # `N` only means that the full text is not in the open access subset of Europe PMC
    is_open = text(entry, "isOpenAccess") == "Y" or "OA" in {text(link, "availabilityCode") for link in links}
    return items.made(
        type="preprint",
        title=items.plain(text(entry, "title"), items.TITLE).removesuffix("."),
        ids_=[ids.doi(text(entry, "doi")), ids.pmid(text(entry, "pmid")), ids.pmcid(text(entry, "pmcid"))],
        url=f"https://europepmc.org/article/PPR/{own}" if own.isalnum() and own.isascii() else "",
        pdf_url=next(pdfs, ""),
        authors=authors or text(entry, "authorString").removesuffix(".").split(", "),
        date=dates.of_text(text(entry, "firstPublicationDate")) or dates.of_text(text(entry, "pubYear")),
        venue=publisher,
        abstract=_HEADING.sub(r" \1: ", text(entry, "abstractText")[: 2 * items.ABSTRACT]),
        open_access=is_open or None,
        license=terms,
        citations=number(entry, "citedByCount"),
        retracted=True if is_retracted else None,
    )


def _author(author: Mapping[str, Json]) -> str:
    """Return the name of an author, or of a group."""
    family = text(author, "lastName")
    if not family:
        return text(author, "collectiveName") or text(author, "fullName")
    return " ".join(filter(None, (text(author, "firstName") or text(author, "initials"), family)))
