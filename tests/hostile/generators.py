"""The categories of attacks: each a function of a random generator that returns a try."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hostile import asking, damage, given, judged, kills, mutated, remote, texts
from hostile.tries import Try

GENERATORS: dict[str, Callable[[Random], Try]] = {
    "catalog": texts.catalog,
    "documents": texts.documents,
    "files": mutated.files,
    "config": texts.config,
    "clones": texts.clones,
    "queries": asking.queries,
    "patterns": asking.patterns,
    "images": given.images,
    "judgments": judged.judgments,
    "edges": judged.edges,
    "pickles": damage.pickles,
    "manifests": damage.manifests,
    "artifacts": damage.artifacts,
    "flips": damage.flips,
    "inbox": damage.inbox,
    "keys": damage.keys,
    "http": remote.http,
    "servers": remote.servers,
    "engines": remote.engines,
    "kills": kills.kills,
}
WEIGHTS = {"queries": 2, "kills": 0.5, "engines": 0.5}
"""Frequency of a category in a long run, if it is not 1."""


def attack(category: str, seed: str) -> Try:
    """Return the try of a category that belongs to a seed: always the same one."""
    return GENERATORS[category](Random(f"{seed} {category}"))
