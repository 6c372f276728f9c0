"""Reader of documents, from the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Card

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import DocumentReader
    from retrieve_cli.records.columns import Columns


def reader_of(settings: Settings) -> DocumentReader:
    """Return the reader of documents with the configured limits."""
    from retrieve_cli.documents.limits import MB, Limits
    from retrieve_cli.documents.reader import Reader

    parsing = settings.parsing
    limits = Limits(
        max_bytes=int(parsing.max_mb * MB),
        max_pages=parsing.max_pages,
        max_ratio=parsing.max_ratio,
        memory_bytes=int(parsing.memory_mb * MB),
        cpu_s=parsing.cpu_s,
        main_content=parsing.main_content,
    )
    return Reader(limits, text_bytes=int(settings.docs.max_mb * MB), workers=parsing.workers)


def suffixes() -> Sequence[str]:
    """Return the suffixes of the names of documents in any format."""
    from retrieve_cli.documents import formats

    return formats.suffixes()


def cards_of(columns: Columns, settings: Settings) -> Mapping[str, Card] | None:
    """Return the parser of each format of which there are records, given their columns; None if there are none."""
    from retrieve_cli.documents import formats

    main_content = settings.parsing.main_content
    cards = {
        name: formats.card(name, main_content=main_content)
        for name in columns.counts("kind")
        if name in formats.FORMATS
    }
    return {name: card for name, card in sorted(cards.items()) if card} or None
