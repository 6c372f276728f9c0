"""Chunking of scientific texts at Introduction, Methods, Results and Discussion, however these are marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieve_cli.chunking.label_sets import LABELS
from retrieve_cli.chunking.markers import Markers
from retrieve_cli.chunking.section import SectionChunker
from retrieve_cli.contracts import Json, Tokenizer


class ImradChunker(SectionChunker):
    """Chunker for papers and abstracts: one chunk per part if it fits, however short; other texts are cut by sections.

    Parts are recognised by Markdown headings, lines that contain nothing else ("2. Methods", "RESULTS"), and labels in
    the text ("Objective. …", "METHODS: …", "RESULTS We …", "**Results:** …"). `section` is the canonical name of the
    part, followed by the headings below it. It takes the options of `SectionChunker`.

    Raises:
        UsageError: `size` leaves no room for text.
    """

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        super().__init__(tokenizer, **options, markers=Markers("imrad", LABELS["imrad"]))

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {**{key: value for key, value in super().card.items() if key != "markers"}, "strategy": "imrad"}
