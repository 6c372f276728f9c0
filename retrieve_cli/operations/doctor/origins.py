"""Check of the sources: that they can be read, and have not changed since the build."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.contracts import Source
from retrieve_cli.errors import UsageError
from retrieve_cli.operations.doctor.subject import Check, Status, Subject, some
from retrieve_cli.storage.manifest import Manifest, trace

_NAME = "sources"
_WORST: tuple[Status, ...] = ("fail", "warn", "ok")


def sources(subject: Subject) -> Check:
    """Check that each source can be read and has not changed since the build; nothing is downloaded."""
    strange = strange_sources(subject.artifacts, subject.manifest) if subject.manifest else []
    if strange and not subject.settings.sources.list:
        message = f"you did not agree to read {', '.join(strange)}"
        return Check(_NAME, "warn", message, subject.command("trust"))
    if not subject.entries:
        message = "neither the configuration nor the index names a source: sync has nothing to read"
        return Check(_NAME, "warn", message, subject.build_from())
    checks = [_look(subject, entry) for entry in subject.entries]
    checks += _no_longer(subject)
    status = next(status for status in _WORST if any(check.status == status for check in checks))
    shown = [check for check in checks if check.status != "ok"] or checks
    fix = next(check.fix for check in shown if check.status == status)
    return Check(_NAME, status, "; ".join(check.message for check in shown), fix)


def _look(subject: Subject, entry: SourceSetting) -> Check:
    copy = subject.artifacts / "sources" / f"{entry.name}.jsonl"
    remote = entry.path is None
    try:
        source = subject.source(entry)
        if remote and not copy.is_file():
            return Check(
                _NAME, "warn", f"{entry.name} was never downloaded: there is no {copy}", subject.command("sync")
            )
        state = _state(subject.manifest, entry, source)
    except UsageError as error:
        hint = f"correct `sources:` in the configuration ({error.hint})"
        listed = bool(subject.settings.sources.list)
        return Check(_NAME, "fail", f"{entry.name}: {error.message}", hint if listed else _put_back(subject, entry))
    age = f" ({copy}, {_age(copy)})" if remote else ""
    if state in ("as built", "not built yet"):
        return Check(_NAME, "ok", f"{entry.name} is {state}{age}")
    return Check(_NAME, "warn", f"{entry.name} {state}{age}", subject.command("sync"))


def _put_back(subject: Subject, entry: SourceSetting) -> str:
    """Return the fix for a source that only the index names."""
    flag, place = ("--docs-dir", "DIR") if entry.kind == "docs" else ("--catalog", "FILE")
    return f"restore it, or build from its new place: {subject.command('build', flag, place)}"


def _state(manifest: Manifest | None, entry: SourceSetting, source: Source) -> str:
    """Compare a source with the current index. Raises: UsageError if it cannot be read."""
    if manifest is None:
        return "not built yet"
    before = _digests(manifest)
    if entry.name not in before:
        return "is not in the index yet"
    read = hashlib.sha1(usedforsecurity=False)
    for item in source.scan():
        read.update(trace(item))
    return "as built" if read.hexdigest() == before[entry.name] else "has changed since the build"


def _no_longer(subject: Subject) -> Iterator[Check]:
    """Yield a finding for each source that is in the index and no longer in the configuration."""
    before = _digests(subject.manifest) if subject.manifest else {}
    for name in before.keys() - {entry.name for entry in subject.entries}:
        message = f"{name} is in the index, and the configuration no longer lists it"
        yield Check(_NAME, "warn", message, subject.command("sync"))


def _digests(manifest: Manifest) -> Mapping[str, str]:
    """Return the SHA-1 of each source at the build, by name; empty if the manifest does not have them."""
    try:
        return {str(source["origin"]["name"]): str(source["digest"]) for source in manifest.built["sources"]}
    except (KeyError, TypeError):
        return {}


def _age(path: Path) -> str:
    hours = int(max(0.0, time.time() - path.stat().st_mtime) // 3600)
    if hours < 1:
        return "less than an hour old"
    return f"{some(hours, 'hour')} old" if hours < 48 else f"{hours // 24} days old"
