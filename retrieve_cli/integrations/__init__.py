"""Retrievers for frameworks: each file needs the extra of its name, and is imported on demand."""

from __future__ import annotations

from typing import Any

from retrieve_cli.api.answers import IndexAnswer, IndexResult
from retrieve_cli.errors import Unavailable


def missing(package: str, extra: str) -> Unavailable:
    """Return the error for a framework that is not installed."""
    return Unavailable(f"the package {package} is not installed", hint=f"pip install 'retrieve-cli[{extra}]'")


def metadata_of(result: IndexResult) -> dict[str, Any]:
    """Return the row of a result without its text: `id`, `doc_id`, `score`, `relevance`, `source`, `url` and so on."""
    return {key: value for key, value in result.items() if key != "text"}


def scores_of(answer: IndexAnswer) -> list[float]:
    """Return a score for each result, for frameworks that expect 0 to 1: its relevance if each result has one, which
    takes a calibration or a reranker with that scale; else the score of the ranking, on its own scale."""
    known = [result.relevance for result in answer if result.relevance is not None]
    return known if len(known) == len(answer) else [result.score for result in answer]
