"""What `-v` says of answers: a line a query on stderr, `key=value`, or JSON with `--log-json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.search.answer import Answer


def log_answers(answers: Sequence[Answer], *, as_json: bool) -> None:
    """A line for each answer."""
    for answer in answers:
        event = {"event": "answer", **_event(answer)}
        print(json.dumps(event) if as_json else _plain(event), file=sys.stderr)


def _event(answer: Answer) -> dict[str, Json]:
    """What happened on the way to an answer, in numbers."""
    similar = [each.score for result in answer.results for each in result.hit.evidence if each.source in answer.similar]
    moved = sum(
        result.hit.reranked is not None and result.hit.reranked.before != rank
        for rank, result in enumerate(answer.results, 1)
    )
    return {
        "query": answer.query.id,
        "generation": answer.generation,
        "candidates": dict(answer.stages),
        "results": len(answer.results),
        "mean_similarity": round(sum(similar) / len(similar), 4) if similar else None,
        "moved_by_reranker": moved if answer.reranked else None,
        "retries": max(len(answer.attempts) - 1, 0),
        "skipped": sorted(answer.strategies_skipped),
        "total_ms": answer.timings_ms["total"],
    }


def _plain(event: Mapping[str, Json]) -> str:
    """The event as `key=value`, parted by blanks; what holds several values as JSON."""
    parts = (
        f"{key}={json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value}"
        for key, value in event.items()
    )
    return printable(" ".join(parts))
