"""A temporary index of a few documents for one query: their words are compared, and nothing is encoded."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.assemble.parts import parts_for
from retrieve_cli.assemble.registry import asked_with_terms, asked_with_vectors, retriever
from retrieve_cli.config.settings import FacetsSettings, Settings
from retrieve_cli.contracts import Source
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import apply
from retrieve_cli.ingest.report import LossLimits, Progress, Report
from retrieve_cli.storage.store import Store

_ALL = LossLimits(max_fail=1.0)
"""Share of documents that may be unreadable: what can be read is searched."""
_WHY, _HINT = "a query does not encode documents, and there is no index", "retrieve build"


def build_temporary_index(
    sources: Sequence[Source], settings: Settings, store: Store, *, progress: Progress
) -> tuple[Report, dict[str, str]]:
    """Write a generation of the terms of documents into an empty store; return the report, and by retriever that an
    index would have and this one lacks, the reason.

    Raises:
        UsageError: no record can be read.
        Unavailable: learned term weights are required.
    """
    if settings.splade.model is not None and settings.splade.policy == "required":
        raise Unavailable(_WHY, hint=_HINT)
    names = [name for name in (*asked_with_vectors(), *asked_with_terms()) if retriever(name).configured(settings)]
    lexical = replace(
        settings,
        dense=replace(settings.dense, enabled=False),
        splade=replace(settings.splade, model=None),
        chunking=replace(settings.chunking, coherence=False),
        facets=FacetsSettings(),
    )
    with store.writer():
        parts = parts_for(sources, lexical)
        report = apply(sources, parts, store, limits=_ALL, progress=progress, before=None)
    if not report.records:
        first = report.rejected[0]
        message = f"none of the {report.quarantined} documents can be read; {first.source}: {first.reason}"
        raise UsageError(message, hint="name a folder of documents; texts must be in UTF-8")
    return report, dict.fromkeys(names, f"{_WHY}: {_HINT}")
