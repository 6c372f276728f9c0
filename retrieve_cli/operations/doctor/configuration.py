"""Checks of the configuration against the index."""

from __future__ import annotations

from collections import Counter
from functools import cache

from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.config.loading import override
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.contracts import Request
from retrieve_cli.operations.doctor.subject import Check, Subject
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


def settings(subject: Subject) -> Check:
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


def thresholds(subject: Subject) -> Check | None:
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
