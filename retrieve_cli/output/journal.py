"""What is kept of answers: a run with all that made it, in a folder of its own; and a log of queries to learn from.

    runs/<run_id>/retrieval.json    by query: what was asked, read, chosen, found, cut, and how long it took
    runs/<run_id>/run.json          when, by which version, over which generation, under which configuration
    runs/<run_id>/run_summary.txt   the same for people
    runs/queries.jsonl              a line a query, where log.queries says so

Addresses are written without what may be a secret in them; keys are in the environment only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from retrieve_cli import __version__
from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, quoted, unwritable
from retrieve_cli.output import formats
from retrieve_cli.output.numbers import numbers
from retrieve_cli.search.answer import Answer
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted.files import JUDGMENTS, MANIFEST, read_text, regular_descriptor
from retrieve_cli.web.addresses import shown

RETRIEVAL, RUN, SUMMARY, QUERIES = "retrieval.json", "run.json", "run_summary.txt", "queries.jsonl"
_SHOWN = 5
"""Results of each query that the summary names."""


def save(runs: Path, answers: Sequence[Answer], settings: Settings) -> str:
    """Writes a run of these answers and returns its id.

    Raises:
        RetrieveError: the folder cannot be written to.
    """
    at = datetime.now(UTC)
    retrieval = {"schema_version": formats.SCHEMA_VERSION, "answers": [_entry(answer) for answer in answers]}
    run_id = f"{at:%Y%m%d-%H%M%S}-{sha1([at.isoformat(), os.getpid(), retrieval])[:6]}"
    run = {
        "schema_version": formats.SCHEMA_VERSION,
        "run_id": run_id,
        "at": at.isoformat(timespec="seconds"),
        "version": __version__,
        "generation": answers[0].generation if answers else None,
        "queries": len(answers),
        "configuration": configuration(settings),
    }
    folder = runs / run_id
    try:
        folder.mkdir(parents=True)
        durable.replace(folder / RETRIEVAL, json.dumps({"run_id": run_id, **retrieval}, ensure_ascii=False, indent=1))
        durable.replace(folder / RUN, json.dumps(run, ensure_ascii=False, indent=1))
        durable.replace(folder / SUMMARY, _summary(run, answers))
    except OSError as error:
        raise unwritable(folder, error) from error
    return run_id


def read(runs: Path, run_id: str) -> dict[str, Json]:
    """A run that was saved: its `run` and its `answers`.

    Raises:
        UsageError: there is no such run, or it is damaged.
    """
    known = sorted(path.parent.name for path in runs.glob(f"*/{RUN}"))
    if run_id not in known:
        listed = ", ".join(known[-_SHOWN:][::-1]) or "none; retrieve query TEXT --save-run keeps one"
        raise UsageError(f"there is no run {quoted(run_id)}", hint=f"the latest: {listed}")
    try:
        run = json.loads(read_text(runs / run_id / RUN, limit=MANIFEST))
        return {**run, "answers": json.loads(read_text(runs / run_id / RETRIEVAL, limit=JUDGMENTS))["answers"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"the run {quoted(run_id)} cannot be read: {error}", hint=f"see {runs / run_id}") from error


def log(runs: Path, answers: Sequence[Answer], *, min_candidates: int) -> None:
    """Adds a line for each query to the log, in one piece each, whoever else writes to it.

    Raises:
        RetrieveError: it cannot be written to.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        runs.mkdir(parents=True, exist_ok=True)
        descriptor = regular_descriptor(runs / QUERIES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode=0o600)
        try:
            for answer in answers:
                line = {"at": at, **_logged(answer, min_candidates)}
                os.write(descriptor, formats.dump(line).encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unwritable(runs / QUERIES, error) from error


def configuration(settings: Settings) -> dict[str, Json]:
    """What of the configuration decides answers."""
    decisive = [*sorted(sections("answers") - {"models", "log"}), *retriever_names()]
    chosen = {name: asdict(getattr(settings, name)) for name in decisive}
    if chosen["rerank"]["base_url"] is not None:
        chosen["rerank"]["base_url"] = shown(chosen["rerank"]["base_url"])
    value: dict[str, Json] = json.loads(json.dumps(chosen, default=str))
    return value


def _entry(answer: Answer) -> dict[str, Json]:
    """One answer as a run keeps it: what `--json` prints, without the texts of the hits but with their places."""
    told = formats.answer_json(answer)
    keys = (
        "rank",
        "id",
        "doc_id",
        "name",
        "score",
        "retrieval_score",
        "confidence",
        "rerank",
        "source_scores",
        "context",
    )
    told["results"] = [{key: result[key] for key in keys if key in result} for result in told["results"]]
    moved = sum("rerank" in each and each["rerank"]["rank_before"] != each["rank"] for each in told["results"])
    applied = {"results": len(answer.results), "moved_by_reranker": moved}
    return {**told, "unit": answer.unit, "applied": applied}


def _logged(answer: Answer, min_candidates: int) -> dict[str, Json]:
    """One answer as the log keeps it."""
    return {
        "query": answer.query.text,
        "clean_query": answer.question.clean,
        "generation": answer.generation,
        "pipeline": answer.pipeline,
        **numbers(answer, min_candidates=min_candidates),
        "results": [{"id": result.record["id"], "score": result.hit.score} for result in answer.results],
        "total_ms": answer.timings_ms["total"],
    }


def _summary(run: Mapping[str, Json], answers: Sequence[Answer]) -> str:
    """A few lines for people."""
    lines = [f"run {run['run_id']}, {run['at']}, generation {run['generation']}, {len(answers)} queries"]
    for answer in answers:
        lines += ["", f"{answer.query.id}: {answer.query.text}", f"   {answer.pipeline}"]
        lines += [f"   {leg} skipped: {why}" for leg, why in answer.strategies_skipped.items()]
        lines += [
            f"   {rank}. {result.hit.id} {result.hit.score:.4f} {formats.why(result).replace(chr(10), ', ')}"
            for rank, result in enumerate(answer.results[:_SHOWN], 1)
        ]
        more = len(answer.results) - _SHOWN
        lines += [f"   and {more} more"] if more > 0 else []
        lines += ["   " + ", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items())]
    return "\n".join(map(printable, lines)) + "\n"
