"""Check of documents: packages that the formats in configured folders require, and parsers that have changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from retrieve_cli.assemble.documents import reader_of, sandbox_lacks
from retrieve_cli.contracts import DocumentReader, Json
from retrieve_cli.operations.doctor.subject import Check, Subject, some

_NAME = "documents"
_INSTALL = "pip install 'retrieve-cli[documents]'"
_MOST = 100_000
"""Files of folders that are looked at by name."""


def documents(subject: Subject) -> Check | None:
    """Check that every format that is there can be read, by the parser that the index was built with."""
    reader = reader_of(subject.settings)
    if lacking := _lacking(subject, reader):
        counts = ", ".join(some(count, f"{kind} file") for kind, count in lacking.most_common())
        reasons = "; ".join(reader.lacks(kind).partition(":")[0] for kind, _ in lacking.most_common())
        return Check(_NAME, "warn", f"skipped: {counts}; {reasons}", _INSTALL)
    cards = (subject.manifest.recipe.documents or {}) if subject.manifest else {}
    changed = [kind for kind, card in cards.items() if not reader.lacks(kind) and reader.card(kind) != card]
    if changed:
        parts = "; ".join(_change(kind, cards[kind].get("parser"), reader.card(kind).get("parser")) for kind in changed)
        message = f"the index was built with other parsers ({parts}): sync reads the files of these formats again"
        return Check(_NAME, "warn", message, subject.command("sync"))
    if not cards:
        return None
    return Check(_NAME, "ok", ", ".join(f"{kind} by {card.get('parser')}" for kind, card in cards.items()))


def sandbox(_: Subject) -> Check:
    """Check that this kernel has all rules for the processes that parse documents."""
    if lacks := sandbox_lacks():
        fix = "parse documents of strangers on Linux 6.2 or later, x86_64 or aarch64, with Landlock and seccomp"
        return Check("sandbox", "warn", f"parsers of documents are less confined: {'; '.join(lacks)}", fix)
    return Check("sandbox", "ok", "parsers read no file of the user and reach no network and no other process")


def _change(kind: str, before: Json, now: Json) -> str:
    """Return the change of the parser of a format."""
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
