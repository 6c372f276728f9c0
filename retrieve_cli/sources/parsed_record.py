"""Records of parsed documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from retrieve_cli.contracts import Field, Json, Parsed, Record
from retrieve_cli.contracts.layout import Block, Layout
from retrieve_cli.sources.fields import LONGEST_NAME
from retrieve_cli.sources.summary import summary_of
from retrieve_cli.sources.values import first, strings

_SHOWN = frozenset({"title", "description", "url", "license", "keywords", "group"})
"""Metadata that become fields of the record itself."""
_SKILL = "SKILL.md"
"""A file whose front matter has the name of a skill of an agent, https://agentskills.io/specification."""


def parsed_record(
    parsed: Parsed, path: str, kind: str, *, id_: str, name_weight: float, source: str = "", line: int = 1
) -> Record | str:
    """Return the record of a document, or the reason why it is rejected. `path` is its path within its folder, `source`
    the name of its file in the index if that differs, `line` its number there."""
    metadata = {**parsed.metadata, **_prefixed(parsed.metadata, id_.removesuffix(path))}
    named = [metadata.get("title"), metadata.get("name") if Path(path).name == _SKILL else None]
    title = (first(strings(named)) or parsed.title or Path(path).stem)[:LONGEST_NAME]
    text, layout = with_summary(parsed, title)
    if not any(char.isalnum() for char in text):
        return "it has no text"
    folders = path.split("/")[:-1]
    return Record(
        id=id_,
        name=title,
        text=text,
        kind=kind,
        source=source or path,
        line=line,
        description=first(strings(metadata.get("description"))),
        url=first(strings(metadata.get("url"))) or None,
        license=first(strings(metadata.get("license"))) or None,
        keywords=tuple(strings(metadata.get("keywords")) or strings(metadata.get("tags"))),
        group=first(strings(metadata.get("group"))) or (folders[0] if folders else None),
        fields=(Field("name", title, name_weight), Field("text", text)),
        metadata={key: value for key, value in metadata.items() if key not in _SHOWN},
        layout=layout,
        dropped=Counter(part.reason for part in parsed.dropped),
    )


def _prefixed(metadata: Mapping[str, Json], prefix: str) -> dict[str, Json]:
    """Return the links of a document with the prefix that ids of its source have; names of notes have none."""
    links = metadata.get("links_to")
    if not prefix or not isinstance(links, list):
        return {}
    return {
        "links_to": [
            f"{prefix}{link}" if str(link).rpartition(".")[2].isalpha() and "." in str(link) else link for link in links
        ]
    }


def with_summary(parsed: Parsed, title: str) -> tuple[str, Layout | None]:
    """Return the text of a document below the prose of its metadata, as its first paragraph, and its layout.

    The lines of that paragraph take the place of blank lines at the top, as front matter leaves them, so that the lines
    below keep their numbers.
    """
    text, layout = parsed.text, parsed.layout
    words = f" {' '.join(text.split())} "
    lines = [line for line in summary_of(parsed.metadata, title=title, text=text) if f" {line} " not in words]
    if parsed.metadata and not any(map(str.isalnum, text)):
        lines.insert(0, title)
    if not lines or layout is None:
        return text, layout
    blank = len(text) - len(text.lstrip("\n"))
    if layout.in_lines and blank <= len(lines):
        lines = [" ".join(lines)]
    summary, taken, between = "\n".join(lines), len(lines) - 1, ""
    if blank <= len(lines):
        taken, between = blank, " " if layout.in_lines else "\n\n"
    shift = len(summary) + len(between) - taken
    return f"{summary}{between}{text[taken:]}", layout.below(Block(0, len(summary), "paragraph"), shift)
