"""arXiv: preprints by its query interface, an Atom feed (https://info.arxiv.org/help/api/user-manual.html).

A question is searched by its content words in all fields, and by fewer of them if no preprint has all. Phrases in
quotation marks, field prefixes such as `au:`, and AND, OR, ANDNOT in capitals keep their meaning at arXiv.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import ClassVar
from xml.etree.ElementTree import Element

from retrieve_cli.contracts.websearch import (
    Call,
    Fetch,
    Item,
    Need,
    Page,
    Response,
    WebKind,
    WebQuery,
)
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items, replies
from retrieve_cli.websearch.providers.wording import MARKS, has_syntax, relaxed, straight

_SERVER = "https://export.arxiv.org"
_ATOM = "{http://www.w3.org/2005/Atom}"
_ARXIV = "{http://arxiv.org/schemas/atom}"
_TOTAL = "{http://a9.com/-/spec/opensearch/1.1/}totalResults"
_ERRORS = "arxiv.org/api/errors"
"""Part of the address that is the id of an entry which describes an error."""
_LAST = "299912312359"
"""End of the range of dates that starts with `since`."""
_CATEGORY = re.compile(r"((?:[a-z]{2,8}|[a-z]{1,6}-[a-z]{2,4}))(?:\.([A-Za-z][A-Za-z-]{1,9}))?")
"""An archive, and a subject class: `q-bio`, `cs.AI`, `cond-mat.stat-mech`."""
_WITHDRAWN = re.compile(
    r"(?:this )?(?:paper|article|submission|manuscript|preprint|work) "
    r"(?:(?:has been|is|was) )?withdrawn\b(?! from)|withdrawn\b(?! from)",
    re.IGNORECASE,
)
"""Beginning of the comment or abstract of a withdrawn preprint; a withdrawal from a conference does not count."""
_TOKEN = re.compile(r'(?:(ti|au|abs|co|jr|cat|rn|id|all):)?(?:"([^"]*)"|([^\s()"]+))')
"""A phrase or a word, with or without a field."""
_FIELD = re.compile(r"(?:^|[\s(])(?:ti|au|abs|co|jr|cat|rn|id|all):\S")
_BARE = re.compile(r"\w+")
_OPERATORS = ("AND", "OR", "ANDNOT")
_RESERVED = frozenset({*_OPERATORS, "NOT", "TO"})
"""Words that the server may read as operators."""


class Arxiv(Frozen):
    """Provider of preprints."""

    name: ClassVar[str] = "arxiv"
    title: ClassVar[str] = "arXiv"
    kind: ClassVar[WebKind] = "literature"
    needs: ClassVar[tuple[Need, ...]] = ()
    pause_s: ClassVar[float] = 3.0
    servers: ClassVar[tuple[str, ...]] = (_SERVER,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return the preprints that match, by relevance. Raises: ProviderFailed: see `Provider.search`."""
        unchanged = has_syntax(query.text) or _FIELD.search(query.text) is not None
        return relaxed("arXiv", query.text, lambda words: _page(words, query, fetch), unchanged=unchanged)


def _page(words: str, query: WebQuery, fetch: Fetch) -> Page:
    sent = search_query(words, since=query.since, categories=query.categories)
    order = {"sortBy": "relevance", "sortOrder": "descending"}
    parameters = {"search_query": sent, "start": "0", "max_results": str(query.k), **order}
    # a rejected question has status 400 and the same feed with the reason
    response = fetch(Call(f"{_SERVER}/api/query", parameters), accept=(200, 400))
    total, entries = _read_feed(response)
    return replies.page_of(map(_item, entries), sent, response, k=query.k, total=total)


def search_query(text: str, *, since: str = "", categories: Sequence[str] = ()) -> str:
    """Return a question in the syntax of arXiv.

    Raises:
        ProviderFailed: it has no words, or a category is not one.
    """
    words = _expression(straight(text))
    if not words:
        replies.rejected(f"{quoted(text)} has no words to search for")
    parts = [words] if not (since or categories) or words.count(":") == 1 else [f"({words})"]
    if categories:
        wanted = " OR ".join(map(_in_category, categories))
        parts.append(f"({wanted})" if len(categories) > 1 else wanted)
    if since:
        day = dates.first_day(since).replace("-", "")
        parts.append(f"submittedDate:[{day}0000 TO {_LAST}]")
    return " AND ".join(parts)


def _expression(text: str) -> str:
    """Return the words and phrases of a question with the operators between them, AND by default."""
    written: list[str] = []
    operator = "AND"
    for field, phrase, word in _TOKEN.findall(text):
        if word in _OPERATORS and not field:
            operator = word
            continue
        clause = _in_category(word.rstrip("*.,;")) if field == "cat" and word else _literal(phrase or word, field)
        if clause and (written or operator != "ANDNOT"):  # arXiv cannot search for a negation alone
            written += [operator, clause] if written else [clause]
        operator = "AND"
    return " ".join(written)


def _literal(text: str, field: str) -> str:
    """Return the search for a text that has no syntax: a bare word, or a phrase in quotation marks."""
    words = " ".join(text.replace("\\", " ").split()).strip(MARKS + " ")
    if not any(char.isalnum() for char in words):
        return ""
    bare = _BARE.fullmatch(words) and words not in _RESERVED
    return f"{field or 'all'}:{words}" if bare else f'{field or "all"}:"{words}"'


def _in_category(category: str) -> str:
    """Return the search in a category of arXiv, or in an archive with all its categories.

    Raises:
        ProviderFailed: it does not have the form of a category.
    """
    archive, dot, subject = category.strip().partition(".")
    # subject classes of two letters have capitals in all archives, longer ones have none
    named = archive.lower() + dot + (subject.upper() if len(subject) == 2 else subject)
    if not _CATEGORY.fullmatch(named):
        reason = f"{quoted(category)} is not a category of arXiv, which are such as q-bio, cs.AI"
        replies.rejected(reason)
    # not cat:math*, which has math-ph as well
    return f"cat:{named}" if subject else f"(cat:{named} OR cat:{named}.*)"


def _read_feed(response: Response) -> tuple[int, list[Element]]:
    """Return the number of matches and the entries. Raises: ProviderFailed: arXiv rejects the question, or the answer
    is malformed."""
    feed = replies.read_xml(response)
    entries = feed.findall(f"{_ATOM}entry")
    for entry in entries:
        if _ERRORS in _content(entry, f"{_ATOM}id"):
            reason = printable(shortened(_content(entry, f"{_ATOM}summary") or "no reason given"))
            replies.rejected(f"arXiv rejects the question: {reason}")
    total = _content(feed, _TOTAL)
    if feed.tag != f"{_ATOM}feed" or not total.isascii() or not total.isdecimal() or len(total) > 11:
        replies.malformed("an Atom feed with the number of matches", response)
    if response.status != 200:
        replies.rejected(f"status {response.status}")
    if int(total) and not entries:  # documented by its users: pages that are empty under load
        replies.none_listed(total)
    return int(total), entries


def _content(element: Element, path: str) -> str:
    return " ".join(replies.content(element.find(path)).split())


def _text(element: Element, path: str) -> str:
    """Return a text of the feed for `items.made`, which removes markup twice: texts of arXiv have none, and `a<b` of a
    formula must stay."""
    return escape(escape(_content(element, path), quote=False), quote=False)


def _item(entry: Element) -> Item | None:
    identifier = ids.arxiv(_content(entry, f"{_ATOM}id"))
    if identifier is None:
        return None
    primary = entry.find(f"{_ARXIV}primary_category")
    category = primary.get("term", "") if primary is not None else ""
    links = (link for link in entry.iter(f"{_ATOM}link") if link.get("title") == "pdf")
    abstract, comment = _content(entry, f"{_ATOM}summary"), _content(entry, f"{_ARXIV}comment")
    is_withdrawn = _WITHDRAWN.match(abstract) or _WITHDRAWN.match(comment)
    return items.made(
        type="preprint",
        title=_text(entry, f"{_ATOM}title"),
        ids_=[identifier, ids.doi(_content(entry, f"{_ARXIV}doi"))],
        url=f"https://arxiv.org/abs/{identifier.value}",
        pdf_url=next((link.get("href", "") for link in links), ""),
        authors=[_text(author, f"{_ATOM}name") for author in entry.findall(f"{_ATOM}author")],
        date=dates.of_text(_content(entry, f"{_ATOM}published")),
        venue=_text(entry, f"{_ARXIV}journal_ref") or (f"arXiv ({category})" if category else "arXiv"),
        abstract=_text(entry, f"{_ATOM}summary"),
        open_access=True,
        retracted=True if is_withdrawn else None,
    )
