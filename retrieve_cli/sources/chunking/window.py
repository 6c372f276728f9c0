"""Token windows with overlap: the fallback for every other way of chunking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from retrieve_cli.contracts import Chunk, Json, Record, Tokenizer
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.chunking.blocks import TextBlock
from retrieve_cli.sources.chunking.coherence import Coherence
from retrieve_cli.sources.chunking.pieces import ChunkSpan, ChunkWriter, Cutter, context_of, pack, single_chunk
from retrieve_cli.sources.chunking.token_map import Budget, TokenMap


class WindowChunker:
    """Chunker with windows of up to `size` tokens, of which about `overlap` are shared with the previous window.

    A window ends after a sentence, or else a word, in its last quarter. With `coherence` it ends at a change of
    subject.

    Raises:
        UsageError: `size` or `overlap` leave no room for text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        size: int | None = None,
        overlap: int = 0,
        prefix: str = "",
        coherence: Coherence | None = None,
    ) -> None:
        self._budget = Budget(tokenizer, max_tokens=max_tokens, size=size, prefix=prefix)
        if not 0 <= overlap <= self._budget.size // 2:
            raise UsageError(
                f"an overlap of {overlap} tokens is not between 0 and half the chunk size of {self._budget.size}",
                hint=f"set the overlap to at most {self._budget.size // 2}",
            )
        self._overlap = overlap
        self._coherence = coherence

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {
            "strategy": "window",
            **self._budget.card,
            "overlap": self._overlap,
            "coherence": self._coherence and self._coherence.card,
        }

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """Yield the record as one chunk if it fits, else its windows in order."""
        parts = _parts(record)
        single = single_chunk(record, self._budget) if len(parts) == 1 else None
        if single:
            yield single
            return
        tokens = TokenMap(self._budget.tokenizer, record.text)
        room = self._budget.room(self._budget.shorten(context_of(record, ())))
        overlap = min(self._overlap, room // 2)
        spans = (span for start, end in parts for span in self._spans(tokens, start, end, room, overlap))
        yield from ChunkWriter(record, self._budget, tokens).chunks(spans)

    def _spans(self, tokens: TokenMap, start: int, end: int, room: int, overlap: int) -> Iterator[ChunkSpan]:
        """Yield the windows of a stretch; with coherence, each is of one subject and begins with the end of the
        previous one."""
        if not self._coherence:
            for first, last in tokens.windows(start, end, room=room, overlap=overlap):
                yield ChunkSpan(first, last)
            return
        cutter = Cutter(tokens, self._budget, coherence=self._coherence)
        text = TextBlock(start, end, "paragraph")
        before = start
        for stretch in pack(cutter.pieces([text], room - overlap), room - overlap, tokens=tokens):
            start = tokens.back(stretch.start, before, overlap) if stretch.start > before else before
            yield ChunkSpan(start, stretch.end)
            before = stretch.start


def _parts(record: Record) -> list[tuple[int, int]]:
    """Return the stretches that share no window: each slide or form is one."""
    if record.layout is None:
        return [(0, len(record.text))]
    pages = record.layout.pages
    bounds = {page.start for page in pages if page.alone} | {page.end for page in pages if page.alone}
    return list(pairwise(sorted({0, *bounds, len(record.text)}))) or [(0, 0)]
