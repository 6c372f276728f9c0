"""Run the checks in order; one that fails does not stop the others."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from retrieve_cli.config import loading
from retrieve_cli.config.engine_settings import SERVERS
from retrieve_cli.config.settings import NOT_AGREED, Settings
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.operations.doctor import configuration, engines, index_folder, machine, origins
from retrieve_cli.operations.doctor.documents import documents, sandbox
from retrieve_cli.operations.doctor.subject import Check, Subject
from retrieve_cli.operations.doctor.web import web

_CHECKS: Mapping[str, Callable[[Subject], Check | None]] = {
    "artifacts": index_folder.artifacts,
    "index": index_folder.index,
    "inbox": partial(index_folder.own, "inbox"),
    "keys": partial(index_folder.own, "keys"),
    "settings": configuration.settings,
    "thresholds": configuration.thresholds,
    "generations": index_folder.generations,
    "lock": index_folder.who_writes,
    "disk": index_folder.disk,
    "model": machine.model,
    "servers": machine.model_servers,
    **{name: partial(engines.engine, name) for name in SERVERS},
    "gpu": machine.gpu,
    "packages": machine.packages,
    "sources": origins.sources,
    "documents": documents,
    "sandbox": sandbox,
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
