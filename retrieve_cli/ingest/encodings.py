"""Encodings of a build, each with its cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from retrieve_cli.assemble import splade
from retrieve_cli.assemble.parts import Parts
from retrieve_cli.ingest.embedding import TERM_LAYOUT, TermEncoding, VectorEncoding
from retrieve_cli.ingest.facets import Faceting
from retrieve_cli.storage.content_cache import ContentCache
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.vector_cache import VectorCache


def vector_encoding(parts: Parts, cache: Path, say: Callable[[str], None]) -> VectorEncoding | None:
    """Return the encoding of vectors; None if the index has none."""
    if parts.encoder is None:
        return None
    card = parts.encoder.card
    tokens = TokenCache(cache, card, say=say) if parts.keeps_tokens else None
    return VectorEncoding(parts.encoder, VectorCache(cache, card, say=say), tokens)


def term_encoding(parts: Parts, cache: Path, say: Callable[[str], None]) -> TermEncoding | None:
    """Return the encoding of learned term weights; None if the index has none."""
    if parts.sparse is None:
        return None
    ((name, card),) = splade.term_cards(parts.recipe).items()
    return TermEncoding(parts.sparse, name, card, ContentCache(cache, card, TERM_LAYOUT, say=say))


def faceting(parts: Parts, cache: Path, say: Callable[[str], None], *, asks: bool) -> Faceting | None:
    """Return the maker of facets with its cache; None without facets. Without `asks`, only the cache is used."""
    return None if parts.facets is None else Faceting(parts.facets, cache, say=say, asks=asks)
