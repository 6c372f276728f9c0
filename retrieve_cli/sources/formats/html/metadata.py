"""Metadata of an HTML page: its title, description, dates, authors and keywords, in bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.sources.formats.html.text import one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_MOST_TAGS, _MOST_VALUES, _LONGEST, _LONGEST_NAME = 500, 50, 1000, 200
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}")
_URL = re.compile(r"https?://[^\s@/\\<>\"]{1,300}(?:/[^\s<>\"\\]{0,1700})?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_NAMES: Mapping[str, Sequence[str]] = {
    "title": ("og:title", "dc.title", "citation_title"),
    "description": ("description", "og:description", "dc.description"),
    "url": ("og:url",),
    "language": ("content-language", "dc.language"),
    "created": ("article:published_time", "citation_publication_date", "dcterms.created", "dc.date", "date"),
    "modified": ("article:modified_time", "dcterms.modified", "last-modified"),
    "author": ("author", "article:author", "dc.creator", "citation_author"),
    "keywords": ("keywords", "article:tag"),
}  # fmt: skip
"""Names of `<meta>` elements with each value, best first."""


def metadata_of(page: LexborHTMLParser, *, heading: str) -> dict[str, Json]:
    """Return the metadata of a page; `heading` is its only heading of the first level, if any."""
    tags: dict[str, list[str]] = {}
    for attributes in (node.attributes for node in islice(page.css("meta"), _MOST_TAGS)):
        content = (attributes.get("content") or "")[: 4 * _LONGEST]
        keys = map(attributes.get, ("name", "property", "itemprop", "http-equiv"))
        if (name := next(filter(None, keys), None)) and content.strip():
            tags.setdefault(name.strip().lower(), []).append(content)
    values = {name: next(filter(None, map(tags.get, keys)), []) for name, keys in _NAMES.items()}
    first = {name: one_line(texts[0])[:_LONGEST] if texts else "" for name, texts in values.items()}
    titles = (one_line(node.text()[: 4 * _LONGEST]) for node in page.css("title")[:1])
    title = first["title"] or next(titles, "")
    html = page.css_first("html")
    language = (html and (html.attributes.get("lang") or html.attributes.get("xml:lang"))) or first["language"]
    links = (node.attributes for node in page.css("link[rel~=canonical i]")[:1])
    canonical = next(links, {}).get("href") or ""
    names = [one_line(name)[:_LONGEST_NAME] for name in values["author"] if not _URL.match(name.strip())]
    metadata: dict[str, Json] = {
        "title": (heading or title)[:_LONGEST],
        "description": first["description"],
        "url": next(filter(_URL.fullmatch, (canonical.strip(), first["url"])), ""),
        "language": language if _LANGUAGE.fullmatch(language := language.strip()) else "",
        "created": _date(first["created"]),
        "modified": _date(first["modified"]),
        "author": ", ".join(dict.fromkeys(names[:_MOST_VALUES])),
        "keywords": words_of(values["keywords"]),
    }
    return {name: value for name, value in metadata.items() if value}


def words_of(lists: Sequence[str]) -> list[Json]:
    """Return the words of lists that are divided by commas or, without any, by semicolons."""
    lists = [text if "," in text else text.replace(";", ",") for text in lists[:_MOST_VALUES]]
    words = (one_line(word)[:_LONGEST_NAME] for text in lists for word in text.split(","))
    return list(dict.fromkeys(islice(filter(None, words), _MOST_VALUES)))


def _date(text: str) -> str:
    """Return a date in the form of ISO 8601; empty if it is another form or no date."""
    text = text.strip()[:40].replace("/", "-")
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(f"{text}-01"[:10]).isoformat()[: len(text)]
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return ""
