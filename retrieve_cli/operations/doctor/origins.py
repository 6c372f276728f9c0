"""Checks of the sources and their documents: that they can be read, by the parsers of the build, and are unchanged."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from retrieve_cli.assemble.documents import reader_of, sandbox_lacks
from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.contracts import DocumentReader, Json, Source
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
    before = _digests(subject.manifest) if subject.manifest else {}
    for name in before.keys() - {entry.name for entry in subject.entries}:
        message = f"{name} is in the index, and the configuration no longer lists it"
        checks.append(Check(_NAME, "warn", message, subject.command("sync")))
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
        if subject.settings.sources.list:
            fix = f"correct `sources:` in the configuration ({error.hint})"
        else:
            flag, place = ("--docs-dir", "DIR") if entry.kind == "docs" else ("--catalog", "FILE")
            fix = f"restore it, or build from its new place: {subject.command('build', flag, place)}"
        return Check(_NAME, "fail", f"{entry.name}: {error.message}", fix)
    age = f" ({copy}, {_age(copy)})" if remote else ""
    if state in ("as built", "not built yet"):
        return Check(_NAME, "ok", f"{entry.name} is {state}{age}")
    return Check(_NAME, "warn", f"{entry.name} {state}{age}", subject.command("sync"))


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


_INSTALL = "pip install 'retrieve-cli[documents]'"
_MOST = 100_000
"""Files of folders that are looked at by name."""


def documents(subject: Subject) -> Check | None:
    """Check that every format that is there can be read, by the parser that the index was built with."""
    reader = reader_of(subject.settings)
    if lacking := _lacking(subject, reader):
        counts = ", ".join(some(count, f"{kind} file") for kind, count in lacking.most_common())
        reasons = "; ".join(reader.lacks(kind).partition(":")[0] for kind, _ in lacking.most_common())
        return Check("documents", "warn", f"skipped: {counts}; {reasons}", _INSTALL)
    cards = (subject.manifest.recipe.documents or {}) if subject.manifest else {}
    changed = [kind for kind, card in cards.items() if not reader.lacks(kind) and reader.card(kind) != card]
    if changed:
        parts = "; ".join(_change(kind, cards[kind].get("parser"), reader.card(kind).get("parser")) for kind in changed)
        message = f"the index was built with other parsers ({parts}): sync reads the files of these formats again"
        return Check("documents", "warn", message, subject.command("sync"))
    if not cards:
        return None
    return Check("documents", "ok", ", ".join(f"{kind} by {card.get('parser')}" for kind, card in cards.items()))


def sandbox(_: Subject) -> Check:
    """Check that this kernel has all rules for the processes that parse documents."""
    if lacks := sandbox_lacks():
        fix = "parse documents of strangers on Linux 6.2 or later, x86_64 or aarch64, with Landlock and seccomp"
        return Check("sandbox", "warn", f"parsers of documents are less confined: {'; '.join(lacks)}", fix)
    return Check("sandbox", "ok", "parsers read no file of the user and reach no network and no other process")


def _change(kind: str, before: Json, now: Json) -> str:
    return f"{kind}: other rules or settings" if before == now else f"{kind} by {before}, now {now}"


def _lacking(subject: Subject, reader: DocumentReader) -> Counter[str]:
    """Return the number of files, by format, in configured folders that cannot be read for want of a package."""
    if not (kinds := {kind for kind in reader.formats if reader.lacks(kind)}):
        return Counter()
    folders = [entry.path for entry in subject.entries if entry.kind == "docs" and entry.path is not None]
    follow_links = subject.settings.docs.follow_links
    names = (name for folder in folders for name in _names(folder, follow_links=follow_links))
    counts = Counter(reader.format_of(name, b"") or "" for name in islice(names, _MOST))
    return Counter({kind: count for kind, count in counts.items() if kind in kinds})


def _names(folder: Path, *, follow_links: bool) -> Iterator[str]:
    """Yield the names of the files in a folder that are not hidden."""
    for _, folders, names in os.walk(folder, followlinks=follow_links):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (name for name in names if not name.startswith("."))
