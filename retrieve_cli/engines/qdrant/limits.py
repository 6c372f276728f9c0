"""Limits of a server's strict mode that are lower than what searches need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retrieve_cli.config.engine_settings import QdrantSettings
from retrieve_cli.contracts.values import Json
from retrieve_cli.engines.qdrant.parts import OVERSAMPLING

_DEEPEST = 2000
"""Candidates of a search, at most."""


def excess(strict: Mapping[str, Json], settings: QdrantSettings, *, most_rows: int) -> Iterator[tuple[str, str]]:
    """Yield each limit of `strict_mode_config` that searches exceed, and how to raise it."""
    if not strict.get("enabled"):
        return
    needed = {
        "max_query_limit": most_rows,
        "search_max_hnsw_ef": max(settings.hnsw_ef_search, _DEEPEST),
        "search_max_oversampling": OVERSAMPLING,
        "condition_max_size": most_rows,
    }
    for key, least in needed.items():
        limit = strict.get(key)
        if limit is not None and limit < least:
            yield f"strict mode of Qdrant limits {key} to {limit}", f"raise it to {least} in the server"
    if strict.get("search_allow_exact") is False:
        yield "strict mode of Qdrant does not allow exact searches", "set search_allow_exact: true in the server"
