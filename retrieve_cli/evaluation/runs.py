"""Runs that are evaluated and compared: an index under some settings, another index, or TREC run files.

Ids of run files that were percent-encoded (`output/trec_runs.py`) are decoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.engines import places
from retrieve_cli.config.loading import load, override, read_yaml
from retrieve_cli.config.settings import Settings, section_names, sections
from retrieve_cli.contracts import Index, Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.evaluation.evaluate import Evaluation, evaluate, judge
from retrieve_cli.evaluation.judgments import Run, Topic, in_trec_order, read_run
from retrieve_cli.evaluation.measures import pieces
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.retrieval.stages.fusion import reciprocal_rank
from retrieve_cli.retrieval.stages.pipeline import Edit
from retrieve_cli.search.opened import Opened
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from ir_measures import Measure

_KEYS_OF_ANSWERS = frozenset({"dense.hnsw_ef_search", "encoder.device"})


class NamedRun(Protocol):
    """One of the runs that are compared."""

    @property
    def name(self) -> str: ...

    def evaluate(self, topics: Sequence[Topic], measures: Sequence[Measure]) -> Evaluation: ...


class Answers(Frozen):
    """Run of an index under its settings."""

    name: str
    opened: Opened
    edit: Edit | None = None
    """Change of the pipeline, if there is one."""

    @classmethod
    def of(cls, name: str, store: Store, settings: Settings) -> Answers:
        """Open the index. Raises: IndexMissing, IndexCorrupt."""
        # An evaluation has no deadline, even if single answers have one.
        return cls(name, Opened.of(store, override(settings, {"search": {"deadline_ms": None}}, where="eval")))

    @property
    def settings(self) -> Settings:
        return self.opened.settings

    def evaluate(self, topics: Sequence[Topic], measures: Sequence[Measure]) -> Evaluation:
        return evaluate(self.opened, topics, measures, edit=self.edit)

    def under(self, name: str, settings: Settings, indexes: Mapping[str, Index[Any]] | None = None) -> Answers:
        """Return the run under other settings, or with some of its indexes replaced."""
        return Answers(name, self.opened.under(settings, indexes))

    def edited(self, name: str, edit: Edit) -> Answers:
        """Return the run with a changed pipeline."""
        return Answers(name, self.opened, edit)

    def with_changes(self, name: str, changes: Mapping[str, Json], settings: Settings) -> Answers:
        """Return the run under `settings`; `changes` are the keys that differ, none of which may change the index.

        Raises:
            UsageError: one of them changes the index.
        """
        for key in changes:
            section = key.partition(".")[0]
            varies = section in self.opened.indexes and registry.retriever(section).varies(key.partition(".")[2])
            if varies and section in places(settings, [section]):
                hint = f"use the local index: engines.{registry.retriever(section).role}: local"
                raise UsageError(f"`{key}` of {name} does not change the scores of an engine", hint=hint)
            if section in sections("index") and key not in _KEYS_OF_ANSWERS and not varies:
                hint = f"build another index with it and compare that one: --with ARTIFACTS ({key} differs)"
                raise UsageError(f"`{key}` of {name} changes the index, and eval does not rebuild it", hint=hint)
        return self.under(name, settings)


class Runs(Frozen):
    """One TREC run, or several fused by reciprocal ranks."""

    name: str
    pipeline: str
    runs: Sequence[Run]
    rrf_k: float

    @classmethod
    def of(cls, name: str, paths: Sequence[Path], *, rrf_k: float) -> Runs:
        """Read the files.

        Raises:
            UsageError: one is not a run, or is named twice.
        """
        if len(set(paths)) < len(paths):
            raise UsageError("a run is named twice", hint="name each --run once")
        listed = ", ".join(map(str, paths))
        pipeline = listed if len(paths) == 1 else f"rrf(k={rrf_k:g}: {listed})"
        return cls(name, pipeline, [read_run(path) for path in paths], rrf_k)

    def evaluate(self, topics: Sequence[Topic], measures: Sequence[Measure]) -> Evaluation:
        found = [matched(run, topics) for run in self.runs]
        run = found[0].run if len(found) == 1 else fused([each.run for each in found], k=self.rrf_k)
        notes = dict.fromkeys(note for each in found for note in each.notes)
        return judge(run, topics, measures, pipeline=self.pipeline, notes=[*notes])


def fused(runs: Sequence[Run], *, k: float) -> dict[str, dict[str, float]]:
    """Return several runs as one, by reciprocal rank fusion, in trec_eval's order."""
    found: dict[str, dict[str, float]] = {}
    for run in runs:
        for query, scores in run.items():
            shares = reciprocal_rank(np.arange(1, len(scores) + 1), k=k)
            into = found.setdefault(query, {})
            for document, share in zip(scores, shares, strict=True):
                into[document] = into.get(document, 0.0) + float(share)
    return {query: in_trec_order(scores) for query, scores in found.items()}


def named_run(text: str, base: Answers | None, *, rrf_k: float) -> NamedRun:
    """Return the run of `--with TEXT`: an artifacts folder, a configuration file, a run file, or changed settings.

    Raises:
        UsageError: TEXT is something else, or needs an index while --run is given.
    """
    path = Path(text)
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        return Runs.of(text, [path], rrf_k=rrf_k)
    if base is None:
        raise UsageError(
            f"--with {text} needs an index, and --run is compared with run files only", hint="name a run file"
        )
    if path.is_dir():
        return Answers.of(text, Store(path), base.settings)
    if path.is_file():
        settings = load(path)
        return base.with_changes(text, differing(base.settings, settings), settings)
    if "=" not in text:
        hint = "name a setting (fusion.method=rrf), a config.yaml, a TREC run, or an artifacts folder"
        raise UsageError(f"--with {quoted(text)} is neither a file nor SECTION.KEY=VALUE", hint=hint)
    return with_settings(text, text, base)


def with_settings(name: str, text: str, base: Answers) -> Answers:
    """Return the run with `section.key=value,…` changed.

    Raises:
        UsageError: it has another form, or a key changes the index.
    """
    changes: dict[str, Json] = {}
    settings = base.settings
    for part in pieces(text, ","):
        key, equals, value = part.partition("=")
        section, dot, inner = (piece.strip() for piece in key.partition("."))
        if not (equals and dot):
            raise UsageError(
                f"--with {quoted(text)} is not SECTION.KEY=VALUE", hint="for example: --with fusion.method=rrf"
            )
        changes[f"{section}.{inner}"] = read_yaml(value, f"--with {text}")
        settings = override(settings, {section: {inner: changes[f"{section}.{inner}"]}}, where=f"--with {text}")
    return base.with_changes(name, changes, settings)


def differing(before: Settings, after: Settings) -> dict[str, Json]:
    """Return the values of `after` that differ from `before`, by `section.key`."""
    old, new = asdict(before), asdict(after)
    return {
        f"{section}.{key}": value
        for section in section_names()
        for key, value in new[section].items()
        if value != old[section][key]
    }


class Matched(NamedTuple):
    """A run under its decoded ids."""

    run: Run
    notes: list[str]


def matched(run: Run, topics: Iterable[Topic]) -> Matched:
    """Return a run under judged ids.

    Encoded ids become the judged ids that they decode to if that is unambiguous: the encoded form has no judgment, and
    no other id of the list decodes to the same.
    """
    topics = list(topics)
    used: set[str] = set()
    doubtful: set[str] = set()

    def renamed(values: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
        meant = {word: _decoded(word, known) for word in values}
        claims = Counter(meant.values())
        names = {word: name if claims[name] == 1 else word for word, name in meant.items()}
        used.update(word for word in values if names[word] != word)
        doubtful.update(word for word in values if names[word] != meant[word])
        return {names[word]: value for word, value in values.items()}

    documents = {name for topic in topics for name in topic.grades}
    queries = renamed(run, {topic.id for topic in topics})
    found = {name: renamed(scores, documents) for name, scores in queries.items()}
    notes = []
    if used:
        notes.append(f"{_of_run(len(used), 'is', 'are')} percent-encoded: decoded to judged ids")
    if doubtful:
        ids_of_run = _of_run(len(doubtful), "decodes", "decode")
        notes.append(f"{ids_of_run} to an id that its list has ({quoted(min(doubtful))}): not decoded")
    return Matched(found, notes)


def _of_run(count: int, one: str, several: str) -> str:
    return f"1 id of the run {one}" if count == 1 else f"{count:,} ids of the run {several}"


def _decoded(word: str, known: set[str]) -> str:
    """Return the known id that a word of a run file decodes to, else the word."""
    if "%" not in word or word in known:
        return word
    from urllib.parse import unquote

    try:
        name = unquote(word, errors="strict")
    except UnicodeDecodeError:
        return word
    return name if name in known else word
