"""Runs and the log of queries: answers kept in a folder with all that decided them, and a line for each query.

    runs/<run_id>/retrieval.json    by query: the request, the query as understood, results, cuts, and times
    runs/<run_id>/run.json          time, version, generation, configuration; and the requests, so that they can be
                                    answered again (`retrieve replay`)
    runs/<run_id>/run_summary.txt   the same for people
    runs/queries.jsonl              a line a query, if log.queries is true

Addresses are written without secrets; keys are in the environment only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from retrieve_cli import __version__
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, quoted, unwritable
from retrieve_cli.output import formats, run_account
from retrieve_cli.output.numbers import numbers
from retrieve_cli.output.reasons import why
from retrieve_cli.output.run_account import INDEXED, Texts
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1, sha1_file
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import JUDGMENTS, MANIFEST, read_text, regular_descriptor

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
    texts: Texts = "brief",
    mode: str = INDEXED,
) -> str:
    """Write a run of these answers and return its id. `recipe` is that of their index; `texts` says if the texts of the
    results are kept.

    Raises:
        RetrieveError: the folder cannot be written to.
    """
    now = datetime.now(UTC)
    retrieval = run_account.retrieval(answers, settings, options, mode=mode, texts=texts)
    run_id = f"{now:%Y%m%d-%H%M%S}-{sha1([now.isoformat(), os.getpid(), retrieval])[:6]}"
    run = {
        "schema_version": formats.SCHEMA_VERSION,
        "run_id": run_id,
        "at": now.isoformat(timespec="seconds"),
        "version": __version__,
        "generation": answers[0].generation if answers else None,
        "queries": len(answers),
        "mode": mode,
        "texts": texts,
        "inputs": run_account.inputs(answers, options),
        "configuration": run_account.configuration(settings),
        "recipe": recipe,
        "calibration": calibration_digest(store),
    }
    _write(store.runs / run_id, run, retrieval, _summary(run, answers))
    return run_id


def _write(folder: Path, run: Mapping[str, Json], retrieval: Mapping[str, Json], summary: str) -> None:
    try:
        folder.mkdir(parents=True)
        durable.replace(
            folder / RETRIEVAL, json.dumps({"run_id": run["run_id"], **retrieval}, ensure_ascii=False, indent=1)
        )
        durable.replace(folder / RUN, json.dumps(run, ensure_ascii=False, indent=1))
        durable.replace(folder / SUMMARY, summary)
    except OSError as error:
        raise unwritable(folder, error) from error


def calibration_digest(store: Store) -> str | None:
    """Return the SHA-1 of the calibration of scores; None if there is none."""
    try:
        return sha1_file(store.calibration)
    except OSError:
        return None


def folder_of(runs: Path, run_id: str) -> Path:
    """Return the folder of a run that was saved.

    Raises:
        UsageError: there is no such run.
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
                line = {"at": now, **_logged(answer, min_candidates)}
                os.write(descriptor, formats.dump(line).encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unwritable(runs / QUERIES, error) from error


def _logged(answer: Answer, min_candidates: int) -> dict[str, Json]:
    """One answer as the log keeps it."""
    related = answer.related
    return {
        "query": answer.query.text,
        "clean_query": answer.question.clean,
        "generation": answer.generation,
        "pipeline": answer.pipeline,
        **numbers(answer, min_candidates=min_candidates),
        "results": [{"id": result.record["id"], "score": result.hit.score} for result in answer.results],
        **({"related": [{"id": each.record["id"], "path": each.hit.path} for each in related]} if related else {}),
        "total_ms": answer.timings_ms["total"],
    }


def _summary(run: Mapping[str, Json], answers: Sequence[Answer]) -> str:
    """A few lines for people."""
    lines = [f"run {run['run_id']}, {run['at']}, generation {run['generation']}, {len(answers)} queries"]
    for answer in answers:
        lines += ["", f"{answer.query.id}: {answer.query.text}", f"   {answer.pipeline}"]
        lines += [f"   {name} skipped: {reason}" for name, reason in answer.strategies_skipped.items()]
        lines += [
            f"   {rank}. {result.hit.id} {result.hit.score:.4f} {why(result, rank=rank)}"
            for rank, result in islice(answer.ranked, _SHOWN)
        ]
        more = len(answer.results) - _SHOWN
        lines += [f"   and {more} more"] if more > 0 else []
        lines += [f"   also needed: {result.hit.id} {result.hit.path}" for result in answer.related]
        lines += ["   " + ", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items())]
    return "\n".join(map(printable, lines)) + "\n"
