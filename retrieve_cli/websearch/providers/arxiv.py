"""arXiv: preprints by its query interface, an Atom feed (https://info.arxiv.org/help/api/user-manual.html).

Words of a question are searched in all fields and joined by AND. What arXiv documents as its syntax stays if it is
meant: phrases in quotation marks, field prefixes such as `au:`, and AND, OR, ANDNOT with parentheses in capitals.
Everything else is text and never becomes syntax.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from html import escape
from typing import ClassVar, Literal, NamedTuple
from xml.etree.ElementTree import Element

from retrieve_cli.contracts.websearch import Call, Fetch, Need, Page, Rate, Response, WebKind, WebQuery
from retrieve_cli.contracts.works import Item
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items, replies

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
    r"(?:paper|article|submission|manuscript|preprint|work|note|report|thesis|document) "
    r"(?:(?:has been|is|was) )?(?:temporarily )?withdrawn\b(?! from)",
    re.IGNORECASE,
)
_JUST_WITHDRAWN = re.compile(r"(?:this \w{1,20} (?:has been|is|was) )?withdrawn\b(?! from)", re.IGNORECASE)
"""Beginning of a comment or an abstract of a withdrawn preprint; withdrawal from a conference does not count."""
_TOKEN = re.compile(r'(?:(ti|au|abs|co|jr|cat|rn|id|all):)?"([^"]*)"|([()])|([^\s()"]+)')
"""A phrase with or without a field, a parenthesis, or a word."""
_PREFIXED = re.compile(r"(ti|au|abs|co|jr|cat|rn|id|all):(.+)", re.DOTALL)
_STRAIGHT = str.maketrans("“”„", '"""')
_BARE = re.compile(r"\w+")
_OPERATORS = ("AND", "OR", "ANDNOT")
_RESERVED = frozenset({*_OPERATORS, "NOT", "TO"})
"""Words that the server may read as operators."""
_SILENT = frozenset(
    "a an and are as at be but by can did do does for from how if in into is it no not of on or such that the their "
    "then there these they this to was were what when where which who why will with".split()
)
"""Words that its index does not keep, or that a question adds; in small letters or with a capital."""
_MARKS = string.punctuation + "“”‘’«»…–—¿¡"
_DEEPEST = 8
"""Parentheses within parentheses that are read."""


class Arxiv(Frozen):
    """Provider of preprints."""

    name: ClassVar[str] = "arxiv"
    title: ClassVar[str] = "arXiv"
    kind: ClassVar[WebKind] = "literature"
    needs: ClassVar[tuple[Need, ...]] = ()
    rate: ClassVar[Rate] = Rate(1, 3.0)
    terms: ClassVar[str] = "https://info.arxiv.org/help/api/tou.html"
    servers: ClassVar[tuple[str, ...]] = (_SERVER,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return the preprints that match, by relevance. Raises: ProviderFailed: see `Provider.search`."""
        sent = search_query(query.text, since=query.since, categories=query.categories)
        order = {"sortBy": "relevance", "sortOrder": "descending"}
        parameters = {"search_query": sent, "start": "0", "max_results": str(query.k), **order}
        # a rejected question has status 400 and the same feed with the reason
        response = fetch(Call(f"{_SERVER}/api/query", parameters), accept=(200, 400))
        total, entries = _read_feed(response)
        preprints = [item for entry in entries[: query.k] if (item := _item(entry))]
        if entries and not preprints:
            replies.malformed("a feed of preprints", response)
        unread = min(len(entries), query.k) - len(preprints)
        notices = (f"skipped {unread} entries without a title or an identifier",) if unread else ()
        return Page(tuple(preprints), sent, response, total, notices)


def search_query(text: str, *, since: str = "", categories: Sequence[str] = ()) -> str:
    """Return a question in the syntax of arXiv.

    Raises:
        ProviderFailed: it has no words, or a category is not one; `Rejected`.
    """
    words = _expression(_tokens(text))
    if words is None:
        replies.rejected(f"{quoted(text)} has no words to search for")
    day = dates.first_day(since).replace("-", "")
    dated = _Clause(f"submittedDate:[{day}0000 TO {_LAST}]") if since else None
    clauses = (words, _either([in_category(category) for category in categories]), dated)
    whole = _all_of([clause for clause in clauses if clause])
    return whole.text if whole else ""


class _Clause(NamedTuple):
    text: str
    form: Literal["term", "all", "without", "either"] = "term"
    negated: bool = False

    def within(self, *forms: str) -> str:
        """Return its text for use within another clause, in parentheses unless it has one of these forms."""
        return self.text if self.form in forms else f"({self.text})"


def _expression(tokens: Iterator[tuple[str, ...]], depth: int = 0) -> _Clause | None:
    """Return what tokens ask for up to the next closing parenthesis; None for nothing. Operators without operands and
    parentheses without partners are skipped."""
    alternatives: list[list[_Clause]] = [[]]
    negated = False
    for field, phrase, mark, word in tokens:
        if mark == ")" and depth:
            break
        if word in _OPERATORS:
            negated = word == "ANDNOT"
            alternatives += [[]] if word == "OR" else []
            continue
        if mark:
            clause = _expression(tokens, depth + 1) if mark == "(" and depth < _DEEPEST else None
        else:
            clause = _literal(phrase, field) if phrase else _word(word)
        if clause:
            alternatives[-1].append(clause._replace(negated=negated))
            negated = False
    return _either([clause for clauses in alternatives if (clause := _all_of(clauses))])


def _all_of(clauses: Sequence[_Clause]) -> _Clause | None:
    """Return the conjunction; None if all are negated, which arXiv cannot search for. AND within AND needs no
    parentheses, so a user's parentheses are only sent if they matter."""
    wanted = [clause for clause in clauses if not clause.negated]
    unwanted = [clause for clause in clauses if clause.negated]
    if not wanted or len(clauses) == 1:
        return wanted[0] if wanted else None
    without = [f"ANDNOT {clause.within('term')}" for clause in unwanted]
    text = " AND ".join(clause.within("term", "all") for clause in wanted)
    return _Clause(" ".join([text, *without]), "without" if without else "all")


def _either(clauses: Sequence[_Clause]) -> _Clause | None:
    if len(clauses) < 2:
        return clauses[0] if clauses else None
    return _Clause(" OR ".join(clause.within("term") for clause in clauses), "either")


def _tokens(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the field and text of a phrase, a parenthesis, or a word, each in its place of four; words that carry no
    meaning are skipped if others remain."""
    tokens = [match.groups("") for match in _TOKEN.finditer(text.translate(_STRAIGHT))]
    words = [token for token in tokens if not (token[3].strip(_MARKS).lower() in _SILENT and not token[3].isupper())]
    has_words = any(phrase or (word.strip(_MARKS) and word not in _OPERATORS) for _, phrase, _, word in words)
    return iter(words if has_words else tokens)


def _word(word: str) -> _Clause | None:
    """Return the search for a word, in the field that its prefix names."""
    prefixed = _PREFIXED.fullmatch(word)
    if prefixed and prefixed[1] == "cat":
        return in_category(prefixed[2].rstrip("*.,;"))
    return _literal(prefixed[2], prefixed[1]) if prefixed else _literal(word, "")


def _literal(text: str, field: str) -> _Clause | None:
    """Return the search for a text that holds no syntax: a bare word, or a phrase in quotation marks, of which the
    server makes words as it did with the texts that it keeps."""
    words = " ".join(text.replace("\\", " ").replace('"', " ").split()).strip(_MARKS + " ")
    if not any(char.isalnum() for char in words):
        return None
    bare = _BARE.fullmatch(words) and words not in _RESERVED
    return _Clause(f"{field or 'all'}:{words}" if bare else f'{field or "all"}:"{words}"')


def in_category(category: str) -> _Clause:
    """Return the search in a category of arXiv, or in an archive with all its categories.

    Raises:
        ProviderFailed: it does not have the form of a category; `Rejected`.
    """
    archive, dot, subject = category.strip().partition(".")
    # subject classes of two letters have capitals in all archives, longer ones have none
    named = archive.lower() + dot + (subject.upper() if len(subject) == 2 else subject)
    if not _CATEGORY.fullmatch(named):
        reason = f"{quoted(category)} is not a category of arXiv, which are such as q-bio, cs.AI or physics.med-ph"
        replies.rejected(reason)
    # not cat:math*, which has math-ph as well
    return _Clause(f"cat:{named}") if subject else _Clause(f"cat:{named} OR cat:{named}.*", "either")


def _read_feed(response: Response) -> tuple[int, list[Element]]:
    """Return the number of matches and the entries. Raises: ProviderFailed: `Rejected` with the reason of arXiv, or
    `Malformed`."""
    feed = replies.read_xml(response)
    entries = feed.findall(f"{_ATOM}entry")
    for entry in entries:
        if _ERRORS in _content(entry, f"{_ATOM}id"):
            reason = printable(shortened(_content(entry, f"{_ATOM}summary") or "no reason given"))
            replies.rejected(f"arXiv rejects the question: {reason}", response)
    total = _content(feed, _TOTAL)
    if feed.tag != f"{_ATOM}feed" or not total.isascii() or not total.isdecimal() or len(total) > 11:
        replies.malformed("an Atom feed with the number of matches", response)
    if response.status != 200:
        replies.rejected(f"status {response.status}", response)
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
    address = _content(entry, f"{_ATOM}id")
    identifier = ids.arxiv(address)
    if identifier is None:
        return None
    primary = entry.find(f"{_ARXIV}primary_category")
    category = primary.get("term", "") if primary is not None else ""
    published = ids.doi(_content(entry, f"{_ARXIV}doi"))
    comment, abstract = _content(entry, f"{_ARXIV}comment"), _content(entry, f"{_ATOM}summary")
    withdrawn = _JUST_WITHDRAWN.match(abstract) or _JUST_WITHDRAWN.match(comment) or _WITHDRAWN.search(comment)
    return items.made(
        type="preprint",
        title=_text(entry, f"{_ATOM}title"),
        ids_=[identifier],
        url=f"https://arxiv.org/abs/{identifier.value}",
        pdf_url=next((link.get("href", "") for link in entry.iter(f"{_ATOM}link") if link.get("title") == "pdf"), ""),
        authors=[_text(author, f"{_ATOM}name") for author in entry.findall(f"{_ATOM}author")],
        date=dates.of_text(_content(entry, f"{_ATOM}published")),
        venue=_text(entry, f"{_ARXIV}journal_ref") or (f"arXiv ({category})" if category else "arXiv"),
        abstract=_text(entry, f"{_ATOM}summary"),
        open_access=True,
        retracted=True if withdrawn else None,
        version=ids.arxiv_version(address),
        # the DOI that authors give is that of the article; arXiv's own one names the preprint itself
        relations=[("published_as", published)] if published and not ids.arxiv(published.value) else [],
    )
