"""Rejected items that the list of the previous run does not have: of these a sync tells its caller once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Refused
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.storage.store import Store


def new_rejections(store: Store, rejected: Sequence[Refused]) -> int:
    """Return how many of the items the quarantine file does not list yet.

    An item is known by its source and its text, so that one that only moved to another line is not new; without text,
    by its source and the reason.
    """
    if not rejected:
        return 0
    listed = Counter(_listed(store))
    now = Counter(_key(item.source, item.excerpt, item.reason) for item in rejected)
    return (now - listed).total()


def _listed(store: Store) -> Iterator[str]:
    """Yield the keys of the listed items; lines that are damaged have none."""
    try:
        with files.open_regular(store.quarantine, limit=files.JUDGMENTS) as file:
            for line in files.lines(file):
                try:
                    item: Json = json.loads(line)
                    yield _key(item["source"], item["excerpt"], item["reason"])
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
    except OSError:
        return


def _key(source: Json, excerpt: Json, reason: Json) -> str:
    return json.dumps([source, excerpt or None, None if excerpt else reason])
