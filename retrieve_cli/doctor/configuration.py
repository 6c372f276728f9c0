"""Check of the configuration against the index."""

from __future__ import annotations

from functools import cache

from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.doctor.subject import Check, Subject
from retrieve_cli.records.columns import Columns, columns_of
from retrieve_cli.storage.generation import open_generation


def settings(subject: Subject) -> Check:
    """Check that a sync would build the index as it is."""
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
