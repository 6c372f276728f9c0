"""Chunking of scientific texts at Introduction, Methods, Results and Discussion, however these are marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retrieve_cli.chunking.coherence import Coherence
from retrieve_cli.chunking.label_sets import LABELS
from retrieve_cli.chunking.markers import Markers
from retrieve_cli.chunking.section import SectionChunker
from retrieve_cli.contracts import Chunk, Json, Record, Tokenizer


class ImradChunker:
    """Chunker for papers and abstracts: one chunk per part if it fits; other texts are cut by sections.

    Parts are recognised by Markdown headings, lines that contain nothing else ("2. Methods", "RESULTS"), and labels in
    the text ("Objective. …", "METHODS: …", "RESULTS We …", "**Results:** …"). `section` is the canonical name of the
    part, followed by the headings below it.

    Raises:
        UsageError: `size` leaves no room for text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        size: int | None = None,
        prefix: str = "",
        language: str = "en",
        coherence: Coherence | None = None,
    ) -> None:
        self._sections = SectionChunker(
            tokenizer,
            max_tokens=max_tokens,
            size=size,
            prefix=prefix,
            language=language,
            coherence=coherence,
            markers=Markers("imrad", LABELS["imrad"]),
        )

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {**{key: value for key, value in self._sections.card.items() if key != "markers"}, "strategy": "imrad"}

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """Return the parts of the record in order, however short they are."""
        return self._sections.chunk(record)
