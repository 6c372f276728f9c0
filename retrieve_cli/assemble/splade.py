"""The SPLADE leg: its encoder at build and at query time, and its index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json, SparseEncoder, TermWeights
from retrieve_cli.errors import Unavailable
from retrieve_cli.storage.content_cache import Layout

if TYPE_CHECKING:
    from retrieve_cli.storage.content_cache import ContentCache
    from retrieve_cli.storage.tables import Table

LAYOUT = Layout(".weights", {"terms": "<i4", "weights": "<f4"})
"""Of the cache of passages' weights."""
_BATCH = 1024
"""Texts that are handed to the encoder at a time, and what a killed build loses at most."""


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
    from retrieve_cli.encoders.splade.splade_folder import read_splade

    chosen = settings.splade
    place = locate(model, settings.models.dir, download=settings.models.auto_download)
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
    keys: Sequence[bytes],
    chunks: Table,
    path: Path,
    *,
    cache: ContentCache,
    old: Mapping[str, Json] | None,
    rows: Mapping[bytes, int],
    say: Callable[[str], None],
) -> int:
    """Writes the index over chunks, each with the SHA-1 of its text among `keys`; returns their number.

    A text that the older index `old` has in one of `rows` is taken over, one that the cache has is not encoded again.
    """
    from retrieve_cli.retrievers.splade import SparseWriter

    known = rows if old is not None else {}
    encoded = _encode_missing(encoder, keys, chunks, known=known, cache=cache)
    say(f"splade: {encoded} of {len(set(keys))} texts encoded, the others were known")
    writer = SparseWriter(unit="chunk")
    if old is not None:
        writer.reuse(old)
    cached = cache.entries([key for key in keys if key not in known])
    for key in keys:
        if (row := known.get(key)) is not None:
            writer.keep(row)
        else:
            writer.add(TermWeights(*next(cached)))
    return writer.write(path)


def _encode_missing(
    encoder: SparseEncoder,
    keys: Sequence[bytes],
    chunks: Table,
    *,
    known: Mapping[bytes, int],
    cache: ContentCache,
) -> int:
    """Sees to it that every text is known or in the cache; returns how many were encoded.

    Texts are handed on in their order, each of them once: a build that goes on after it was killed fills the same
    batches as one that was not, and a weight may differ in its last bits with the texts it shares a batch with.
    """
    done, waiting = 0, dict[bytes, int]()
    for row, key in enumerate(keys):
        if key not in known and key not in waiting and key not in cache:
            waiting[key] = row
        if waiting and (len(waiting) == _BATCH or row == len(keys) - 1):
            batch = [chunks[place] for place in waiting.values()]
            found = encoder.encode_passages([f"{chunk['header']}{chunk['text']}" for chunk in batch])
            cache.append(list(waiting), [(each.terms, each.weights) for each in found])
            done, waiting = done + len(found), {}
    return done
