"""Differences between two states of an index: records by id and digest, recipes by key."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.manifest import canonical


class Changes(Frozen):
    """Ids of the records that were added, changed and removed, each in the order of its side; the number kept."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: int = 0

    @classmethod
    def between(cls, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Changes:
        """Return the changes between two states, each a digest of the content by record id."""
        changed = tuple(name for name, digest in after.items() if before.get(name, digest) != digest)
        added = tuple(name for name in after if name not in before)
        removed = tuple(name for name in before if name not in after)
        return cls(added, changed, removed, len(after) - len(added) - len(changed))

    @property
    def counts(self) -> dict[str, int]:
        """The same as numbers."""
        return {"added": len(self.added), "changed": len(self.changed), "removed": len(self.removed), "kept": self.kept}

    @property
    def signs(self) -> str:
        """The same as people read it in a log: `+0 ~1 −63`."""
        return f"+{len(self.added):,} ~{len(self.changed):,} \N{MINUS SIGN}{len(self.removed):,}"

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in self.counts.items())


def recipe_changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> dict[str, tuple[Json, Json]]:
    """Return the keys, as dotted paths, whose values differ in JSON: their value before and after, None if missing."""
    old, new = flat(before), flat(after)
    pairs = {key: (old.get(key), new.get(key)) for key in sorted({*old, *new})}
    return {key: pair for key, pair in pairs.items() if canonical(pair[0]) != canonical(pair[1])}


def flat(value: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Return the values of nested objects by dotted paths. An empty object is a value."""
    found: dict[str, Json] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            found |= flat(inner, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = inner
    return found
