"""Names of collections: one for a generation itself, and one for each of its parts."""

from __future__ import annotations

import re

from retrieve_cli.errors import IndexCorrupt, UsageError, quoted

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_GENERATION = re.compile(r"[0-9a-f]{12}")
_AFTER_PREFIX = re.compile(r"_([0-9a-f]{12})(?:_[a-z0-9_]+)?")


class Names:
    """Names made of the configured one, which is the alias of the current generation."""

    def __init__(self, alias: str) -> None:
        """Take the configured name.

        Raises:
            UsageError: it has other characters than letters, digits, `_` and `-`, or more than 128.
        """
        if not _PREFIX.fullmatch(alias):
            raise UsageError(
                f"qdrant.collection is {quoted(alias)}, which is not the name of a collection",
                hint="use up to 128 letters, digits, `_` and `-`",
            )
        self.alias = alias

    def generation(self, generation: str) -> str:
        """Return the collection with what is known about a generation, and with blocks of its files.

        Raises:
            IndexCorrupt: it is not the id of a generation.
        """
        if not _GENERATION.fullmatch(generation):
            raise IndexCorrupt(
                f"{quoted(generation)} is not the id of a generation", hint="run `retrieve engines status`"
            )
        return f"{self.alias}_{generation}"

    def part(self, generation: str, part: str) -> str:
        """Return the collection with the rows of a part."""
        return f"{self.generation(generation)}_{part}"

    def owner(self, collection: str) -> str | None:
        """Return the generation to which a collection belongs; None if it is not one of ours."""
        match = _AFTER_PREFIX.fullmatch(collection, len(self.alias)) if collection.startswith(self.alias) else None
        return match[1] if match else None
