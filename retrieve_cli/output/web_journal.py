"""Saved runs of web and literature searches: the answer, all that decided it, and every exchange with providers.

    runs/<run_id>/retrieval.json      the answer, as `retrieve web --json` prints it, in the list `answers`
    runs/<run_id>/tape.json           requests, and the response or failure of each, without credentials
    runs/<run_id>/bodies/<sha256>     bodies of the responses
    runs/<run_id>/run_summary.txt     the same for people
    runs/<run_id>/run.json            time, version, options, configuration, encoder of the reranker

A run holds all that `retrieve replay` needs: it is answered again without a network, after stored answers were deleted.
`run.json` is written last, so a run that is listed is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli import __version__
from retrieve_cli.assemble import text_rerankers
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, quoted, unwritable
from retrieve_cli.output import formats, run_account
from retrieve_cli.output.journal import RETRIEVAL, RUN, SUMMARY
from retrieve_cli.output.web_answer import status_text, web_json
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted.files import MANIFEST, MB, read_bytes, read_text
from retrieve_cli.web.addresses import shown

if TYPE_CHECKING:
    from retrieve_cli.search.web_answer import WebAnswer
    from retrieve_cli.websearch.tape import Tape

KIND = "web"
"""`kind` of these runs in run.json; that of other runs is not written."""
TAPE, BODIES = "tape.json", "bodies"
_LARGEST_BODY = 16 * MB
"""Above the bound of responses, which is on their decoded bytes."""
_SHOWN = 5
"""Results that the summary names."""


def save(runs: Path, answer: WebAnswer, tape: Tape, settings: Settings, now: datetime | None = None) -> str:
    """Write a run of a search and return its id. `tape` holds its exchanges; `now` is its time, by default the present.

    Raises:
        RetrieveError: the folder cannot be written to.
    """
    at = datetime.now(UTC) if now is None else now.astimezone(UTC)
    answered = json.loads(formats.dump(web_json(answer)))
    run_id = f"{at:%Y%m%d-%H%M%S}-{sha1([at.isoformat(), os.getpid(), answered])[:6]}"
    run = {
        "schema_version": formats.SCHEMA_VERSION,
        "run_id": run_id,
        "kind": KIND,
        "at": at.isoformat(timespec="seconds"),
        "version": __version__,
        "inputs": {"options": json.loads(json.dumps(asdict(answer.options)))},
        "configuration": run_account.configuration(settings),
        "web": _section(settings),
        "encoder": encoder_card(settings) if answer.reranked else None,
    }
    texts = {
        TAPE: _dump(tape.to_json()),
        RETRIEVAL: _dump({"run_id": run_id, "answers": [answered]}),
        SUMMARY: _summary(run, answer),
        RUN: _dump(run),
    }
    _write(runs / run_id, texts, tape.bodies())
    return run_id


def encoder_card(settings: Settings) -> Json:
    """Return everything about the encoder that decides the scores of the reranker; None if it does not use one."""
    if not text_rerankers.needs_encoder(settings):
        return None
    return json.loads(json.dumps(asdict(text_rerankers.query_encoder(settings).card)))


def _section(settings: Settings) -> dict[str, Json]:
    """Return the section `web` of the configuration, its addresses without possible secrets."""
    section = asdict(settings.web)
    section["endpoints"] = {shown(origin): shown(other) for origin, other in settings.web.endpoints.items()}
    value: dict[str, Json] = json.loads(json.dumps(section))
    return value


def _dump(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _write(folder: Path, texts: Mapping[str, str], bodies: Mapping[str, bytes]) -> None:
    """Write the files of a run, in the order given; of one that cannot be written, nothing stays."""
    try:
        (folder / BODIES).mkdir(parents=True)
        for digest, body in bodies.items():
            with (folder / BODIES / digest).open("xb") as file:
                durable.write(file, memoryview(body))
                file.flush()
                os.fsync(file.fileno())
        durable.sync(folder / BODIES)
        for name, text in texts.items():
            durable.replace(folder / name, text)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise unwritable(folder, error) from error


def _summary(run: Mapping[str, Json], answer: WebAnswer) -> str:
    """Return a few lines for people."""
    lines = [f"run {run['run_id']}, {run['at']}, web search", "", answer.options.text]
    lines += [f"   {answer.kind}: {answer.kind_reason}", f"   {answer.pipeline}"]
    lines += [f"   {name} skipped: {reason}" for name, reason in answer.strategies_skipped.items()]
    lines += [f"   {status.provider}: {status_text(status)}" for status in answer.statuses]
    lines += [
        f"   {rank}. {hit.work.id} {hit.hit.score:.4f} {hit.work.title}"
        for rank, hit in enumerate(islice(answer.hits, _SHOWN), 1)
    ]
    more = len(answer.hits) - _SHOWN
    lines += [f"   and {more} more"] if more > 0 else []
    return "\n".join(map(printable, lines)) + "\n"


# ------------------------------------------------------------------------------------------------- reading


def read_tape(folder: Path) -> Tape:
    """Return the exchanges of a saved run, each body held to its SHA-256.

    Raises:
        UsageError: they are damaged or missing; names the file.
    """
    from retrieve_cli.websearch.tape import Tape

    def body(digest: str) -> bytes:
        try:
            return read_bytes(folder / BODIES / digest, limit=_LARGEST_BODY)
        except (OSError, ValueError) as error:
            raise _damaged(folder, f"{BODIES}/{digest}", error) from error

    try:
        value = json.loads(read_text(folder / TAPE, limit=MANIFEST))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, TAPE, error) from error
    return Tape.of(value, body)


def _damaged(folder: Path, name: str, error: Exception) -> UsageError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(f"{name} of the run {quoted(folder.name)} cannot be read: {why}", hint=f"see {folder}")
