"""Passages with numbered citations: where a text comes from, and the text as data that cannot forge another citation.

[1] docs/a.md:12-40 › Section > Subsection
```
the whole passage
```

A document with a layout has pages or an anchor in place of lines (see output/places.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrieve_cli.errors import printable
from retrieve_cli.output.places import located, source_of
from retrieve_cli.search.answer import Result, Span

_TICKS = re.compile("`+")


def citation(result: Result, span: Span, sections: Sequence[str]) -> str:
    """Return the place of a passage on one line: file, lines or pages, sections, and a change of its source."""
    section = f" › {', '.join(sections)}" if sections else ""
    state = "" if result.freshness == "fresh" else f" ({result.freshness} since the build)"
    return one_line(f"{located(source_of(result.record), span)}{section}{state}")


def numbered(number: int, place: str, text: str) -> str:
    """Return a passage under its numbered citation, in a fence that is longer than any within it."""
    lines = text.replace("\r\n", "\n").split("\n")
    shown = "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)
    fence = fence_of(shown)
    return f"[{number}] {place}\n{fence}\n{shown}\n{fence}\n"


def fence_of(text: str) -> str:
    """Return a fence that is longer than any within a text."""
    return "`" * max(3, max(map(len, _TICKS.findall(text)), default=0) + 1)


def one_line(text: str) -> str:
    """Return a text as one line."""
    return printable(" ".join(text.split()))
