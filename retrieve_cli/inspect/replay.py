"""A run that was kept, answered again: from the same generation, with the same requests, under the same settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from retrieve_cli import __version__
from retrieve_cli.config.saved import restored
from retrieve_cli.config.settings import Settings
from retrieve_cli.config.values import unknown
from retrieve_cli.contracts import Json, Request
from retrieve_cli.errors import IndexMissing, Unavailable, UsageError, quoted, shortened
from retrieve_cli.frozen import dataclass
from retrieve_cli.output import run_account
from retrieve_cli.output.journal import calibration_digest
from retrieve_cli.output.run_account import Texts
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

LEFT_OUT = ("timings_ms", "deadline", "freshness")
"""Keys of answers and results that depend on the clock, or on what sources are today."""
_SHOWN = 10
"""Differences that are printed."""
_AGAIN = "keep it again: retrieve query TEXT --save-run"
_ABSENT = object()
"""In the place of a value that one side does not have."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it was read; its inner values come from a file that anybody may have written."""

    name: str
    generation: str
    texts: Texts
    version: Json
    calibration: Json
    options: Mapping[str, Json]
    requests: Sequence[Json]
    configuration: Mapping[str, Json]
    answers: Sequence[Mapping[str, Json]]

    @classmethod
    def of(cls, run: Mapping[str, Json], name: str) -> SavedRun:
        """Raises: UsageError if the run does not have what it takes to ask again."""
        inputs = run.get("inputs")
        if not isinstance(inputs, dict):
            raise UsageError(f"{name} was kept by an earlier version, without its requests", hint=_AGAIN)
        if strange := [key for key in inputs if key not in ("options", "requests")]:
            raise unknown(f"key {quoted(strange[0])} of `inputs` in {name}", strange[0], ("options", "requests"))
        values = {**inputs, **{key: run.get(key) for key in ("generation", "texts", "configuration", "answers")}}
        kinds = {"options": dict, "requests": list, "generation": str, "configuration": dict, "answers": list}
        for key, kind in kinds.items():
            if not isinstance(values.get(key), kind):
                raise UsageError(f"`{key}` of {name} is missing, or is not what it has to be", hint=_AGAIN)
        answers = values["answers"]
        if not all(isinstance(each, dict) for each in answers) or len(answers) != len(values["requests"]):
            raise UsageError(f"{name} does not have an answer for each request", hint=_AGAIN)
        if values["texts"] not in get_args(Texts):
            raise unknown(f"value {quoted(values['texts'])} of `texts` in {name}", "", get_args(Texts))
        given = {key: values[key] for key in (*kinds, "texts")}
        return cls(name=name, version=run.get("version"), calibration=run.get("calibration"), **given)


class Difference(NamedTuple):
    """A value that is not what it was."""

    query_id: str
    at: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Replay:
    """Outcome of answering again."""

    run: str
    generation: str
    queries: int
    identical: bool
    differences: Sequence[Difference]
    notes: Sequence[str]

    def as_json(self) -> dict[str, Json]:
        return {
            "run": self.run,
            "generation": self.generation,
            "queries": self.queries,
            "identical": self.identical,
            "differences": [each._asdict() for each in self.differences],
            "not_compared": list(LEFT_OUT),
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """The first differences, for people."""
        shown = [f"query {each.query_id}: {each.at}: {each.was} → {each.now}" for each in self.differences[:_SHOWN]]
        more = len(self.differences) - len(shown)
        return ["different", *shown, *([f"and {more} more"] if more else [])]


def replay(store: Store, settings: Settings, run: SavedRun, requests: Sequence[Request]) -> Replay:
    """Answer the requests of a run again and compare, but for `LEFT_OUT`. A run without texts is compared without them.

    `settings` are today's: what decides answers is taken from the run, where things are from these. A deadline does not
    hold: what fits into it depends on the machine.

    Raises:
        IndexMissing: the generation is gone.
        Unavailable: a model is not on this machine that was there when the run was kept.
        UsageError: a setting or an option of the run is unknown; names it.
    """
    if not store.has(run.generation):
        hint = "raise store.keep, so that sync keeps more generations; those on the disk: retrieve inspect history"
        raise IndexMissing(f"the generation {quoted(run.generation)} of {run.name} is gone", hint=hint)
    under = restored(run.configuration, settings, where=run.name)
    options = replace(_options(run.options, run.name), deadline_ms=None)
    answers = Searcher(store, under, run.generation).answer(requests, options)
    again = [json.loads(json.dumps(run_account.entry(answer, run.texts))) for answer in answers]
    for was, answer in zip(run.answers, answers, strict=True):
        _check_models(was, answer)
    pairs = [(_compared(was), _compared(now)) for was, now in zip(run.answers, again, strict=True)]
    found = [Difference(str(now.get("query_id")), *each) for was, now in pairs for each in _differences(was, now)]
    return Replay(
        run=run.name.removeprefix("run "),
        generation=run.generation,
        queries=len(requests),
        identical=all(json.dumps(was) == json.dumps(now) for was, now in pairs),
        differences=found,
        notes=list(_notes(store, under, run)),
    )


def _check_models(was: Mapping[str, Json], answer: Answer) -> None:
    """Raises: Unavailable if a step that ran then cannot run now."""
    used = was.get("strategies_used")
    steps = [name for name in used if isinstance(name, str)] if isinstance(used, list) else []
    info = was.get("pipeline_info")
    steps += [str(info.get("rerank_strategy"))] if isinstance(info, dict) else []
    for name in steps:
        if name in answer.strategies_skipped:
            why = answer.strategies_skipped[name]
            raise Unavailable(
                f"{name} ran then and cannot run now: {why}", hint="check the models: retrieve models list"
            )


def _notes(store: Store, under: Settings, run: SavedRun) -> Iterator[str]:
    """Changes since the run that may be why answers differ."""
    if run.version != __version__:
        yield f"the run was kept by version {quoted(run.version)}; this is {__version__}"
    if run.calibration != calibration_digest(store):
        yield "the calibration is another one now: confidence and relevance may differ"
    if run.options.get("deadline_ms") is not None:
        yield "the run had a deadline, which does not hold now: steps that it left out are not left out"
    saved, today = run.configuration.get("plugins"), run_account.configuration(under)["plugins"]
    if (saved or {}) != today:
        yield "plug-ins are configured differently now"
    kept = [each.get("files", []) for each in run.requests]
    for entry in (entry for entries in kept for entry in entries):
        now = run_account.digest(entry["path"]).get("sha1")
        if now != entry.get("sha1"):
            yield f"{entry['path']} is gone or has changed: what it said then counts"


def _compared(entry: Mapping[str, Json]) -> dict[str, Json]:
    """An answer without what is not compared."""
    kept = {key: value for key, value in entry.items() if key not in LEFT_OUT}
    if isinstance(results := kept.get("results"), list):
        kept["results"] = [
            {key: value for key, value in each.items() if key not in LEFT_OUT} if isinstance(each, dict) else each
            for each in results
        ]
    return kept


def _differences(was: Json, now: Json, at: str = "") -> Iterator[tuple[str, str, str]]:
    """Differences of two values: the place, what was there and what is."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*was, *(key for key in now if key not in was)]:
            place = f"{at}.{key}" if at else str(key)
            yield from _differences(was.get(key, _ABSENT), now.get(key, _ABSENT), place)
        if list(was) != list(now) and was.keys() == now.keys():
            yield f"{at or 'answer'}, order of keys", ", ".join(map(str, was)), ", ".join(map(str, now))
    elif isinstance(was, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip_longest(was, now, fillvalue=_ABSENT)):
            yield from _differences(one, other, f"{at}[{number}]")
    elif was is _ABSENT or now is _ABSENT or json.dumps(was) != json.dumps(now):
        yield at, _brief(was), _brief(now)


def _brief(value: Json) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        return shortened(value["id"])
    return shortened(json.dumps(value, ensure_ascii=False))


# ------------------------------------------------------------------------------------------------- options


def _options(saved: Mapping[str, Json], name: str) -> SearchOptions:
    """The options of a run, each held to its type.

    Raises:
        UsageError: one is unknown, or has a value that it cannot have.
    """
    hints = get_type_hints(SearchOptions)
    given: dict[str, Any] = {}
    for key, value in saved.items():
        if key not in hints:
            raise unknown(f"option {quoted(key)} of {name}", key, hints)
        if not _is_of(hints[key], value):
            raise UsageError(f"the option {key} of {name} cannot be {quoted(value)}", hint=_AGAIN)
        given[key] = tuple(value) if isinstance(value, list) else value
    if "k" not in given:
        raise UsageError(f"{name} does not say how many results it has (k)", hint=_AGAIN)
    return SearchOptions(**given)


def _is_of(kind: Any, value: Json) -> bool:
    """Return True if a value read from JSON is of a type: `int | None`, `tuple[str, ...]`, a literal."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if parts := get_args(kind):
        return any(_is_of(part, value) for part in parts)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, kind)
