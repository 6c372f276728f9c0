"""Differences between two states of an index: records by id and digest, chunks by id and text, recipes by key.

The plan of a sync, as a value: it can be shown (`--dry-run`), rejected, or applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.assemble.registry import ordered
from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.recipe import NAMED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.generation import Generation


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

    def __repr__(self) -> str:
        return f"Changes({self})"


class ChunkChanges(NamedTuple):
    """Numbers of chunks that were added, changed, removed and kept. A chunk is known by its id, `record#2`."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0


def chunk_changes(
    before: Generation | None, kept: Rows, former: Sequence[int], starts: Rows, texts: NDArray[np.uint8]
) -> ChunkChanges:
    """Return how many chunks were added, changed, removed and kept.

    `kept` are the records of the generation before that stay; `starts` and `texts` describe the others, whose rows
    before are `former`, -1 for those that are new.
    """
    if before is None:
        return ChunkChanges(added=len(texts))
    sizes = np.diff(before.starts)
    total = int(sizes.sum() if before.live is None else sizes[before.live].sum())
    unchanged = int(sizes[kept].sum())
    added, changed, removed = 0, 0, total - unchanged
    for row, old_row in enumerate(former):
        new = texts[int(starts[row]) : int(starts[row + 1])]
        if old_row < 0:
            added += len(new)
            continue
        old = before.texts[int(before.starts[old_row]) : int(before.starts[old_row + 1])]
        both = min(len(old), len(new))
        same = int((old[:both] == new[:both]).all(axis=1).sum())
        unchanged, changed = unchanged + same, changed + both - same
        added, removed = added + len(new) - both, removed - both
    return ChunkChanges(added, changed, removed, unchanged)


def recipe_changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> dict[str, tuple[Json, Json]]:
    """Return the keys, as dotted paths, whose values differ: their value before and after, None if missing."""
    old, new = flat(before), flat(after)
    return {key: (old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}


def flat(value: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Return the values of nested objects by dotted paths. An empty object is a value."""
    found: dict[str, Json] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            found |= flat(inner, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = inner
    return found


class Plan(Frozen):
    """The changes that a sync would make."""

    generation: str | None
    """The current one, with which the sources are compared."""
    changes: Changes
    recipe: Mapping[str, tuple[Json, Json]]
    """Keys of the recipe that differ: their value before and after."""
    records: Mapping[str, int]
    """Number of records of each source now."""
    rejected: int
    needed: bool
    """True if there is anything to write: an item or the recipe differs, or the current index is damaged."""
    notices: Sequence[str] = ()
    """Sentences on keys of records with text that no field reads."""

    @property
    def redo(self) -> list[str]:
        """Sentences on the work that the changed recipe causes."""
        changed = {key.partition(".")[0] for key in self.recipe}
        sentences = {
            "encoder": "every text is cut and embedded again: the encoder has changed",
            "sources": "records are read again: sources or fields have changed",
            "chunking": "records are cut again; unchanged texts keep their vectors",
            "facets": "records are read again; only texts without facets of this kind are sent for them",
        }
        known = [sentence for part, sentence in sentences.items() if part in changed]
        return known + [f"the {name} index is rewritten" for name in ordered(changed - NAMED)]

    def to_json(self) -> dict[str, Json]:
        return {
            "status": "planned" if self.needed else "unchanged",
            "generation": self.generation,
            **self.changes.counts,
            "quarantined": self.rejected,
            "records": {name: list(getattr(self.changes, name)) for name in ("added", "changed", "removed")},
            "recipe": {key: list(values) for key, values in self.recipe.items()},
            "redo": self.redo,
            **({"notices": list(self.notices)} if self.notices else {}),
        }

    def sentences(self) -> list[str]:
        """The same for people."""
        against = f"compared with generation {self.generation}" if self.generation else "there is no index yet"
        rejected = f", {self.rejected} rejected" if self.rejected else ""
        lines = [f"plan: {self.changes}{rejected} ({against})"]
        lines += [f"recipe: {key}: {_short(old)} -> {_short(new)}" for key, (old, new) in self.recipe.items()]
        return lines + ([f"so {sentence}" for sentence in self.redo] if self.generation else [])


def _short(value: Json) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"
