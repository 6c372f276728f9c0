"""The categories of attacks: each a function of a random generator that returns a try."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hostile import asking, damage, judged, remote, texts
from hostile.tries import Try

GENERATORS: dict[str, Callable[[Random], Try]] = {
    "catalog": texts.catalog,
    "documents": texts.documents,
    "config": texts.config,
    "queries": asking.queries,
    "judgments": judged.judgments,
    "edges": judged.edges,
    "pickles": damage.pickles,
    "artifacts": damage.artifacts,
    "flips": damage.flips,
    "inbox": damage.inbox,
    "keys": damage.keys,
    "http": remote.http,
    "servers": remote.servers,
}


def attack(category: str, seed: str) -> Try:
    """Return the try of a category that belongs to a seed: always the same one."""
    return GENERATORS[category](Random(f"{seed} {category}"))
