"""Replay of a saved run: the same requests on the same generation under the same settings, compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from retrieve_cli.config.saved import restored
from retrieve_cli.config.settings import Settings
from retrieve_cli.config.values import unknown
from retrieve_cli.contracts import Json, Request
from retrieve_cli.errors import IndexMissing, Unavailable, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.output import run_account
from retrieve_cli.output.journal import calibration_digest
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store
from retrieve_cli.version import __version__

LEFT_OUT = ("timings_ms", "deadline", "freshness")
"""Keys of answers and results that depend on the clock, or on the present state of the sources."""
_SHOWN = 10
"""Differences that are printed."""
AGAIN = "save the run again: retrieve query TEXT --save-run"
"""Hint for a run that is damaged."""
_INPUTS = ("options", "requests")
_ABSENT = object()
"""Stands for a value that one side does not have."""


class SavedRun(Frozen):
    """A run that was read from a file; its values are not trusted."""

    name: str
    generation: str
    version: Json
    calibration: Json
    options: Mapping[str, Json]
    requests: Sequence[Json]
    configuration: Mapping[str, Json]
    answers: Sequence[Mapping[str, Json]]

    @classmethod
    def of(cls, run: Mapping[str, Json], name: str) -> SavedRun:
        """Check a run. Raises: UsageError: it cannot be replayed."""
        inputs = run.get("inputs")
        if not isinstance(inputs, dict):
            raise UsageError(f"{name} was saved by an earlier version, without its requests", hint=AGAIN)
        if strange := [key for key in inputs if key not in _INPUTS]:
            raise unknown(f"key {quoted(strange[0])} of `inputs` in {name}", strange[0], _INPUTS)
        kinds = {"options": dict, "requests": list, "generation": str, "configuration": dict, "answers": list}
        values = {key: typed(inputs if key in _INPUTS else run, key, kind, name) for key, kind in kinds.items()}
        answers = values["answers"]
        if not all(isinstance(each, dict) for each in answers) or len(answers) != len(values["requests"]):
            raise UsageError(f"{name} does not have an answer for each request", hint=AGAIN)
        return cls(name=name, version=run.get("version"), calibration=run.get("calibration"), **values)


def typed(run: Mapping[str, Json], key: str, kind: type, name: str, *, hint: str = AGAIN) -> Any:
    """Return a value of a saved run. Raises: UsageError: it is missing or not of this kind."""
    if not isinstance(value := run.get(key), kind):
        raise UsageError(f"`{key}` of {name} is missing or of the wrong type", hint=hint)
    return value


class ReplayDifference(NamedTuple):
    """A value that differs from the saved one."""

    query_id: str
    at: str
    was: str
    now: str


class Replay(Frozen):
    """Outcome of a replay."""

    run: str
    generation: str | None
    """None for a search of the web, which has none."""
    queries: int
    identical: bool
    differences: Sequence[ReplayDifference]
    notes: Sequence[str]
    not_compared: Sequence[str] = LEFT_OUT

    @classmethod
    def of(
        cls, run: str, pairs: Sequence[tuple[Json, Json]], notes: Iterable[str], *, generation: str | None = None
    ) -> Replay:
        """Return the outcome for the answers of a run, each paired with the answer of today. Without a generation,
        everything in them is compared."""
        ids = [str(number if generation is None else now.get("query_id")) for number, (_, now) in enumerate(pairs, 1)]
        return cls(
            run=run.removeprefix("run "),
            generation=generation,
            queries=len(pairs),
            identical=all(json.dumps(was) == json.dumps(now) for was, now in pairs),
            differences=[
                ReplayDifference(id_, *each)
                for id_, pair in zip(ids, pairs, strict=True)
                for each in differences(*pair)
            ],
            notes=list(notes),
            not_compared=() if generation is None else LEFT_OUT,
        )

    def as_json(self) -> dict[str, Json]:
        return {
            "run": self.run,
            "generation": self.generation,
            "queries": self.queries,
            "identical": self.identical,
            "differences": [each._asdict() for each in self.differences],
            "not_compared": list(self.not_compared),
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """Return the first differences, for people."""
        shown = [f"query {each.query_id}: {each.at}: {each.was} → {each.now}" for each in self.differences[:_SHOWN]]
        more = len(self.differences) - len(shown)
        return ["different", *shown, *([f"and {more} more"] if more else [])]


def replay(store: Store, settings: Settings, run: SavedRun, requests: Sequence[Request]) -> Replay:
    """Answer the requests of a run again and compare the answers, without `LEFT_OUT` and texts that were not saved.

    `settings` are the present ones: addresses and paths are taken from them, all that decides answers from the run.
    There is no deadline, because the stages that fit into it depend on the machine.

    Raises:
        IndexMissing: the generation no longer exists.
        Unavailable: a model of the run is not on this machine.
        UsageError: a setting or an option of the run is unknown.
    """
    if not store.has(run.generation):
        hint = "raise store.keep to keep more generations; list those on disk: retrieve inspect history"
        raise IndexMissing(f"generation {quoted(run.generation)} of {run.name} no longer exists", hint=hint)
    under = restored(run.configuration, settings, where=run.name)
    given = values_of(SearchOptions, run.options, run.name)
    if "k" not in given:
        raise UsageError(f"{run.name} does not name its number of results (k)", hint=AGAIN)
    options = replace(SearchOptions(**given), deadline_ms=None)
    answers = Searcher(Opened.of(store, under, run.generation), options).answer(requests)
    again = [json.loads(json.dumps(run_account.entry(answer))) for answer in answers]
    for was, answer in zip(run.answers, answers, strict=True):
        _check_models(was, answer)
    pairs = [(_compared(was), _compared(now)) for was, now in zip(run.answers, again, strict=True)]
    return Replay.of(run.name, pairs, _notes(store, under, run), generation=run.generation)


def _check_models(was: Mapping[str, Json], answer: Answer) -> None:
    """Check the stages. Raises: Unavailable: a stage of the run cannot run now."""
    used = was.get("strategies_used")
    steps = [name for name in used if isinstance(name, str)] if isinstance(used, list) else []
    info = was.get("pipeline_info")
    steps += [str(info.get("rerank_strategy"))] if isinstance(info, dict) else []
    for name in steps:
        if name in answer.strategies_skipped:
            raise cannot_run(name, answer.strategies_skipped[name])


def cannot_run(stage: str, why: str) -> Unavailable:
    """Return the failure of a replay in which a stage of the run is skipped."""
    message = f"{stage} was part of the run and cannot run now: {why}"
    return Unavailable(message, hint="check the models: retrieve models list")


def program_notes(
    version: Json, configuration: Mapping[str, Json], under: Settings, between: Iterable[str] = ()
) -> Iterator[str]:
    """Yield changes of the program and its plug-ins since a run; between the two, other notes."""
    if version != __version__:
        yield f"the run was saved by version {quoted(version)}; this is {__version__}"
    yield from between
    if (configuration.get("plugins") or {}) != run_account.configuration(under)["plugins"]:
        yield "the configuration of plug-ins has changed"


def _notes(store: Store, under: Settings, run: SavedRun) -> Iterator[str]:
    """Yield changes since the run that may explain differences."""
    between = []  # what makes scores or stages differ
    if run.calibration != calibration_digest(store):
        between.append("the calibration has changed: confidence and relevance may differ")
    if run.options.get("deadline_ms") is not None:
        between.append(
            "the run had a deadline, and a replay has none: stages that were skipped then are not skipped now"
        )
    yield from program_notes(run.version, run.configuration, under, between)
    kept = [each.get("files", []) for each in run.requests]
    for entry in (entry for entries in kept for entry in entries):
        now = run_account.digest(entry["path"]).get("sha1")
        if now != entry.get("sha1"):
            yield f"{entry['path']} is missing or has changed: its saved properties are used"


def _compared(entry: Mapping[str, Json]) -> dict[str, Json]:
    """Return an answer without the keys that are not compared."""
    kept = {key: value for key, value in entry.items() if key not in LEFT_OUT}
    for name in ("results", "related"):
        if isinstance(listed := kept.get(name), list):
            kept[name] = [
                {key: value for key, value in each.items() if key not in LEFT_OUT} if isinstance(each, dict) else each
                for each in listed
            ]
    if kept.get("related") == []:  # runs that were kept before there were any do not have the key
        del kept["related"]
    return kept


def differences(was: Json, now: Json, at: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the differences of two values: place, saved value, new value."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*was, *(key for key in now if key not in was)]:
            place = f"{at}.{key}" if at else str(key)
            yield from differences(was.get(key, _ABSENT), now.get(key, _ABSENT), place)
        if list(was) != list(now) and was.keys() == now.keys():
            yield f"{at or 'answer'}, order of keys", ", ".join(map(str, was)), ", ".join(map(str, now))
    elif isinstance(was, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip_longest(was, now, fillvalue=_ABSENT)):
            yield from differences(one, other, f"{at}[{number}]")
    elif was is _ABSENT or now is _ABSENT or json.dumps(was) != json.dumps(now):
        yield at, _brief(was), _brief(now)


def _brief(value: Json) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        return shortened(value["id"])
    return shortened(json.dumps(value, ensure_ascii=False))


# ------------------------------------------------------------------------------------------------- options


def values_of(kind: type, saved: Mapping[str, Json], name: str, *, hint: str = AGAIN) -> dict[str, Any]:
    """Return the values of a saved object as fields of a dataclass, each checked for its type.

    Raises:
        UsageError: one is unknown or of another type; names it and the run.
    """
    hints = get_type_hints(kind)
    given: dict[str, Any] = {}
    for key, value in saved.items():
        if key not in hints:
            raise unknown(f"option {quoted(key)} of {name}", key, hints)
        if not _is_of(hints[key], value):
            raise UsageError(f"the option {key} of {name} cannot be {quoted(value)}", hint=hint)
        given[key] = tuple(value) if isinstance(value, list) else value
    return given


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
