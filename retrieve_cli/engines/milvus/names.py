"""Names of collections: the configured name, the id of a generation, and a part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from retrieve_cli.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from retrieve_cli.contracts.engines import Part

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,149}\Z")
"""Milvus allows 255 characters; the rest is for the generation and the part."""
_ID = re.compile(r"[0-9a-f]{12}\Z")
_PART = re.compile(r"[a-z0-9_]{1,80}\Z")
_ENDING = re.compile(r"_([0-9a-f]{12})(?:_([a-z0-9_]{1,80}))?\Z")


class Names:
    """Names below one configured name, which is itself the alias of the current generation.

    `chunks_0123456789ab` holds the metadata and files of a generation, `chunks_0123456789ab_lexical` one of its parts.
    """

    def __init__(self, collection: str) -> None:
        if not _NAME.match(collection):
            hint = "set milvus.collection to letters, digits and `_`, for example: chunks"
            raise UsageError(f"{quoted(collection)} cannot be the name of a Milvus collection", hint=hint)
        self.alias = collection

    def files(self, generation: str) -> str:
        """Return the collection of the metadata and files of a generation."""
        if not _ID.match(generation):
            raise UsageError(f"{quoted(generation)} is not the id of a generation: 12 hex digits")
        return f"{self.alias}_{generation}"

    def part(self, generation: str, part: str) -> str:
        """Return the collection of a part."""
        if not _PART.match(part):
            raise UsageError(f"{quoted(part)} is not the name of a part: lower-case letters, digits and `_`")
        return f"{self.files(generation)}_{part}"

    def published(self, generation: str, parts: Sequence[Part]) -> str:
        """Return the collection that the alias names: the first part with vectors, otherwise the first part."""
        for part in parts:
            if part.dim is not None:
                return self.part(generation, part.name)
        return self.part(generation, parts[0].name) if parts else self.files(generation)

    def generation(self, collection: str) -> str | None:
        """Return the generation to which a collection belongs; None if it is not one of ours."""
        if not collection.startswith(self.alias):
            return None
        ending = _ENDING.match(collection, len(self.alias))
        return ending[1] if ending else None

    def grouped(self, collections: Iterable[str]) -> dict[str, list[str]]:
        """Return our collections by generation, ascending."""
        groups: dict[str, list[str]] = {}
        for name in sorted(collections):
            if generation := self.generation(name):
                groups.setdefault(generation, []).append(name)
        return dict(sorted(groups.items()))
