"""Replay of a saved web or literature search: answered again from its own exchanges alone, and compared.

Nothing is sent, and no clock decides: providers fail where they failed in the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from retrieve_cli.config.loading import override
from retrieve_cli.config.saved import is_path, restored
from retrieve_cli.config.settings import Settings, WebSettings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.operations.replay import Replay, cannot_run, program_notes, typed, values_of
from retrieve_cli.output import formats, journal, run_account
from retrieve_cli.output.web_works import web_json
from retrieve_cli.search.web import WebSearch
from retrieve_cli.search.web_answer import WebOptions
from retrieve_cli.search.web_choice import check

_AGAIN = "save the run again: retrieve web TEXT --save-run"
_NOT_OF_THE_RUN = frozenset({"enabled", "endpoints", "deadline_ms", "max_age", "keep", "keep_mb"})
"""Keys of the section `web` about sending and storing, which a replay does not do."""
_ENOUGH_MS = 600_000.0
"""Deadline of a replay: long enough that only the timeouts of the run are repeated."""


class SavedSearch(Frozen):
    """A run that was read from files; its values are not trusted."""

    name: str
    at: datetime
    version: Json
    options: WebOptions
    configuration: Mapping[str, Json]
    web: Mapping[str, Json]
    encoder: Json
    answer: Mapping[str, Json]

    @classmethod
    def of(cls, run: Mapping[str, Json], name: str) -> SavedSearch:
        """Check a run. Raises: UsageError: it cannot be replayed."""
        inputs, configuration, web = (
            typed(run, key, dict, name, hint=_AGAIN) for key in ("inputs", "configuration", "web")
        )
        answers, options = run.get("answers"), inputs.get("options")
        if not isinstance(answers, list) or len(answers) != 1 or not isinstance(answers[0], dict):
            raise UsageError(f"{name} does not have one answer", hint=_AGAIN)
        if not isinstance(options, dict) or not isinstance(options.get("text"), str):
            raise UsageError(f"{name} does not have its question", hint=_AGAIN)
        value: Json = run.get("at")
        try:
            at = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            at = None
        if at is None or at.tzinfo is None:
            raise UsageError(f"`at` of {name} is {quoted(value)}, not a time", hint=_AGAIN)
        return cls(
            name=name,
            at=at,
            version=run.get("version"),
            options=WebOptions(**values_of(WebOptions, options, name, hint=_AGAIN)),
            configuration=configuration,
            web=web,
            encoder=run.get("encoder"),
            answer=answers[0],
        )


def replay(folder: Path, settings: Settings) -> Replay:
    """Answer the search of a run again from its exchanges, and compare the answers byte by byte.

    `settings` are the present ones: places of models and addresses of servers are taken from them, all that decides
    the answer from the run.

    Raises:
        UsageError: the run, or a body in it, is damaged or missing; names it.
        Unavailable: the reranker of the run is not on this machine.
    """
    run = SavedSearch.of(journal.read(folder), f"run {folder.resolve().name}")
    tape = journal.read_tape(folder)
    under = _settings(run, settings)
    options = replace(run.options, deadline_ms=None)
    check(options, under)
    _check_encoder(run, under)
    answer = WebSearch(under, folder, tape=tape, now=lambda: run.at).search(options).answer
    now = json.loads(formats.dump(web_json(answer)))
    if run.answer.get("reranked") is True and answer.strategies_skipped:
        raise cannot_run("the reranker", "; ".join(answer.strategies_skipped.values()))
    return Replay.of(run.name, [(run.answer, now)], _notes(run, under, now))


def _settings(run: SavedSearch, settings: Settings) -> Settings:
    """Return the settings of a run as far as they decide its answer, and the current ones otherwise.

    Raises:
        UsageError: a section, key or value is unknown; names it.
        Unavailable: a model is a folder that the current settings do not name.
    """
    keys = {
        key: value
        for key, value in run.web.items()
        if key not in WebSettings.__struct_fields__ or key not in _NOT_OF_THE_RUN
    }
    sending = WebSettings(enabled=True, deadline_ms=_ENOUGH_MS)
    under = override(replace(restored(run.configuration, settings, where=run.name), web=sending), {"web": keys},
                     where=run.name)  # fmt: skip
    saved = run.configuration.get("encoder")
    model = saved.get("model") if isinstance(saved, dict) else None
    if isinstance(model, str) and not is_path(model):
        under = replace(under, encoder=replace(under.encoder, model=model))
    return under


def _check_encoder(run: SavedSearch, under: Settings) -> None:
    """Raises: Unavailable: the reranker of the run used another encoder than the one that is configured."""
    if run.encoder is None:
        return
    card = run_account.encoder_card(under)
    if card != run.encoder:
        was, now = (each.get("name") if isinstance(each, dict) else each for each in (run.encoder, card))
        parts = sorted(
            key
            for key in {*(run.encoder if isinstance(run.encoder, dict) else ()), *(card or ())}
            if not isinstance(run.encoder, dict) or not card or run.encoder.get(key) != card.get(key)
        )
        message = f"{run.name} was reranked with {quoted(was)}, and now it would be with {quoted(now)}"
        hint = (
            f"set encoder.model, or another key of encoder, to its value in the run; different keys: {', '.join(parts)}"
        )
        raise Unavailable(message, hint=hint)


def _notes(run: SavedSearch, under: Settings, now: Mapping[str, Json]) -> Iterator[str]:
    """Yield reasons that may explain differences."""
    yield from program_notes(run.version, run.configuration, under)
    before = {(name, role): status for name, role, status in _statuses(run.answer)}
    for name, role, status in _statuses(now):
        if status == "not_stored" and before.get((name, role)) != "not_stored":
            yield f"{journal.TAPE} of the run lacks an exchange with {name} ({role})"


def _statuses(answer: Mapping[str, Json]) -> Iterator[tuple[str, str, str]]:
    """Yield name, role and status of each provider and enricher of an answer."""
    listed = answer.get("providers")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict):
            yield str(entry.get("provider")), str(entry.get("role")), str(entry.get("status"))
