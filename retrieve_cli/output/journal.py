"""Runs and the log of queries: answers kept in a folder with all that decided them, and a line for each query.

    runs/<run_id>/retrieval.json    by query: the request, the query as understood, results, cuts, and times; of a web
                                    search, the answer as `retrieve web --json` prints it, in the list `answers`
    runs/<run_id>/run.json          time, version, generation, configuration; and the requests or options, so that they
                                    can be answered again (`retrieve replay`)
    runs/<run_id>/run_summary.txt   the same for people
    runs/<run_id>/tape.json         of a web search: requests, and the response or failure of each, without credentials
    runs/<run_id>/bodies/<sha256>   of a web search: bodies of the responses
    runs/queries.jsonl              a line a query, if log.queries is true

Addresses are written without secrets; keys are in the environment only. A web search is replayed without a network,
after stored answers were deleted. `run.json` is written last, so a run that is listed is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, quoted, unwritable
from retrieve_cli.frozen import asdict
from retrieve_cli.output import formats, run_account
from retrieve_cli.output.reasons import why
from retrieve_cli.output.run_account import INDEXED
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1, sha1_file
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted.files import JUDGMENTS, MANIFEST, MB, read_bytes, read_text, regular_descriptor
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.search.web_answer import WebAnswer
    from retrieve_cli.websearch.stored import Tape

RETRIEVAL, RUN, SUMMARY, QUERIES = "retrieval.json", "run.json", "run_summary.txt", "queries.jsonl"
WEB = "web"
"""`kind` of web searches in run.json; other runs have no `kind`."""
TAPE, _BODIES = "tape.json", "bodies"
_LARGEST_BODY = 16 * MB
"""Above the bound of responses, which is on their decoded bytes."""
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
        "calibration": calibration_digest(store),
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


def save_web(runs: Path, answer: WebAnswer, tape: Tape, settings: Settings, now: datetime | None = None) -> str:
    """Write a run of a web search and return its id. `tape` holds its exchanges; `now` is its time, by default the
    present.

    Raises:
        RetrieveError: the folder cannot be written to.
    """
    from retrieve_cli.output.web_works import status_text, web_json

    at = datetime.now(UTC) if now is None else now.astimezone(UTC)
    answered = json.loads(formats.dump(web_json(answer)))
    run = {
        **_begun(at, answered, kind=WEB),
        "inputs": {"options": json.loads(json.dumps(asdict(answer.options)))},
        "configuration": run_account.configuration(settings),
        "web": run_account.web_section(settings),
        "encoder": run_account.encoder_card(settings) if answer.reranked else None,
    }
    lines = [f"run {run['run_id']}, {run['at']}, web search", "", answer.options.text]
    lines += [f"   {answer.kind}: {answer.kind_reason}", f"   {answer.pipeline}"]
    lines += _skipped(answer.strategies_skipped)
    lines += [f"   {status.provider}: {status_text(status)}" for status in answer.statuses]
    works = (f"{hit.work.id} {hit.hit.score:.4f} {hit.work.title}" for hit in answer.hits)
    lines += _best(enumerate(works, 1), len(answer.hits))
    return _write(runs, run, {"answers": [answered]}, lines, tape)


def _begun(at: datetime, answered: Json, **kind: str) -> dict[str, Json]:
    """The first keys of a run, its id among them."""
    return {
        "schema_version": formats.SCHEMA_VERSION,
        "run_id": f"{at:%Y%m%d-%H%M%S}-{sha1([at.isoformat(), os.getpid(), answered])[:6]}",
        **kind,
        "at": at.isoformat(timespec="seconds"),
        "version": __version__,
    }


def _write(
    runs: Path, run: Mapping[str, Json], retrieval: Mapping[str, Json], summary: Iterable[str], tape: Tape | None = None
) -> str:
    """Write the files of a run and return its id; of one that cannot be written, nothing stays."""
    folder = runs / run["run_id"]
    try:
        folder.mkdir(parents=True)
        if tape is not None:
            (folder / _BODIES).mkdir()
            for digest, body in tape.bodies().items():
                with (folder / _BODIES / digest).open("xb") as file:
                    durable.write(file, memoryview(body))
                    file.flush()
                    os.fsync(file.fileno())
            durable.sync(folder / _BODIES)
            durable.replace(folder / TAPE, _dump(tape.to_json()))
        durable.replace(folder / RETRIEVAL, _dump({"run_id": run["run_id"], **retrieval}))
        durable.replace(folder / SUMMARY, "\n".join(map(printable, summary)) + "\n")
        durable.replace(folder / RUN, _dump(run))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise unwritable(folder, error) from error
    return str(run["run_id"])


def _dump(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def calibration_digest(store: Store) -> str | None:
    """Return the SHA-1 of the calibration of scores; None if scores are not calibrated."""
    try:
        return sha1_file(store.calibration)
    except OSError:
        return None


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


def read_tape(folder: Path) -> Tape:
    """Return the exchanges of a saved web search, each body held to its SHA-256.

    Raises:
        UsageError: they are damaged or missing; names the file.
    """
    from retrieve_cli.websearch.stored import Tape

    def body(digest: str) -> bytes:
        try:
            return read_bytes(folder / _BODIES / digest, limit=_LARGEST_BODY)
        except (OSError, ValueError) as error:
            raise _damaged(folder, f"{_BODIES}/{digest}", error) from error

    try:
        value = json.loads(read_text(folder / TAPE, limit=MANIFEST))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, TAPE, error) from error
    return Tape.of(value, body)


def _damaged(folder: Path, name: str, error: Exception) -> UsageError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(f"{name} of the run {quoted(folder.name)} cannot be read: {why}", hint=f"see {folder}")


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
