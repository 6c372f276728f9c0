"""The SPLADE leg: its encoder at build and at query time, and its index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config import Settings
from retrieve_cli.contracts import Json, SparseEncoder
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts import TermWeights

_BATCH = 1024
"""Texts that are handed to the encoder at a time."""


def encoder_to_build(settings: Settings) -> SparseEncoder | None:
    """The encoder that is configured; None where none is.

    Raises:
        Unavailable: its model is not on this machine.
        UsageError: the folder is no SPLADE model.
    """
    return _encoder(settings, settings.splade.model) if settings.splade.model else None


def encoder_to_query(settings: Settings, card: Mapping[str, Json]) -> SparseEncoder:
    """The encoder that an index was built with, by its card in the recipe.

    Raises:
        Unavailable: it is not on this machine, or another one is in its place.
    """
    for model in dict.fromkeys(filter(None, (settings.splade.model, str(card["name"])))):
        found = _encoder(settings, model)
        if found.card["revision"] == card["revision"]:
            return found
    hint = "build again: retrieve build; or put that model back"
    raise Unavailable(f"the index was built with another revision of {card['name']}", hint=hint)


def _encoder(settings: Settings, model: str) -> SparseEncoder:
    from retrieve_cli.encoders.locate import locate
    from retrieve_cli.encoders.splade.encoder import SpladeEncoder
    from retrieve_cli.encoders.splade.folder import read_splade

    chosen = settings.splade
    place = locate(model, settings.encoder.models_dir, download=settings.encoder.download)
    return SpladeEncoder(
        read_splade(place.path, name=place.name),
        cache_dir=cache_dir(settings),
        device=chosen.device,
        batch_size=chosen.batch_size,
        min_weight=chosen.min_weight,
        top_terms=chosen.top_terms,
        query_top_terms=chosen.query_top_terms,
    )


def write(
    encoder: SparseEncoder,
    texts: Sequence[tuple[bytes, Mapping[str, Json]]],
    path: Path,
    *,
    old: Mapping[str, Json] | None,
    rows: Mapping[bytes, int],
) -> int:
    """Writes the index over chunks, each with its text's SHA-1; returns their number.

    A text that the older index `old` has in one of `rows` is taken over, all others are encoded.
    """
    from retrieve_cli.indexes.sparse import SparseWriter

    writer = SparseWriter(unit="chunk")
    left = dict(rows) if old is not None else {}
    if old is not None:
        writer.reuse(old)
    plan = [left.pop(key, None) for key, _ in texts]  # a row can be taken over once
    new = (f"{chunk['header']}{chunk['text']}" for (_, chunk), row in zip(texts, plan, strict=True) if row is None)
    encoded = _encoded(encoder, new)
    for row in plan:
        if row is None:
            writer.add(next(encoded))
        else:
            writer.keep(row)
    return writer.write(path)


def _encoded(encoder: SparseEncoder, texts: Iterable[str]) -> Iterator[TermWeights]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH:
            yield from encoder.encode_passages(batch)
            batch = []
    yield from encoder.encode_passages(batch) if batch else ()
