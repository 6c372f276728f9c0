"""Metadata of a document: its core properties (ECMA-376, part 2, 11.1)."""

from __future__ import annotations

from retrieve_cli.contracts import Json
from retrieve_cli.documents.docx.markup import Node

_NAMES = {"dc:title": "title", "dc:creator": "author", "dcterms:created": "created", "dc:language": "language"}
_LONGEST = 1000
_MOST_KEYWORDS = 50


def metadata_of(core: Node | None) -> dict[str, Json]:
    """Return the properties that have a value, under the names that all formats use."""
    texts = (
        {node.name: " ".join(node.text[: 4 * _LONGEST].split())[:_LONGEST] for node in core.children} if core else {}
    )
    metadata: dict[str, Json] = {name: texts[key] for key, name in _NAMES.items() if texts.get(key)}
    description = texts.get("dc:description") or texts.get("dc:subject")
    if description:
        metadata["description"] = description
    parts = texts.get("cp:keywords", "").replace(";", ",").split(",")
    if keywords := [part.strip() for part in parts if part.strip()][:_MOST_KEYWORDS]:
        metadata["keywords"] = keywords
    return metadata
