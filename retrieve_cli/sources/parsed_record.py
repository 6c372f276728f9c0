"""Records of parsed documents."""

from __future__ import annotations

from pathlib import Path

from retrieve_cli.contracts import Field, Parsed, Record
from retrieve_cli.sources.fields import LONGEST_NAME
from retrieve_cli.sources.values import first, strings

_SHOWN = frozenset({"title", "description", "url", "license", "keywords", "group"})
"""Metadata that become fields of the record itself."""


def parsed_record(
    parsed: Parsed, path: str, kind: str, *, id_: str, name_weight: float, source: str = "", line: int = 1
) -> Record | str:
    """Return the record of a document, or the reason why it is rejected. `path` is its path within its folder, `source`
    the name of its file in the index if that differs, `line` its number there."""
    if not any(char.isalnum() for char in parsed.text):
        return "it has no text"
    metadata, body = parsed.metadata, parsed.body_start
    title = (first(strings(metadata.get("title"))) or parsed.title or Path(path).stem)[:LONGEST_NAME]
    folders = path.split("/")[:-1]
    return Record(
        id=id_,
        name=title,
        text=parsed.text,
        kind=kind,
        source=source or path,
        line=line,
        body_start=body,
        description=first(strings(metadata.get("description"))),
        url=first(strings(metadata.get("url"))) or None,
        license=first(strings(metadata.get("license"))) or None,
        keywords=tuple(strings(metadata.get("keywords")) or strings(metadata.get("tags"))),
        group=first(strings(metadata.get("group"))) or (folders[0] if folders else None),
        fields=(Field("name", title, name_weight), Field("text", parsed.text[body:])),
        metadata={key: value for key, value in metadata.items() if key not in _SHOWN},
        layout=parsed.layout,
    )
