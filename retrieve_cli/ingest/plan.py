"""The plan of a sync, as a value: it can be shown (`--dry-run`), rejected, or applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieve_cli.assemble.registry import ordered
from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.storage.recipe import NAMED


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
        if any(key.endswith(".analyzer.version") for key in self.recipe):
            known.append("records are read again: the rules for words have changed")
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
