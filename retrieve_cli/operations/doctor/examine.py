"""Run the checks in order, the one of the configuration first; one that fails does not stop the others."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from retrieve_cli.config import loading
from retrieve_cli.config.index_settings import SERVERS
from retrieve_cli.config.settings import NOT_AGREED, Settings
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.operations.doctor import checks, remote_checks
from retrieve_cli.operations.doctor.subject import Check, Finding, Found, Subject

_CHECKS: Mapping[str, Callable[[Subject], Found]] = {
    "artifacts": checks.artifacts,
    "index": checks.index,
    "inbox": partial(checks.own, "inbox"),
    "keys": partial(checks.own, "keys"),
    "settings": checks.settings,
    "thresholds": checks.thresholds,
    "generations": checks.generations,
    "lock": checks.who_writes,
    "disk": checks.disk,
    "model": checks.model,
    "languages": checks.languages,
    "servers": checks.model_servers,
    **{name: partial(remote_checks.engine, name) for name in SERVERS},
    "gpu": checks.gpu,
    "packages": checks.packages,
    "sources": checks.sources,
    "documents": checks.documents,
    "sandbox": checks.sandbox,
    "cache": checks.cache,
    "web": remote_checks.web,
}
_IN_THE_FOLDER = {"index", "settings", "generations", "lock", "disk", "cache"}
"""Checks that are skipped if the artifacts path cannot be a folder."""


def examine(artifacts: Path, file: Path | None) -> list[Check]:
    """Return every finding. An invalid configuration is one of them; the other checks then use the defaults."""
    given: dict[str, str] = {}
    settings, first = _configuration(file, given)
    subject = Subject(artifacts, file, settings, given=None if first.status == "fail" else given)
    return [first, *_findings(subject, tuple(dict.fromkeys([*_CHECKS, *settings.engines.in_use])))]


def check(artifacts: Path, settings: Settings, names: Sequence[str]) -> list[Check]:
    """Return the findings of some checks under settings that were read already."""
    return _findings(Subject(artifacts, None, settings), names)


def _findings(subject: Subject, names: Sequence[str]) -> list[Check]:
    return [finding for name in names if (finding := _look(subject, name)) is not None]


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
    """Return the findings of one check as one, as bad as the worst; None if it does not apply."""
    try:
        if name in _IN_THE_FOLDER:
            try:
                _ = subject.store
            except UsageError as error:
                return Check(name, "warn", f"skipped: {error.message}", error.hint)
        found = (_CHECKS.get(name) or partial(remote_checks.engine, name))(subject)
    except RetrieveError as error:
        return Check(name, "fail", error.message, error.hint)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Check(name, "fail", message, "fix its permissions, or the disk")
    except Exception as error:  # noqa: BLE001  a check that breaks must not stop the others
        return _broken(name, error)
    if found is None:
        return None
    every = [found] if isinstance(found, Finding) else found
    shown = [finding for finding in every if finding.status != "ok"] or every
    worst = max((finding.status for finding in shown), key=("ok", "warn", "fail").index)
    fixes = dict.fromkeys(finding.fix for finding in shown if finding.fix)
    return Check(name, worst, "; ".join(finding.message for finding in shown), "; ".join(fixes))


def _broken(name: str, error: Exception) -> Check:
    message = f"this check failed: {type(error).__name__}: {error}"
    return Check(name, "fail", message, "report it: this is a bug in retrieve")
