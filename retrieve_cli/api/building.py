"""Builds and syncs as the command line and Python begin them: settings and sources to a published generation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.api.rows import rows_of
from retrieve_cli.contracts import Refused
from retrieve_cli.errors import SourceFailed, UsageError, printable, quoted
from retrieve_cli.ingest.report import LossLimits, Progress, Report
from retrieve_cli.storage.inbox import Change

if TYPE_CHECKING:
    from retrieve_cli.api.documents import Documents
    from retrieve_cli.config.settings import Settings, SourceSetting
    from retrieve_cli.ingest.sync import Sync
    from retrieve_cli.storage.store import Store

_LISTED = 5
"""Rejected records of which a message gives the reason."""
_RECORDS = "records"
"""Name of the place of records that a program gives."""


class Messages(NamedTuple):
    """Progress of which only the messages are wanted."""

    say: Callable[[str], Any]


def run_build(entries: Sequence[SourceSetting], settings: Settings, store: Store, progress: Progress) -> Report:
    """Build a generation of the sources, and make it the current one.

    Raises:
        UsageError, SourceFailed, Locked, Unavailable, RetrieveError: as `ingest.build.build` does.
    """
    from retrieve_cli.assemble.parts import parts_for
    from retrieve_cli.assemble.sources import sources_of
    from retrieve_cli.ingest.build import build

    read = sources_of(entries, settings, fetched=store.fetched)
    parts = parts_for(read, settings)
    limits = LossLimits(max_fail=settings.build.max_fail, keep=settings.store.keep, wait=settings.sync.wait)
    if parts.encoder is not None:
        progress.say(f"encoder: {parts.encoder.card.name}, {parts.encoder.device}")
    return build(read, parts, store, limits=limits, progress=progress)


def sync_of(
    settings: Settings, store: Store, progress: Progress, *, fetched: Path | None = None, checked: bool = False
) -> Sync:
    """Return a sync of the sources that the configuration or the current generation names; `checked` reads every byte
    of the current index first.

    Raises:
        SourceFailed: a source is missing.
    """
    from retrieve_cli.assemble.parts import parts_for
    from retrieve_cli.assemble.sources import sources_of
    from retrieve_cli.ingest.sync import Sync

    named = present_entries(settings, store, progress.say)
    sources = sources_of(named, settings, fetched=fetched or store.fetched)
    limits = LossLimits(max_fail=settings.build.max_fail, max_shrink=settings.sync.max_shrink, keep=settings.store.keep)
    return Sync(
        sources, partial(parts_for, sources, settings), store, limits=limits, progress=progress, checked=checked
    )


def present_entries(settings: Settings, store: Store, say: Callable[[str], None]) -> Sequence[SourceSetting]:
    """Return the sources that a sync follows, all of which exist.

    Raises:
        IndexMissing, IndexCorrupt, UsageError: nothing names a source.
        SourceFailed: a source is missing.
    """
    from retrieve_cli.ingest.source_checks import check_present
    from retrieve_cli.ingest.sync import entries

    named = entries(settings, store, say)
    check_present(named, listed=bool(settings.sources.list))
    return named


# ------------------------------------------------------------------------------------ records of a program


def changes_of(
    given: Any,
    documents: Documents,
    settings: Settings,
    say: Callable[[str], object] = lambda _: None,
    *,
    known: Collection[str] = (),
) -> list[Change | str]:
    """Return the change that stores each record, or the reason why it is rejected. `known` are ids of records that
    these may replace.

    Raises:
        UsageError: there are no records, or more of them are rejected than a build tolerates.
    """
    from retrieve_cli.assemble.sources import with_known_keys

    changes: list[Change | str] = []
    seen: set[str] = set()
    for row in with_known_keys(rows_of(given), settings, say, known=known):
        change = row if isinstance(row, str) else documents.change(row, None)
        if isinstance(change, Change) and change.id in seen:
            change = f"duplicate id {quoted(change.id)}"
        elif isinstance(change, Change):
            seen.add(change.id)
        changes.append(change)
    if not changes:
        raise UsageError("there are no records", hint='for example: [{"name": "lungmask", "description": "…"}]')
    rejected = rejections(changes)
    if not LossLimits(max_fail=settings.build.max_fail).tolerates(len(rejected), len(changes) - len(rejected)):
        message = f"{len(rejected):,} of {len(changes):,} records are rejected; nothing was stored"
        raise UsageError(message, hint=_reasons(rejected))
    return changes


def replace_records(documents: Documents, changes: Sequence[Change | str]) -> None:
    """Store the records, and remove all other documents of the inbox: all at once."""
    wanted = {change.id: change for change in changes if isinstance(change, Change)}
    gone = [Change(entry.id, None, None) for entry in documents.inbox.snapshot() if entry.id not in wanted]
    documents.inbox.write([*gone, *wanted.values()])


def rejections(changes: Sequence[Change | str]) -> list[Refused]:
    """Return the records among changes that are rejected."""
    return [Refused(_RECORDS, number, each) for number, each in enumerate(changes, 1) if isinstance(each, str)]


def warn_of(rejected: Sequence[Refused], read: int, *, level: int) -> None:
    """Warn of rejected records with their first reasons; `level` counts the calls between this and the user's."""
    import warnings

    if rejected:
        message = f"{len(rejected):,} of {read:,} records are rejected: {_reasons(rejected)}"
        warnings.warn(printable(message), stacklevel=level + 1)


def expect_published(report: Report) -> Report:
    """Return a report. Raises: SourceFailed if too many records are rejected, so that nothing was published."""
    if report.status == "failed":
        hint = f"{_reasons(report.rejected)}; fix them, or allow more: build.max_fail in config.yaml"
        raise SourceFailed(report.sentence(), hint=hint)
    return report


def _reasons(rejected: Sequence[Refused]) -> str:
    reasons = [f"{'record ' if item.source == _RECORDS else f'{item.source}:'}{item.line}: {item.reason}"
               for item in rejected[:_LISTED]]  # fmt: skip
    return "; ".join([*reasons, *(["…"] if len(rejected) > _LISTED else [])])
