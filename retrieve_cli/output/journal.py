"""Runs and the log of queries: answers kept in a folder with all that decided them, and a line for each query.

    runs/<run_id>/retrieval.json    by query: the query as understood, results, cuts, and times
    runs/<run_id>/run.json          time, version, generation, configuration, requests and options
    runs/<run_id>/run_summary.txt   the same for people
    runs/queries.jsonl              a line a query, if log.queries is true

Addresses are written without secrets; keys are in the environment only. `run.json` is written last, so a run that is
listed is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, quoted, unwritable
from retrieve_cli.output import formats, run_account
from retrieve_cli.output.reasons import why
from retrieve_cli.output.run_account import INDEXED
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import JUDGMENTS, MANIFEST, read_text, regular_descriptor
from retrieve_cli.version import __version__

RETRIEVAL, RUN, SUMMARY, QUERIES = "retrieval.json", "run.json", "run_summary.txt", "queries.jsonl"
_SHOWN = 5
"""Results of each query that the summary names."""


def save(
    store: Store,
    answers: Sequence[Answer],
    settings: Settings,
    options: SearchOptions,
    *,
    recipe: Json,
    mode: str = INDEXED,
) -> str:
    """Write a run of these answers, without the texts of their results, and return its id. `recipe` is the recipe of
    their index.

    Raises:
        RetrieveError: the folder cannot be written to.
    """
    at = datetime.now(UTC)
    retrieval = run_account.retrieval(answers, settings, options, mode=mode)
    run = {
        **_begun(at, retrieval),
        "generation": answers[0].generation if answers else None,
        "queries": len(answers),
        "mode": mode,
        "inputs": run_account.inputs(answers, options),
        "configuration": run_account.configuration(settings),
        "recipe": recipe,
    }
    lines = [f"run {run['run_id']}, {run['at']}, generation {run['generation']}, {len(answers)} queries"]
    for answer in answers:
        lines += ["", f"{answer.query.id}: {answer.query.text}", f"   {answer.pipeline}"]
        lines += _skipped(answer.strategies_skipped)
        ranked = ((rank, f"{result.id} {result.score:.4f} {why(result, rank=rank)}") for rank, result in answer.ranked)
        lines += _best(ranked, len(answer.results))
        lines += [f"   also needed: {result.hit.id} {result.hit.path}" for result in answer.related]
        lines += ["   " + ", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items())]
    return _write(store.runs, run, retrieval, lines)


def _begun(at: datetime, answered: Json) -> dict[str, Json]:
    """The first keys of a run, its id among them."""
    return {
        "schema_version": formats.SCHEMA_VERSION,
        "run_id": f"{at:%Y%m%d-%H%M%S}-{sha1([at.isoformat(), os.getpid(), answered])[:6]}",
        "at": at.isoformat(timespec="seconds"),
        "version": __version__,
    }


def _write(runs: Path, run: Mapping[str, Json], retrieval: Mapping[str, Json], summary: Iterable[str]) -> str:
    """Write the files of a run and return its id; of one that cannot be written, nothing stays."""
    folder = runs / run["run_id"]
    try:
        folder.mkdir(parents=True)
        durable.replace(folder / RETRIEVAL, _dump({"run_id": run["run_id"], **retrieval}))
        durable.replace(folder / SUMMARY, "\n".join(map(printable, summary)) + "\n")
        durable.replace(folder / RUN, _dump(run))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise unwritable(folder, error) from error
    return str(run["run_id"])


def _dump(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def folder_of(runs: Path, run_id: str) -> Path:
    """Return the folder of a run that was saved.

    Raises:
        UsageError: the run does not exist.
    """
    run_ids = sorted(path.parent.name for path in runs.glob(f"*/{RUN}"))
    if run_id not in run_ids:
        listed = ", ".join(run_ids[-_SHOWN:][::-1]) or "none; retrieve query TEXT --save-run keeps one"
        raise UsageError(f"there is no run {quoted(run_id)}", hint=f"the latest: {listed}")
    return runs / run_id


def read(folder: Path) -> dict[str, Json]:
    """Return a run that was saved, both its files as one object; its `answers` are a list.

    Raises:
        UsageError: it is damaged, or not a run.
    """
    try:
        run = json.loads(read_text(folder / RUN, limit=MANIFEST))
        retrieval = json.loads(read_text(folder / RETRIEVAL, limit=JUDGMENTS))
        if not isinstance(retrieval["answers"], list):
            raise TypeError("its answers are not a list")
        return {**run, **retrieval}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"the run {quoted(folder.name)} cannot be read: {error}", hint=f"see {folder}") from error


def log(runs: Path, answers: Sequence[Answer], *, min_candidates: int) -> None:
    """Add a line for each query to the log, in one piece each even if other processes write to it.

    Raises:
        RetrieveError: it cannot be written to.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        runs.mkdir(parents=True, exist_ok=True)
        descriptor = regular_descriptor(runs / QUERIES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode=0o600)
        try:
            for answer in answers:
                related = [{"id": each.record["id"], "path": each.hit.path} for each in answer.related]
                line = {
                    "at": now,
                    "query": answer.query.text,
                    "clean_query": answer.question.clean,
                    "generation": answer.generation,
                    "pipeline": answer.pipeline,
                    **numbers(answer, min_candidates=min_candidates),
                    "results": [{"id": each.record["id"], "score": each.hit.score} for each in answer.results],
                    **({"related": related} if related else {}),
                    "total_ms": answer.timings_ms["total"],
                }
                os.write(descriptor, formats.dump(line).encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unwritable(runs / QUERIES, error) from error


def _skipped(reasons: Mapping[str, str]) -> list[str]:
    return [f"   {name} skipped: {reason}" for name, reason in reasons.items()]


def _best(results: Iterable[tuple[int, str]], total: int) -> list[str]:
    more = [f"   and {total - _SHOWN} more"] if total > _SHOWN else []
    return [f"   {rank}. {shown}" for rank, shown in islice(results, _SHOWN)] + more


_DIGITS = 6


def numbers(answer: Answer, *, min_candidates: int) -> dict[str, Json]:
    """Return figures on the way to an answer; `warning` is set if it has too few candidates."""
    least = min(min_candidates, answer.k)
    limit = "log.min_candidates" if least == min_candidates else "asked for by -k"
    few = f"{answer.before_budget} candidates, fewer than {least} ({limit})"
    scores = [result.hit.score for result in answer.results]
    evidence = [one for result in answer.results for one in result.hit.evidence]
    similar = [one.score for one in evidence if one.source in answer.similar]
    moves = [(result.hit.reranked, rank) for rank, result in answer.ranked]
    moved = sum(reranked is not None and reranked.before != rank for reranked, rank in moves)
    return {
        "candidates": dict(answer.stages),
        "results": len(scores),
        "top_score": _rounded(scores[0]) if scores else None,
        "avg_score": _mean(scores),
        "mean_similarity": _mean(similar),
        "reranked": answer.reranked,
        "moved_by_reranker": moved if answer.reranked else None,
        "top_score_change": _rounded(answer.course.top_score_change),
        "retries": max(len(answer.attempts) - 1, 0),
        "skipped": sorted(answer.strategies_skipped),
        "warning": few if answer.before_budget < least else None,
    }


def _mean(values: list[float]) -> float | None:
    return _rounded(sum(values) / len(values)) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
