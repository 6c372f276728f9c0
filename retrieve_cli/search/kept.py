"""A searcher that was opened before the command began: see `warm/`. There is none in any other process."""

from __future__ import annotations

import os

from retrieve_cli.config.settings import Settings
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

_kept: list[tuple[Searcher, os.stat_result]] = []
"""The searcher, and its folder: the same one under whichever name."""


def keep(searcher: Searcher) -> None:
    """Keep a searcher for the commands that this process does. Raises: OSError if its folder is gone."""
    _kept[:] = [(searcher, searcher.store.path.stat())]


def kept() -> Searcher | None:
    """Return the searcher that is kept."""
    return _kept[0][0] if _kept else None


def forget() -> None:
    """Keep none."""
    _kept.clear()


def open_searcher(store: Store, settings: Settings, generation: str | None = None) -> Searcher:
    """Return the current generation of a store, or the one named: the one that is kept, if it is the same.

    Raises:
        RetrieveError: as `Searcher` does.
    """
    if _kept and generation is None:
        before, folder = _kept[0]
        if _is_same(store, folder) and store.live() == before.generation.id:
            return before.again(store, settings) or Searcher(store, settings)
    return Searcher(store, settings, generation)


def _is_same(store: Store, folder: os.stat_result) -> bool:
    try:
        return os.path.samestat(store.path.stat(), folder)
    except OSError:
        return False
