"""Place of a passage in its file in words, as the end of a link, and for programs; and numbered citations.

docs/a.md:12-40             lines of Markdown and text
docs/paper.pdf p. viii [12]  pages: the printed label, and the number in the file if it differs
docs/page.html#install       an anchor

A cited passage is data in a fence that is longer than any within it, so that it cannot forge another citation:

[1] docs/a.md:12-40 › Section > Subsection
```
the whole passage
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened
from retrieve_cli.search.answer import Result, Span

if TYPE_CHECKING:
    from retrieve_cli.contracts.layout import Place

_LABEL, _ANCHOR = 20, 80
"""Most characters of a printed page label, and of an anchor, that are shown."""
_LONGEST = 500
"""Most characters of an anchor in a link."""
_MARKS = "%#()<>\"' "
"""Characters of an anchor that could end a link, or be taken for another part of it."""


def span_of(result: Result) -> Span:
    """Return the stretch of its record that a result shows."""
    return result.context or Span.of(result.chunk)


def pages(place: Place | None) -> str:
    """Return pages as a citation has them: `p. 12`, `p. viii [12]`, `pp. 12–13`; empty without pages."""
    if place is None or place.page is None:
        return ""
    numbers = _range(str(place.page), str(place.page_end))
    mark = "pp." if place.page_end != place.page else "p."
    if not (place.page_label and place.page_label_end):
        return f"{mark} {numbers}"
    labels = _range(_word(place.page_label, _LABEL), _word(place.page_label_end, _LABEL))
    return f"{mark} {labels}" if labels == numbers else f"{mark} {labels} [{numbers}]"


def lines(span: Span) -> str:
    """Return the lines of a passage, `12-40`; empty for a document with a layout, whose lines do not exist in a text
    that one can open."""
    if span.place is not None:
        return ""
    return str(span.start_line) if span.start_line == span.end_line else f"{span.start_line}-{span.end_line}"


def located(source: str, span: Span) -> str:
    """Return a file with the lines, pages or anchor of a passage."""
    if span.place is None:
        return f"{source}:{lines(span)}"
    if numbers := pages(span.place):
        return f"{source} {numbers}"
    return f"{source}#{_word(span.place.anchor, _ANCHOR)}" if span.place.anchor else source


def linked(address: str, span: Span) -> str:
    """Return the address of a document, leading to the page or anchor of a passage: `#page=12`, `#install`."""
    place = span.place
    if place is None or not address:
        return address
    if place.page is not None:
        return f"{address.partition('#')[0]}#page={place.page}"
    if place.anchor is None or len(place.anchor) > _LONGEST:
        return address
    anchor = "".join(f"%{ord(char):02X}" if char in _MARKS else char for char in place.anchor)
    return f"{address.partition('#')[0]}#{anchor}"


def page_keys(place: Place | None) -> dict[str, Json]:
    """Return pages and anchor for programs, null without them; the last printed label only if it is another one."""
    keys: dict[str, Json] = {"page": None, "page_end": None, "page_label": None, "anchor": None}
    if place is None:
        return keys
    keys |= {"page": place.page, "page_end": place.page_end, "page_label": place.page_label, "anchor": place.anchor}
    return {**keys, **({"page_label_end": place.page_label_end} if place.page_label_end != place.page_label else {})}


def known_keys(place: Place | None) -> dict[str, Json]:
    """Return the known values of `page_keys`."""
    return {key: value for key, value in page_keys(place).items() if value is not None}


def boxes(place: Place | None) -> dict[str, Json]:
    """Return the key `boxes` with one box for each line of a passage: page, and left, top, right and bottom edge in
    points; nothing if no boxes are known."""
    return {"boxes": [list(box) for box in place.boxes]} if place is not None and place.boxes else {}


def source_of(record: Mapping[str, Json]) -> str:
    """Return the file of a record: the id of a document is its path."""
    return str(record["source"] if record["kind"] == "catalog" else record["id"])


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}–{last}"


def _word(text: str, most: int) -> str:
    return printable(shortened(text, most))


_TICKS = re.compile("`+")


def citation(result: Result, span: Span, sections: Sequence[str]) -> str:
    """Return the place of a passage on one line: file, lines or pages, sections, and a change of its source."""
    section = f" › {', '.join(sections)}" if sections else ""
    state = "" if result.freshness == "fresh" else f" ({result.freshness} since the build)"
    return printable_line(f"{located(source_of(result.record), span)}{section}{state}")


def numbered(number: int, place: str, text: str) -> str:
    """Return a passage under its numbered citation, in a fence that is longer than any within it."""
    lines = text.replace("\r\n", "\n").split("\n")
    shown = "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)
    fence = fence_of(shown)
    return f"[{number}] {place}\n{fence}\n{shown}\n{fence}\n"


def fence_of(text: str) -> str:
    """Return a fence that is longer than any within a text."""
    return "`" * max(3, max(map(len, _TICKS.findall(text)), default=0) + 1)


def printable_line(text: str) -> str:
    """Return a text as one line."""
    return printable(" ".join(text.split()))
