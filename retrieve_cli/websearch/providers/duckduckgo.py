"""DuckDuckGo, a search engine of the web, by scraping: its page of results for browsers without scripts is read.

There is no interface for programs. The page may change at any time, and DuckDuckGo asks programs for a captcha when it
likes: it is asked only if no other provider of the web answers.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import islice, pairwise
from urllib.parse import parse_qs, urlencode, urlsplit

from retrieve_cli.contracts.websearch import Call, Response, WebQuery
from retrieve_cli.websearch import dates, replies
from retrieve_cli.websearch.providers.web_engines import WebEngine, WebResult, WebResults

_ORIGIN = "https://html.duckduckgo.com"
_REGION = "us-en"
_LONGEST_PAGE = 1_000_000
"""Bytes of the largest page that is read; they have about 50,000."""
_MOST_RESULTS = 1000
_LONGEST_TEXT = 10_000
"""Characters of markup of a title or an excerpt that are read."""
_TAG = re.compile(r"""<([A-Za-z][A-Za-z0-9]{0,15})((?:[^<>"']|"[^"<]{0,4000}"|'[^'<]{0,4000}')*+)>""")
_ATTRIBUTE = re.compile(r"""\b(class|href|action)\s{0,9}=\s{0,9}(?:"([^"<]{0,4000})"|'([^'<]{0,4000})')""")
_DATE = re.compile(r"<span>(?:&nbsp;|\s){0,20}([0-9]{4}-[0-9]{2}-[0-9]{2})T")
_END = re.compile(r"</html\s{0,9}>", re.IGNORECASE)
_END_WITHIN = 2000
"""Characters at the end of a page within which it is closed."""
_ADVERTISEMENT = "result--ad"
_ADVERTISED = "https://duckduckgo.com/y.js?"
_NOTHING_FOUND = frozenset({"no-results", "result--no-result"})


def _call(query: WebQuery) -> Call:
    form = urlencode({"q": query.text, "b": "", "l": _REGION})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return Call(f"{_ORIGIN}/html/", headers=headers, body=form.encode())


def _results(response: Response, query: WebQuery) -> WebResults:
    rows = _rows(response)
    notices = ["DuckDuckGo: read from its page of results (scraping), which may change or ask for a captcha"]
    if query.since:
        kept = [row for row in rows if dates.is_since(row.date, query.since)]
        dropped = len(rows) - len(kept)
        notices.append(f"DuckDuckGo dates few results: skipped {dropped} before {query.since}, kept undated ones")
        rows = kept
    if query.k > len(rows) and rows:
        notices.append(f"DuckDuckGo: its first page has {len(rows)} results")
    return WebResults(rows, notices)


DUCKDUCKGO = WebEngine(
    "ddg",
    "DuckDuckGo",
    _ORIGIN,
    3.0,  # programs that are faster are asked for a captcha
    _call,
    _results,
    accept=(200, 202),  # a captcha, and a page without results too, come with status 202
)
"""Search of the web by DuckDuckGo, by scraping its page of results."""


def _rows(response: Response) -> list[WebResult]:
    """Raises: ProviderFailed: the page is a captcha, is incomplete, or has neither results nor that notice."""
    if len(response.body) > _LONGEST_PAGE:
        replies.malformed(f"a page of at most {_LONGEST_PAGE:,} bytes", response)
    text = response.body.decode("utf-8", "replace")
    tags = list(_tags(text))
    blocks = _blocks(text, tags)
    is_complete = bool(_END.search(text[-_END_WITHIN:]))
    if blocks and is_complete:
        return [row for block in blocks if not (row := _row(block)).url.startswith(_ADVERTISED)]
    # Only if there are no results: a result may be about these very marks.
    classes = {name for _, attributes, _, _ in tags for name in _classes(attributes)}
    actions = (attributes.get("action", "") for _, attributes, _, _ in tags)
    if any("/anomaly.js" in action for action in actions) or any(name.startswith("anomaly-modal") for name in classes):
        replies.rejected("it asks for a captcha, as it does when a program asks often")
    if is_complete and not _NOTHING_FOUND.isdisjoint(classes):
        return []
    return replies.malformed("a complete page of results", response)


def _tags(text: str) -> Iterator[tuple[str, dict[str, str], int, int]]:
    """Yield the start tags that have a class, an address or an action: name, these attributes, beginning and end."""
    for tag in _TAG.finditer(text):
        values = {found[1]: found[2] or found[3] or "" for found in _ATTRIBUTE.finditer(tag[2])}
        if values:
            yield tag[1].lower(), values, tag.start(), tag.end()


def _blocks(text: str, tags: list[tuple[str, dict[str, str], int, int]]) -> list[str]:
    """Return the markup of each result except advertisements: from its beginning to the beginning of the next one."""
    begins = [(start, _classes(attributes)) for _, attributes, start, _ in tags if "result" in _classes(attributes)]
    spans = islice(pairwise([*begins, (len(text), frozenset())]), _MOST_RESULTS)
    return [
        text[start:end]
        for (start, classes), (end, _) in spans
        if _ADVERTISEMENT not in classes and _NOTHING_FOUND.isdisjoint(classes)
    ]


def _row(block: str) -> WebResult:
    title = url = snippet = ""
    for name, attributes, _, end in _tags(block):
        classes = _classes(attributes)
        if "result__a" in classes and not url:
            title, url = _inner(block, name, end), _target(html.unescape(attributes.get("href", "")))
        elif "result__snippet" in classes and not snippet:
            snippet = _inner(block, name, end)
    date = _DATE.search(block)
    return WebResult(title, url, snippet, date[1] if date else "")


def _inner(block: str, name: str, start: int) -> str:
    """Return the markup of an element whose start tag ends at `start`."""
    end = block.find(f"</{name}>", start, start + _LONGEST_TEXT)
    return block[start : end if end >= 0 else start + _LONGEST_TEXT]


def _target(url: str) -> str:
    """Return the address of a result, which may be within one of DuckDuckGo that counts clicks."""
    url = f"https:{url}" if url.startswith("//") else url
    try:
        parts = urlsplit(url)
        if parts.netloc == "duckduckgo.com" and parts.path == "/l/":
            return parse_qs(parts.query, max_num_fields=100).get("uddg", [""])[0]
    except ValueError:
        return ""
    return url


def _classes(attributes: dict[str, str]) -> frozenset[str]:
    return frozenset(attributes.get("class", "").split())
