"""Differences of two generations: their records, recipes, and answers to the same queries."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json, Request
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
        UsageError: there is no such generation.
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
    if queries:
        found["queries"] = _answers(store, settings, before.manifest.id, after.manifest.id, queries)
    return found


def _opened(store: Store, name: str | None) -> tuple[Generation, dict[str, bytes]]:
    """Return a generation, and the SHA-1 of the content of each record."""
    with open_generation(store, name) as generation:
        return generation, generation.contents_by_id()


def _answers(store: Store, settings: Settings, before: str, after: str, queries: Sequence[Request]) -> dict[str, Json]:
    """Return the changes in the top 10 of each query; queries without a change are only counted."""
    old, new = (_ranked(Opened.of(store, settings, name), queries) for name in (before, after))
    moves = [_moved(query, *lists) for query, *lists in zip(queries, old, new, strict=True)]
    shared = [len(set(a) & set(b)) / max(len(a), len(b), 1) for a, b in zip(old, new, strict=True)]
    return {
        "asked": len(queries),
        "moved": sum(map(bool, moves)),
        f"overlap@{DEPTH}": round(sum(shared) / len(shared), 6),
        "moves": [move for move in moves if move],
    }


def _ranked(opened: Opened, queries: Sequence[Request]) -> list[list[str]]:
    """Return the ids of the top records for each query."""
    answers = Searcher(opened, opened.options(k=DEPTH)).answer(queries)
    return [[str(result.record["id"]) for result in answer.results] for answer in answers]


def _moved(query: Request, old: Sequence[str], new: Sequence[str]) -> dict[str, Json]:
    """Return the records that entered, left or moved, with ranks from 1; empty if the lists are equal."""
    if list(old) == list(new):
        return {}
    ranks = {name: (old.index(name) + 1, new.index(name) + 1) for name in old if name in new}
    return {
        "id": query.id,
        "query": query.text,
        "entered": [{"id": name, "rank": new.index(name) + 1} for name in new if name not in old],
        "left": [{"id": name, "rank": old.index(name) + 1} for name in old if name not in new],
        "moved": [{"id": name, "from": was, "to": now} for name, (was, now) in ranks.items() if was != now],
    }
