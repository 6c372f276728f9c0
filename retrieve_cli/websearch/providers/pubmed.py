"""PubMed through the E-utilities of NCBI: esearch ranks, efetch brings the records with full abstracts.

Documentation: https://www.ncbi.nlm.nih.gov/books/NBK25499/ and, for the syntax of questions,
https://pubmed.ncbi.nlm.nih.gov/help/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import (
    Call,
    Fetch,
    KeyPlace,
    Need,
    Page,
    ProviderFailed,
    Response,
    WebKind,
    WebQuery,
)
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch.providers.pubmed_xml import records
from retrieve_cli.websearch.providers.wording import balanced
from retrieve_cli.websearch.replies import at, malformed, number, rate_limited, read_object, rejected, text

_ORIGIN = "https://eutils.ncbi.nlm.nih.gov"
_SEARCH, _FETCH = f"{_ORIGIN}/entrez/eutils/esearch.fcgi", f"{_ORIGIN}/entrez/eutils/efetch.fcgi"
_TOOL = "retrieve-cli"
_KEY, _EMAIL = "NCBI_API_KEY", "NCBI_EMAIL"
_KEYS = (KeyPlace(_EMAIL, "parameter", "email"), KeyPlace(_KEY, "parameter", "api_key"))
_LAST_DATE = "3000"
"""End of a range of dates without an end; NCBI accepts a beginning only with an end."""
_MOST_NOTICES = 5
_ERROR = re.compile(r"<ERROR>([^<]{1,500})</ERROR>")
_SQUARE = re.compile(r"\[(1au|[A-Za-z][A-Za-z /-]{1,40}(?::[~a-z0-9]{1,8})?)\]|[\[\]#]")
"""A field tag, `[tiab]` or `[mh:noexp]`; or a bracket or a reference to an earlier search, which are no syntax here."""


class PubMed(Frozen):
    """Citations and abstracts of the biomedical literature."""

    name: str = "pubmed"
    title: str = "PubMed"
    kind: WebKind = "literature"
    needs: tuple[Need, ...] = (Need(_EMAIL, False, "contact address"), Need(_KEY, False, "a higher rate"))  # noqa: FBT003
    servers: tuple[str, ...] = (_ORIGIN,)

    @property
    def pause_s(self) -> float:
        return 0.1 if os.environ.get(_KEY) else 0.35

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        term = balanced(_SQUARE.sub(lambda one: one[0] if one[1] else " ", query.text))
        if not term:
            rejected("the question has no word to search for")
        dated = (
            {"datetype": "pdat", "mindate": query.since.replace("-", "/"), "maxdate": _LAST_DATE} if query.since else {}
        )
        parameters = {
            "db": "pubmed",
            "term": term,
            "retmode": "json",
            "retmax": str(query.k),
            "sort": "relevance",
            **dated,
        }
        response = fetch(Call(_SEARCH, {**parameters, "tool": _TOOL}, keys=_KEYS))
        _complain(response)
        answer = read_object(response).get("esearchresult")
        if not isinstance(answer, dict):
            malformed("an object with `esearchresult`", response)
        pmids, total = _pmids(answer, response)
        notices = list(_notices(answer))
        sent = f"{term} ({', '.join(f'{name}={value}' for name, value in dated.items())})" if dated else term
        if not pmids:
            return Page((), sent, total, tuple(notices))
        parameters = {"db": "pubmed", "id": ",".join(pmids), "retmode": "xml", "tool": _TOOL}
        details = fetch(Call(_FETCH, parameters, keys=_KEYS))
        _complain(details)
        known = records(details)
        items = tuple(item for pmid in pmids if (item := known.get(pmid)))
        missing = [pmid for pmid in pmids if not known.get(pmid)]
        if not items:
            malformed(f"a set with any of the {len(pmids)} records", details)
        if missing:
            notices.append(f"PubMed found but did not send readable records of PMID {', '.join(missing)}")
        return Page(items, sent, total, tuple(notices))


def _complain(response: Response) -> None:
    """Raises: ProviderFailed: the answer is the object or element with which NCBI reports an error.

    The object repeats the credential (`api-key`), so only its `error` is quoted, and nothing if it cannot be read.
    """
    body = response.body.lstrip()
    complaint = ""
    if body.startswith(b"{"):
        try:
            answer = read_object(response)
        except ProviderFailed:
            if b'"api-key"' not in body:
                raise
            raise ProviderFailed("malformed", "its answer is not JSON") from None
        complaint = text(answer, "error") or text(answer, "esearchresult", "ERROR")
    elif match := _ERROR.search(body[:2000].decode("utf-8", "replace")):
        complaint = match[1]
    if "rate limit" in complaint.lower():
        rate_limited()
    if complaint:
        rejected(f"it reports an error: “{printable(shortened(complaint))}”")


def _pmids(answer: Mapping[str, Json], response: Response) -> tuple[list[str], int]:
    """Return the PMIDs, best first, and the number of matches."""
    entries, total = answer.get("idlist"), number(answer, "count")
    if not isinstance(entries, list) or total is None:
        malformed("a result with `count` and `idlist`", response)
    pmids = [pmid for pmid in dict.fromkeys(map(text, entries)) if pmid.isascii() and pmid.isdecimal()]
    if len(pmids) < len(set(map(str, entries))) or (total and not pmids):
        malformed(f"a list of PMIDs for its {total:,} matches", response)
    return pmids, total


def _notices(answer: Mapping[str, Json]) -> Iterator[str]:
    """Yield the reports of PubMed about its changes to parts of the question."""
    for path, template in (
        (("errorlist", "phrasesnotfound"), "PubMed does not know {} and searched without it"),
        (("errorlist", "fieldsnotfound"), "PubMed does not know the field {}"),
        (("warninglist", "quotedphrasesnotfound"), "PubMed does not have the phrase {} and searched for its words"),
        (("warninglist", "phrasesignored"), "PubMed ignored {}"),
        (("warninglist", "outputmessages"), "PubMed reports: {}"),
    ):
        part = at(answer, *path)
        messages = [text(entry) for entry in part] if isinstance(part, list) else []
        for message in [message for message in messages if message and message != "No items found."][:_MOST_NOTICES]:
            yield template.format(f"“{printable(shortened(message))}”")
