"""Differences of two generations: their records, recipes, and answers to the same queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.assemble.approvals import PINNED, difference
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json, Request
from retrieve_cli.contracts.tools import DEFINITION, is_tool
from retrieve_cli.ingest.changes import Changes, recipe_changes
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.store import Store

DEPTH = 10
"""Results of each query that are compared."""


def compare(
    store: Store, settings: Settings, old: str | None, new: str | None, queries: Sequence[Request]
) -> dict[str, Json]:
    """Return the differences of generation `new` (default: the current one) from `old` (default: its predecessor).

    Raises:
        UsageError: a generation does not exist.
        IndexCorrupt: one of them is damaged.
    """
    after, contents_after = _opened(store, new)
    before, contents_before = _opened(store, old or store.before(after.manifest.id))
    changes = Changes.between(contents_before, contents_after)
    recipe = recipe_changes(before.manifest.recipe.to_json(), after.manifest.recipe.to_json())
    found: dict[str, Json] = {
        "from": before.manifest.id,
        "to": after.manifest.id,
        "kinds": sorted({source.kind for source in after.manifest.sources}),
        **changes.counts,
        "records": {name: list(getattr(changes, name)) for name in ("added", "changed", "removed")},
        "recipe": {key: {"from": old, "to": new} for key, (old, new) in recipe.items()},
    }
    if tools := _tools(store, before.manifest.id, after.manifest.id, changes.changed):
        found["tools"] = tools
    if queries:
        found["queries"] = _answers(store, settings, before.manifest.id, after.manifest.id, queries)
    return found


def _opened(store: Store, name: str | None) -> tuple[Generation, dict[str, bytes]]:
    """Return a generation, and the SHA-1 of the content of each record."""
    with open_generation(store, name) as generation:
        return generation, generation.contents_by_id()


def _tools(store: Store, before: str, after: str, names: Sequence[str]) -> dict[str, Json]:
    """Return the lines of a unified diff of each tool, among the changed records, whose definition differs."""
    found: dict[str, Json] = {}
    if not names:
        return found
    with open_generation(store, before) as old, open_generation(store, after) as new:
        for name in names:
            row, new_row = old.exact_row(name), new.exact_row(name)
            if row is None or new_row is None:
                continue
            both = [old.records[row]["metadata"], new.records[new_row]["metadata"]]
            if not all(map(is_tool, both)):
                continue
            one, other = ({key: metadata[DEFINITION].get(key) for key in PINNED} for metadata in both)
            if one != other:
                found[name] = list(difference(name, one, other, ("before", "after")))
    return found


def _answers(store: Store, settings: Settings, before: str, after: str, queries: Sequence[Request]) -> dict[str, Json]:
    """Return the changes in the top 10 of each query; queries without a change are only counted."""
    old, new = (_ranked(Opened.of(store, settings, name), queries) for name in (before, after))
    pairs = [Moves.between(*rankings) for rankings in zip(old, new, strict=True)]
    changed = [(query, moves) for query, moves in zip(queries, pairs, strict=True) if not moves.identical]
    return {
        "asked": len(queries),
        "moved": len(changed),
        f"overlap@{DEPTH}": round(sum(moves.overlap for moves in pairs) / len(pairs), 6),
        "moves": [
            {
                "id": query.id,
                "query": query.text,
                "entered": [{"id": name, "rank": rank} for name, rank in moves.entered.items()],
                "left": [{"id": name, "rank": rank} for name, rank in moves.left.items()],
                "moved": [{"id": name, "from": was, "to": now} for name, (was, now) in moves.moved.items()],
            }
            for query, moves in changed
        ],
    }


def _ranked(opened: Opened, queries: Sequence[Request]) -> list[list[str]]:
    """Return the ids of the top records of each query."""
    answers = Searcher(opened, opened.options(k=DEPTH)).answer(queries)
    return [list(dict.fromkeys(result.doc_id for result in answer.results)) for answer in answers]


class Moves(NamedTuple):
    """Differences of a ranking from an earlier one of the same query. Ranks begin at 1."""

    entered: Mapping[str, int]
    """New ranks of ids that the earlier ranking does not have."""
    left: Mapping[str, int]
    """Earlier ranks of ids that the new ranking does not have."""
    moved: Mapping[str, tuple[int, int]]
    """Earlier and new rank of ids whose rank differs."""
    overlap: float
    """Share of the longer ranking that both have; 0 if both are empty."""

    @classmethod
    def between(cls, before: Sequence[str], after: Sequence[str]) -> Moves:
        """Return the differences of two rankings, best first."""
        old, new = ({name: rank for rank, name in enumerate(side, 1)} for side in (before, after))
        both = [name for name in old if name in new]
        return cls(
            entered={name: rank for name, rank in new.items() if name not in old},
            left={name: rank for name, rank in old.items() if name not in new},
            moved={name: (old[name], new[name]) for name in both if old[name] != new[name]},
            overlap=len(both) / max(len(old), len(new), 1),
        )

    @property
    def identical(self) -> bool:
        """True if both have the same ids in the same order."""
        return not (self.entered or self.left or self.moved)
