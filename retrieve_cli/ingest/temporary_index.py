"""A temporary generation of a few documents for one query, with cached vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble.parts import Parts, parts_for
from retrieve_cli.assemble.registry import asked_with_terms, asked_with_vectors
from retrieve_cli.config.settings import FacetsSettings, Settings
from retrieve_cli.contracts import Encoder, ModelCard, Source, Tokenizer
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import apply
from retrieve_cli.ingest.inventory import Contents
from retrieve_cli.ingest.report import LossLimits, Progress, Report
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.vector_cache import VectorCache

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_ALL = LossLimits(max_fail=1.0)
"""Share of documents that may be unreadable: what can be read is searched."""


class TemporaryIndex(NamedTuple):
    """Generation that was built."""

    report: Report
    skipped: Mapping[str, str]
    """By retriever that an index would have and this one lacks, the reason."""


def build_temporary_index(
    sources: Sequence[Source], settings: Settings, store: Store, *, cache: Path, progress: Progress
) -> TemporaryIndex:
    """Write a generation into an empty store: terms, and vectors if `cache` has one of every text. Nothing is encoded,
    no facets are made, and nothing is written into the cache.

    Raises:
        UsageError: no record can be read.
        Unavailable: a required retriever is not available.
    """
    skipped = _without_terms(settings)
    settings = replace(settings, splade=replace(settings.splade, model=None), facets=FacetsSettings())
    with store.writer():
        if settings.dense.enabled:
            try:
                parts = _with_vectors(sources, settings, cache)
                return TemporaryIndex(_applied(sources, parts, store, cache, progress), skipped)
            except Unavailable as error:
                why = f"{error.message}: {error.hint}" if error.hint else error.message
                skipped |= dict.fromkeys(asked_with_vectors(), why)
        lexical = replace(
            settings,
            dense=replace(settings.dense, enabled=False),
            chunking=replace(settings.chunking, coherence=False),
        )
        return TemporaryIndex(_applied(sources, parts_for(sources, lexical), store, cache, progress), skipped)


def _without_terms(settings: Settings) -> dict[str, str]:
    """Return the reason why there are no learned term weights, if they are configured. Raises: Unavailable if they are
    required."""
    if settings.splade.model is None:
        return {}
    message, hint = "term weights are learned at build time, and there is no index", "retrieve build"
    if settings.splade.policy == "required":
        raise Unavailable(message, hint=hint)
    return dict.fromkeys(asked_with_terms(), f"{message}: {hint}")


def _with_vectors(sources: Sequence[Source], settings: Settings, cache: Path) -> Parts:
    """Return the parts of an index with vectors. Raises: Unavailable if vectors or encoder are missing."""
    if not cache.is_dir():
        raise _lacking(cache)
    parts = parts_for(sources, settings)
    if parts.encoder is None or not VectorCache(cache, parts.encoder.card, say=lambda _: None).begun:
        raise _lacking(cache)
    return replace(parts, encoder=_Remembered(parts.encoder, cache))


def _lacking(cache: Path, count: int | None = None) -> Unavailable:
    texts = "these documents have" if count is None else f"{count:,} of these chunks {'has' if count == 1 else 'have'}"
    message = f"{texts} no vectors in {cache} yet, and a query does not encode documents"
    return Unavailable(message, hint="retrieve build, which encodes them")


def _applied(sources: Sequence[Source], parts: Parts, store: Store, cache: Path, progress: Progress) -> Report:
    before = Contents.nothing()
    report = apply(sources, parts, store, limits=_ALL, progress=progress, before=before, cache=cache)
    if not report.records:
        first = report.rejected[0]
        message = f"none of the {report.quarantined} documents can be read; {first.source}: {first.reason}"
        raise UsageError(message, hint="name a folder of documents; texts must be in UTF-8")
    return report


class _Remembered:
    """An encoder that encodes no passage: only cached vectors are used."""

    truncated = 0

    def __init__(self, encoder: Encoder, cache: Path) -> None:
        self._encoder = encoder
        self._cache = cache

    @property
    def card(self) -> ModelCard:
        return self._encoder.card

    @property
    def tokenizer(self) -> Tokenizer:
        return self._encoder.tokenizer

    @property
    def device(self) -> str:
        return self._encoder.device

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.encode_queries(texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Raises: Unavailable, always."""
        raise _lacking(self._cache, len(texts))
