"""What differs between two states of an index: records by id and digest, recipes by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retrieve_cli.contracts import Json


@dataclass(frozen=True, slots=True)
class Changes:
    """Ids of the records that came, changed and went, each in the order of its side, and how many stayed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: int = 0

    @classmethod
    def between(cls, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Changes:
        """From two states, each a digest of the content by record id."""
        changed = tuple(name for name, digest in after.items() if before.get(name, digest) != digest)
        added = tuple(name for name in after if name not in before)
        removed = tuple(name for name in before if name not in after)
        return cls(added, changed, removed, len(after) - len(added) - len(changed))

    @property
    def counts(self) -> dict[str, int]:
        """The same as numbers."""
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "kept": self.kept,
        }

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in self.counts.items())


def recipe_changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> dict[str, tuple[Json, Json]]:
    """The keys, as dotted paths, whose values differ: their value before and after, None where there was none."""
    old, new = _flat(before), _flat(after)
    return {key: (old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}


def _flat(value: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    flat: dict[str, Json] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            flat |= _flat(inner, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = inner
    return flat
