"""bioRxiv and medRxiv: keywords through Europe PMC, which indexes their preprints.

The API of bioRxiv itself has no search by keyword (https://api.biorxiv.org/). Documentation of Europe PMC:
https://europepmc.org/RestfulWebService and, for the syntax of questions, https://europepmc.org/help.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, Item, Need, Page, WebKind, WebQuery
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items
from retrieve_cli.websearch.providers.wording import balanced, has_syntax, relaxed
from retrieve_cli.websearch.replies import listed, malformed, number, objects, page_of, read_object, rejected, text

_ORIGIN = "https://www.ebi.ac.uk"
_SEARCH = f"{_ORIGIN}/europepmc/webservices/rest/search"
_RESTRICTION = 'SRC:PPR AND (PUBLISHER:"bioRxiv" OR PUBLISHER:"medRxiv")'
_SYNTAX = re.compile(r"[\[\]{}^~\\!?+:&|*/]|(?<![^\s(])-")
"""Operators of Europe PMC (fields, ranges, wildcards, exclusions), which are punctuation in a title with a colon."""
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
        plain = balanced(_SYNTAX.sub(" ", query.text))
        if not plain:
            rejected("the question has no word to search for")
        unchanged = has_syntax(plain)
        return relaxed("bioRxiv", plain, lambda words: _page(words, query, fetch), unchanged=unchanged)


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
    return page_of(map(_item, entries), sent, response, k=query.k, total=total)


def _item(entry: Mapping[str, Json]) -> Item | None:
    """Return a result of `resultType=core` as an item; None if it has no title."""
    source_id = text(entry, "id")
    references = objects(entry, "commentCorrectionList", "commentCorrection")
    is_retracted = any(text(one, "type").lower() == "retraction in" for one in references)
    authors = [_author(author) for author in objects(entry, "authorList", "author")]
    publisher, licence = text(entry, "bookOrReportDetails", "publisher"), text(entry, "license")
    if licence.lower().startswith("cc by"):
        licence = f"{licence.upper().replace(' ', '-')}-4.0"  # the only version that these servers offer
    links = list(objects(entry, "fullTextUrlList", "fullTextUrl"))
    readable = [link for link in links if text(link, "availabilityCode") in _READABLE]
    pdfs = (text(link, "url") for link in readable if text(link, "documentStyle") == "pdf")
    # `N` only means that the full text is not in the open access subset of Europe PMC
    is_open = text(entry, "isOpenAccess") == "Y" or "OA" in {text(link, "availabilityCode") for link in links}
    return items.made(
        type="preprint",
        title=items.plain(text(entry, "title"), items.TITLE).removesuffix("."),
        ids_=[ids.doi(text(entry, "doi")), ids.pmid(text(entry, "pmid")), ids.pmcid(text(entry, "pmcid"))],
        url=f"https://europepmc.org/article/PPR/{source_id}" if source_id.isalnum() and source_id.isascii() else "",
        pdf_url=next(pdfs, ""),
        authors=authors or text(entry, "authorString").removesuffix(".").split(", "),
        date=dates.of_text(text(entry, "firstPublicationDate")) or dates.of_text(text(entry, "pubYear")),
        venue=publisher,
        abstract=_HEADING.sub(r" \1: ", text(entry, "abstractText")[: 2 * items.ABSTRACT]),
        open_access=is_open or None,
        license=licence,
        citations=number(entry, "citedByCount"),
        retracted=True if is_retracted else None,
    )


def _author(author: Mapping[str, Json]) -> str:
    """Return the name of an author, or of a group."""
    family = text(author, "lastName")
    if not family:
        return text(author, "collectiveName") or text(author, "fullName")
    return " ".join(filter(None, (text(author, "firstName") or text(author, "initials"), family)))
