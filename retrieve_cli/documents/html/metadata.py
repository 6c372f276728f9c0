"""Metadata of a page: title, description, address, language, date, author, keywords."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.documents.html.tree import one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_MOST_TAGS = 500
_LONGEST = 1000
_LONGEST_NAME = 200
_MOST_KEYWORDS = 50
_LONGEST_URL = 2000
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}")
_URL = re.compile(r"https?://[^\s@/\\<>\"]+(?:/[^\s<>\"\\]*)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_SEPARATORS = (" | ", " — ", " – ", " - ", " :: ", " · ", " » ", " « ", ": ")
_NAMES: Mapping[str, Sequence[str]] = {
    "title": ("og:title", "twitter:title", "dc.title", "dcterms.title", "citation_title"),
    "site": ("og:site_name", "application-name"),
    "description": ("description", "og:description", "dc.description", "dcterms.description", "dcterms.abstract"),
    "url": ("og:url",),
    "language": ("content-language", "dc.language", "dcterms.language"),
    "created": ("article:published_time", "datepublished", "citation_publication_date", "dcterms.created",
                "dcterms.issued", "dc.date", "dcterms.date", "date"),
    "modified": ("article:modified_time", "datemodified", "dcterms.modified", "last-modified"),
    "author": ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author"),
    "keywords": ("keywords", "news_keywords", "article:tag"),
}  # fmt: skip
"""Names of `<meta>` elements with each value, best first."""


def metadata(page: LexborHTMLParser, *, heading: str) -> dict[str, Json]:
    """Return the metadata of a page; `heading` is the only heading of the first level in its main part, if any."""
    tags = _tags(page)
    values = {name: next((tags[key] for key in keys if key in tags), []) for name, keys in _NAMES.items()}
    first = {name: one_line(texts[0])[:_LONGEST] if texts else "" for name, texts in values.items()}
    element = page.css_first("title")
    written = one_line(element.text()[: 4 * _LONGEST]) if element is not None else ""
    html = page.css_first("html")
    attributes = html.attributes if html is not None else {}
    language = attributes.get("lang") or attributes.get("xml:lang") or first["language"]
    names = [one_line(name)[:_LONGEST_NAME] for name in values["author"] if not _URL.match(name.strip())]
    found: dict[str, Json] = {
        "title": (heading or _title(first["title"] or written, first["site"]))[:_LONGEST],
        "description": first["description"],
        "url": _address(page) or _url(first["url"]),
        "language": language if _LANGUAGE.fullmatch(language := language.strip()) else "",
        "created": _date(first["created"]) or _time(page),
        "modified": _date(first["modified"]),
        "author": ", ".join(dict.fromkeys(name for name in names[:_MOST_KEYWORDS] if name)),
        "keywords": _keywords(values["keywords"]),
    }
    return {name: value for name, value in found.items() if value}


def _tags(page: LexborHTMLParser) -> dict[str, list[str]]:
    """Return the contents of the `<meta>` elements by their name in lower case."""
    tags: dict[str, list[str]] = {}
    for node in islice(page.css("meta"), _MOST_TAGS):
        attributes = node.attributes
        content = (attributes.get("content") or "")[: 4 * _LONGEST]
        for key in ("name", "property", "itemprop", "http-equiv"):
            if (name := attributes.get(key)) and content.strip():
                tags.setdefault(name.strip().lower(), []).append(content)
                break
    return tags


def _title(title: str, site: str) -> str:
    """Return a title without the name of its site in front or at the end."""
    for separator in _SEPARATORS:
        if site and title.endswith(separator + site):
            return title.removesuffix(separator + site)
        if site and title.startswith(site + separator):
            return title.removeprefix(site + separator)
    return title


def _address(page: LexborHTMLParser) -> str:
    """Return the canonical address of a page; empty if it has none with http(s)."""
    for node in islice(page.css("link"), _MOST_TAGS):
        attributes = node.attributes
        if "canonical" in (attributes.get("rel") or "").lower().split():
            return _url((attributes.get("href") or "").strip())
    return ""


def _url(address: str) -> str:
    usable = len(address) <= _LONGEST_URL and address.isprintable() and _URL.fullmatch(address)
    return address if usable else ""


def _time(page: LexborHTMLParser) -> str:
    """Return the date of the only `<time>` that is marked as the publication's."""
    marked = [node.attributes for node in islice(page.css("time"), _MOST_TAGS)]
    times = [
        _date(attributes.get("datetime") or "")
        for attributes in marked
        if "pubdate" in attributes or (attributes.get("itemprop") or "").lower() == "datepublished"
    ]
    return next((time for time in times if time), "")


def _date(text: str) -> str:
    """Return a date in the form of ISO 8601; empty if it is another form or no date."""
    text = text.strip()[:40].replace("/", "-")
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(f"{text}-01"[:10]).isoformat()[: len(text)]
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _keywords(texts: Sequence[str]) -> list[str]:
    words = (one_line(word)[:_LONGEST_NAME] for word in _parts(texts))
    return list(dict.fromkeys(islice((word for word in words if word), _MOST_KEYWORDS)))


def _parts(texts: Sequence[str]) -> Iterator[str]:
    for text in texts[:_MOST_KEYWORDS]:
        yield from (text if "," in text else text.replace(";", ",")).split(",")
