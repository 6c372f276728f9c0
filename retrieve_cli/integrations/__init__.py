"""Retrievers for frameworks: each file needs the extra of its name, and is imported on demand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from retrieve_cli.api.answers import IndexAnswer, IndexResult
from retrieve_cli.api.writable import WritableIndex, open_index
from retrieve_cli.errors import Unavailable, UsageError

IndexOrPath = WritableIndex | str | os.PathLike[str]


def missing(package: str, extra: str) -> Unavailable:
    """Return the error for a framework that is not installed."""
    return Unavailable(f"the package {package} is not installed", hint=f"pip install 'retrieve-cli[{extra}]'")


def opened(index: IndexOrPath, config: str | None = None) -> WritableIndex:
    """Return an index, opened if it is named by its folder."""
    return index if isinstance(index, WritableIndex) else open_index(index, config=config, generation=None)


def joined(*several: Mapping[str, Any]) -> dict[str, Any]:
    """Return choices that are given together; None is no choice. Raises: UsageError: two differ."""
    choices: dict[str, Any] = {}
    for name, value in (item for given in several for item in given.items()):
        if value is not None and choices.setdefault(name, value) != value:
            raise UsageError(f"`{name}` is given twice, with different values", hint="remove one of them")
    return choices


def metadata_of(result: IndexResult) -> dict[str, Any]:
    """Return the row of a result without its text: `id`, `doc_id`, `score`, `relevance`, `source`, `url` and so on."""
    return {key: value for key, value in result.items() if key != "text"}


def scores_of(answer: IndexAnswer) -> list[float]:
    """Return a score for each result, for frameworks that expect 0 to 1: its relevance if each result has one, which
    takes a calibration or a reranker with that scale; else the score of the ranking, on its own scale."""
    known = [result.relevance for result in answer if result.relevance is not None]
    return known if len(known) == len(answer) else [result.score for result in answer]
