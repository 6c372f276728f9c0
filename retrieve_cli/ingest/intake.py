"""Items into the files of a segment, in a scratch folder: records, chunks, vectors and indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Item, Notice, Record, Refused, Source
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import ModelFailed, RetrieveError, TextFailed, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.ingest.encodings import Encodings
from retrieve_cli.ingest.facets import FacetCounts, Faceting
from retrieve_cli.ingest.items import Piece, Placed, pieces_of, read_ahead, reading, unforeseen
from retrieve_cli.ingest.known_items import Comparison, place_of
from retrieve_cli.ingest.notices import Notices
from retrieve_cli.ingest.report import Progress
from retrieve_cli.ingest.segment_writer import NewRecord, SegmentWriter
from retrieve_cli.storage import token_table
from retrieve_cli.storage.key_rows import KeyRows
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.records.rows import content_of
from retrieve_cli.storage.segment import TOKENS

if TYPE_CHECKING:
    from retrieve_cli.storage.segment import Segment


_READ, _READ_TEXT = 256, 1 << 20
"""Items that are read at a time, and their characters: the same code on many records is half as fast again as all of it
on one after the other."""
_WAITING_TEXT = 1 << 20
"""Characters of chunks that wait to be written."""
_FACETED_TEXT = 16 << 20
"""The same if they wait for facets, so that many requests are under way at once: about 16,000 chunks."""


class Intake:
    """Receives items, one at a time, and writes the artifacts of a segment into a scratch folder."""

    def __init__(
        self,
        scratch: Path,
        parts: Parts,
        cache: Path,
        progress: Progress,
        compared: Comparison,
        *,
        lenders: Sequence[Segment] = (),
        again: bool = False,
    ) -> None:
        """`compared` has the records of the current generation that stay. `lenders` are segments whose
        encodings and facets are used again; with `again`, only their facets, and no server is asked for more."""
        self._scratch = scratch
        self.progress = progress
        self._parts = parts
        self._before = compared.before
        self.compared, self.places, self._rows = compared, compared.new_places, compared.rows
        self.kinds: set[str] = set()
        """Kinds of the new records."""
        self._facets: Faceting | None = None
        if parts.facets is not None:
            self._facets = Faceting(parts.facets, cache, lenders, say=progress.say, asks=not again)
        self._writers = parts.writers()
        self._files: list[str] = []
        """By new record, the file that it was read from."""
        self._names: list[str] = []
        self._waiting: list[NewRecord] = []
        self._waiting_text = 0
        self._counts: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        """Numbers of rejected pieces by source."""
        self.notices = Notices(progress.say)
        self.encodings = Encodings(
            parts,
            cache,
            progress.say,
            lenders=() if again else lenders,
            verified=compared.is_sync,
        )
        self.rejected: list[Refused] = []
        self.reread: set[str] = set()
        """SHA-1 of items of which a part was rejected: the next sync reads them again."""
        self._tables = SegmentWriter(scratch, with_facets=self._facets is not None)  # opens files: nothing fails now

    @property
    def new(self) -> int:
        """Number of new records."""
        return len(self._rows)

    @property
    def new_chunks(self) -> int:
        """Number of chunks of the new records."""
        return len(self._tables.texts)

    @property
    def own_sources(self) -> list[tuple[str, int]]:
        """The sources of the new records, with their numbers."""
        return [(name, self._counts[number]) for number, name in enumerate(self._names) if self._counts[number]]

    @property
    def facets(self) -> FacetCounts | None:
        """Numbers of facets that were made; None if none are configured."""
        return None if self._facets is None else self._facets.counts

    @property
    def contents(self) -> np.ndarray:
        """(new records, 20) the SHA-1 of the content of each."""
        return self._tables.contents

    def saved(self) -> str:
        """Return a sentence on the work that an interruption does not lose; empty without any."""
        numbers = {"summarised": self.facets.made if self.facets else 0, "encoded": self.encodings.done}
        kept = [f"{count(number, 'chunk')} {done} and kept" for done, number in numbers.items() if number]
        return "; ".join([*kept, "run the same command to continue"]) if kept else ""

    def take(self, source: Source, items: Iterable[Placed], *, complete: bool = True) -> None:
        """Read items of the next source; `complete` if these are all that it has."""
        number = len(self._names)
        self._names.append(source.name)
        with reading(source) as progress:
            for block in _blocks(read_ahead(items)):
                for (place, item), pieces in block:
                    self._item(source, item, pieces, place_of(number, place))
                    progress.advance()
        self.notices.finish(source, complete=complete)

    def flush(self, *, all_read: bool = True) -> None:
        """Write the records that wait, with their facets; `all_read` after all sources were read."""
        waiting, self._waiting, self._waiting_text = self._waiting, [], 0
        if self._facets is not None:
            facets = iter(self._facets.facets_of([c for new in waiting for c in new.chunks], all_read=all_read))
            waiting = [
                new._replace(chunks=[replace(chunk, facets=next(facets)) for chunk in new.chunks]) for new in waiting
            ]
        keys = self._tables.add(waiting)
        for writer in self._writers.values():
            for new in waiting:
                writer.add(new.record, new.chunks)
        if not self.encodings.expected:
            return
        chunks = [chunk for new in waiting for chunk in new.chunks]
        try:
            for key, chunk in zip(keys, chunks, strict=True):
                self.encodings.add(key, chunk.embedded)
        except TextFailed as failed:
            raise self._blamed(failed) from failed

    def finish(self) -> None:
        """Encode every text that waits.

        Raises:
            ModelFailed: a text ends every worker that encodes it.
        """
        try:
            self.encodings.finish()
        except TextFailed as failed:
            raise self._blamed(failed) from failed

    def write(self) -> dict[str, int]:
        """Write the indexes and offsets; return the rows of each file, none without new records."""
        if truncated := self.encodings.truncated:
            self.progress.say(f"{count(truncated, 'chunk')} longer than the encoder's limit: the end was cut off")
        if summary := self.encodings.summary(self._tables.texts):
            self.progress.say(summary)
        if not self.new:
            self._tables.close()
            for path in self._scratch.iterdir():
                path.unlink()
            return {}
        rows: dict[str, int] = {}
        passages = self.encodings.encoded.passages(self._tables.texts)
        with task("writing indexes", "indexes", len(self._writers)) as writing:
            for name, writer in self._writers.items():
                file = retriever(name).file
                rows[file] = writer.write(self._scratch / file, passages)
                writing.advance()
        if self.encodings.encoded.tokens is not None:
            stretches = partial(self.encodings.encoded.stretches, self._tables.texts)
            dim = self._parts.recipe.encoder_card.dim
            rows[TOKENS] = token_table.write(stretches, self._scratch / TOKENS, dim=dim)
        # At the end: postings take the most memory, and are written by now.
        return rows | self._tables.finish()

    def changes(self) -> Changes:
        """Return the records that were added, changed and removed."""
        return self.compared.changes(self.contents)

    def close(self) -> None:
        """Close the files, finished or not."""
        self.encodings.close()
        self._tables.close()

    def _item(self, source: Source, item: Item | Refused | Notice, pieces: Sequence[Piece], place: int) -> None:
        refused = len(self.rejected)
        for piece in pieces:
            if isinstance(piece, Record) and isinstance(item, Item):
                self._record(source, item, piece, place)
            elif isinstance(piece, Refused):
                self._reject(source, piece)
            elif isinstance(piece, Notice):
                self.notices.add(piece)
        if isinstance(item, Item) and len(pieces) > 1 and len(self.rejected) > refused:
            self.reread.add(item.digest.hex())

    def _record(self, source: Source, item: Item, record: Record, place: int) -> None:
        former = self.compared.former_of(record.id)
        if self.compared.is_taken(record.id, former, place=place):
            self._reject(source, _refused(record, self._duplicate(record, source, former)))
            return
        try:
            record, chunks = self._parts.chunkers.cut(source, record)
        except (RetrieveError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  a chunker or tokenizer may fail on any text from outside
            self._reject(source, _refused(record, unforeseen(error)))
            return
        if not chunks:
            self._reject(source, _refused(record, "it has no text to chunk"))
            return
        if former >= 0 and self._before is not None:
            if self.compared.mask[former]:  # its item comes later: there the id is taken
                self._drop(record, former)
            elif self.compared.is_sync and self._is_same(former, item, record):
                self.compared.keep(former, place=place, line=record.line)
                return
        self.notices.count(record)
        self.kinds.add(record.kind)
        self.compared.add(record.id, former, place=place)
        self._files.append(item.source)
        self._counts[len(self._names) - 1] += 1
        self._waiting.append(NewRecord(record, chunks, item.digest))
        self._waiting_text += sum(len(chunk.text) for chunk in chunks)
        if self._waiting_text > (_WAITING_TEXT if self._facets is None else _FACETED_TEXT):
            self.flush(all_read=False)

    def _is_same(self, former: int, item: Item, record: Record) -> bool:
        """Return True if a record of an item that was read again is the one that the index has."""
        before = self._before
        return before is not None and (
            before.origin(former) == item.digest
            and before.contents[former].tobytes() == content_of(record).digest
            and before.source_of(former) == self._names[-1]
        )

    def _drop(self, record: Record, former: int) -> None:
        """Let the record go that has the id of an earlier one, and reject it."""
        if self._before is None:
            return
        stored = self._before.records[former]
        self.compared.mask[former] = False
        self.reread.add(self._before.origin(former).hex())
        reason = f"duplicate id {quoted(record.id)}, first used by {record.source}:{record.line}"
        self.refused[self._before.source_of(former)] += 1
        self.rejected.append(Refused(str(stored["source"]), int(self.compared.lines[former]), reason, ""))

    def _blamed(self, failed: TextFailed) -> ModelFailed:
        """Return the error for a text that cannot be encoded, which names its record."""
        chunk = KeyRows(self._tables.texts.array).row(text_key(failed.text))
        starts = self._tables.starts
        row = int(np.searchsorted(starts, chunk, side="right")) - 1
        number = chunk - int(starts[row]) + 1
        message = f"chunk {number} of {quoted(self._tables.id(row))} cannot be embedded: {failed.message}"
        hint = "remove this text, or give it to a model that survives it; finished texts are kept"
        return ModelFailed(message, hint=hint)

    def _duplicate(self, record: Record, source: Source, former: int) -> str:
        """Return the reason to reject a record whose id another one has: a new one, or the row `former` before."""
        row = self._rows.get(record.id)
        if row is None and self._before is not None:
            stored, line = self._before.records[former], int(self.compared.lines[former])
            first, other = f"{stored['source']}:{line}", self._before.source_of(former)
        else:
            number = row or 0
            first = f"{self._files[number]}:{self._line(number)}"
            other = self._names[self.places[number] // place_of(1, 0)]
        reason = f"duplicate id {quoted(record.id)}, first used by {first}"
        if other == source.name:
            return reason
        both = f"{reason} of source {quoted(other)}; this one is of source {quoted(source.name)}"
        return f"{both}, and an `id_prefix` in config.yaml would tell them apart"

    def _line(self, number: int) -> int:
        """Return the line of a new record, which may still wait."""
        written = len(self._tables)
        return self._tables.line(number) if number < written else self._waiting[number - written].record.line

    def _reject(self, source: Source, refused: Refused) -> None:
        self.refused[source.name] += 1
        self.rejected.append(refused)


def _blocks(items: Iterable[Placed]) -> Iterator[list[tuple[Placed, Sequence[Piece]]]]:
    """Yield items with their pieces, some at a time. An item that is read in the background ends a block."""
    block: list[tuple[Placed, Sequence[Piece]]] = []
    size = 0
    for placed in items:
        pieces = pieces_of(placed[1])
        block.append((placed, pieces))
        size += sum(len(piece.text) for piece in pieces if isinstance(piece, Record))
        is_slow = isinstance(placed[1], Item) and placed[1].begin is not None
        if is_slow or len(block) >= _READ or size > _READ_TEXT:
            yield block
            block, size = [], 0
    yield block


def _refused(record: Record, reason: str) -> Refused:
    return Refused(record.source, record.line, reason, record.text[:200])
