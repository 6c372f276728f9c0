"""Run the checks in order, the checks of the configuration among them; one that fails does not stop the others."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.config import loading
from retrieve_cli.config.engine_settings import SERVERS
from retrieve_cli.config.loading import override
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import NOT_AGREED, Settings
from retrieve_cli.contracts import Request
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.operations.doctor import engines, index_folder, machine, origins
from retrieve_cli.operations.doctor.subject import Check, Subject
from retrieve_cli.operations.doctor.web import web
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.records.columns import Columns, columns_of

_THRESHOLDS = {"search": ("grade", "max_distance", "min_score"), "rerank": ("min_score",)}
_QUERIES = 8
"""Queries that are answered to find out if a threshold leaves anything."""
_NO_TAGS = str.maketrans("[]", "  ")
_LOCAL = (*TOKEN_BACKENDS, "cross_encoder")
"""Rerankers that are run for it: servers cost time and money."""


def _settings(subject: Subject) -> Check:
    """Check that a sync with these settings would not change how the index is built."""
    if subject.manifest is None:
        return Check("settings", "ok", "skipped: there is no index to compare with")

    @cache
    def columns() -> Columns:
        with open_generation(subject.store) as generation:
            return columns_of(generation)

    if subject.given is None:
        return Check("settings", "ok", "skipped: the configuration is invalid")
    differing = unapplied(subject.settings, subject.manifest.recipe, columns=columns)
    if not differing:
        return Check("settings", "ok", "the index is built as configured")
    message = f"{summary(differing, subject.given)}, until a sync"
    return Check("settings", "warn", message, subject.sync() or subject.build() or subject.build_from())


def _thresholds(subject: Subject) -> Check | None:
    """Check that the thresholds leave some results to queries that are names of records, which match well."""
    chosen = [
        f"{section}.{key}"
        for section, keys in _THRESHOLDS.items()
        for key in keys
        if getattr(getattr(subject.settings, section), key) is not None
    ]
    if subject.manifest is None or not chosen:
        return None
    free = {"search": {"require_tenant": False, "deadline_ms": None}, "gating": {"enabled": False}}
    opened = Opened.of(subject.store, override(subject.settings, free, where="doctor"))
    records = opened.generation.records
    rows = sorted({row * len(records) // _QUERIES for row in range(_QUERIES)}) if len(records) else []
    names = dict.fromkeys(str(records[row]["name"]).translate(_NO_TAGS).strip() for row in rows)
    rerank = None if subject.settings.rerank.backend in _LOCAL else False
    options = opened.options(rerank=rerank, expand=False, k=1)
    requests = [Request(name) for name in names if name]
    answers = Searcher(opened, options).answer(requests)
    counts = sum((Counter(answer.removed) for answer in answers), Counter[str]())
    removed = max(counts, key=counts.__getitem__, default=None)
    if removed is None or any(answer.results for answer in answers):
        return Check("thresholds", "ok", f"{' and '.join(chosen)} leave results to queries of the index's own names")
    reason = next((notice for answer in answers for notice in answer.notices if removed in notice), removed)
    message = f"none of {len(answers)} queries, each the name of a record, has a result: {reason}"
    return Check("thresholds", "warn", message, f"retrieve config set {removed.partition(' ')[0]} null")


_CHECKS: Mapping[str, Callable[[Subject], Check | None]] = {
    "artifacts": index_folder.artifacts,
    "index": index_folder.index,
    "inbox": partial(index_folder.own, "inbox"),
    "keys": partial(index_folder.own, "keys"),
    "settings": _settings,
    "thresholds": _thresholds,
    "generations": index_folder.generations,
    "lock": index_folder.who_writes,
    "disk": index_folder.disk,
    "model": machine.model,
    "languages": machine.languages,
    "servers": machine.model_servers,
    **{name: partial(engines.engine, name) for name in SERVERS},
    "gpu": machine.gpu,
    "packages": machine.packages,
    "sources": origins.sources,
    "documents": origins.documents,
    "sandbox": origins.sandbox,
    "cache": index_folder.cache,
    "web": web,
}
_IN_THE_FOLDER = {"index", "settings", "generations", "lock", "disk", "cache"}
"""Checks that are skipped if the artifacts path cannot be a folder."""


def examine(artifacts: Path, file: Path | None) -> list[Check]:
    """Return every finding. An invalid configuration is one of them; the other checks then use the defaults."""
    subject, first = configured(artifacts, file)
    added = (name for name in subject.settings.engines.in_use if name not in _CHECKS)
    checks = (_look(subject, name) for name in (*_CHECKS, *added))
    return [first, *(check for check in checks if check is not None)]


def check(artifacts: Path, settings: Settings, names: Sequence[str]) -> list[Check]:
    """Return the findings of some checks under settings that were read already."""
    subject = Subject(artifacts, None, settings)
    return [finding for name in names if (finding := _look(subject, name)) is not None]


def configured(artifacts: Path, file: Path | None) -> tuple[Subject, Check]:
    """Return the subject of the checks, and the finding about its configuration."""
    given: dict[str, str] = {}
    settings, first = _configuration(file, given)
    return Subject(artifacts, file, settings, given=None if first.status == "fail" else given), first


def _configuration(file: Path | None, given: dict[str, str]) -> tuple[Settings, Check]:
    shown = file or (loading.DEFAULT_FILE if os.path.lexists(loading.DEFAULT_FILE) else None)
    try:
        settings = loading.load(file, given=given)
    except UsageError as error:
        return Settings(), Check("config", "fail", f"{error.message}; the other checks use the defaults", error.hint)
    except Exception as error:  # noqa: BLE001  the other checks go on
        return Settings(), _broken("config", error)
    if settings.withheld:
        message = f"{shown} {NOT_AGREED.format(', '.join(settings.withheld))}"
        named = [] if file is None else ["--config", str(file)]
        return settings, Check("config", "warn", message, shlex.join(["retrieve", "trust", *named]))
    none = f"defaults: there is no {loading.DEFAULT_FILE} here"
    return settings, Check("config", "ok", f"{shown} is valid" if shown else none)


def _look(subject: Subject, name: str) -> Check | None:
    """Return the finding of one check; None if it does not apply."""
    try:
        if name in _IN_THE_FOLDER and (why := _no_folder(subject)):
            return Check(name, "warn", f"skipped: {why.message}", why.hint)
        return (_CHECKS.get(name) or partial(engines.engine, name))(subject)
    except RetrieveError as error:
        return Check(name, "fail", error.message, error.hint)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Check(name, "fail", message, "fix its permissions, or the disk")
    except Exception as error:  # noqa: BLE001  a check that breaks must not stop the others
        return _broken(name, error)


def _no_folder(subject: Subject) -> UsageError | None:
    try:
        _ = subject.store
    except UsageError as error:
        return error
    return None


def _broken(name: str, error: Exception) -> Check:
    message = f"this check failed: {type(error).__name__}: {error}"
    return Check(name, "fail", message, "report it: this is a bug in retrieve")
