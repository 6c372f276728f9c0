"""Items into the files of a generation, in a scratch folder: records, chunks, vectors and indexes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Chunk, Item, Json, Notice, Record, Refused, Source
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.figures import count, noun_for
from retrieve_cli.errors import ModelFailed, RetrieveError, TextFailed, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.cached_source import batches, folders_of, mapping_of, origin_of, pieces_of, unforeseen
from retrieve_cli.ingest.changes import Changes, ChunkChanges
from retrieve_cli.ingest.encodings import Encodings
from retrieve_cli.ingest.facets import FacetCounts, Faceting, FacetQueue, Made
from retrieve_cli.ingest.generation_writer import GenerationWriter, written_columns
from retrieve_cli.ingest.inventory import Contents, Inventory, walk
from retrieve_cli.ingest.report import Notices, Progress, reading, slow
from retrieve_cli.storage import token_table
from retrieve_cli.storage.generation import GRAPH, TOKENS
from retrieve_cli.storage.manifest import FileEntry, SourceEntry, text_key
from retrieve_cli.storage.records.rows import content_digest

if TYPE_CHECKING:
    from retrieve_cli.storage.segment import Segment


class Intake:
    """Receives items, one at a time, and writes the artifacts of a generation into the scratch folder."""

    def __init__(
        self,
        scratch: Path,
        parts: Parts,
        cache: Path,
        progress: Progress,
        *,
        before: Contents,
        lenders: Sequence[Segment] = (),
        again: bool = False,
    ) -> None:
        """`before` has the records that were current before. `lenders` are segments whose encodings and facets are
        used again; with `again`, only their facets, and no server is asked for more."""
        self._scratch = scratch
        self._progress = progress
        self._parts = parts
        self._facets: Faceting | None = None
        self._waiting: FacetQueue | None = None
        if parts.facets is not None:
            self._facets = Faceting(parts.facets, cache, lenders, say=progress.say, asks=not again)
            self._waiting = FacetQueue(self._facets)
        self._tables = GenerationWriter(self._scratch, with_facets=self._facets is not None)
        self._inventory = Inventory(before)
        self._places: list[str] = []
        """By record, the file that it was read from."""
        self._begun: list[tuple[int, Source]] = []
        """Each source with the row of its first record."""
        self.notices = Notices(progress.say)
        self._characters = characters = Counter[str]()
        """Characters to embed, by file."""
        # Without a reference to this object: a circle would keep the files of its sources open until it is collected.
        self.encodings = Encodings(
            parts,
            cache,
            progress.say,
            lenders=() if again else lenders,
            verified=False,
            on_slow=lambda seconds: progress.say(slow(seconds, characters)),
        )
        self.rejected: list[Refused] = []
        self.entries: list[SourceEntry] = []
        self.origins: list[dict[str, Json]] = []
        self.recipe = parts.recipe
        """The recipe of the generation; complete after `write`."""
        self.linked: dict[str, FileEntry] = {}
        """Files that are links to files of the older generation."""

    @property
    def own(self) -> list[tuple[str, int]]:
        """The records of each source."""
        return [(entry.name, entry.records) for entry in self.entries]

    @property
    def records(self) -> int:
        return len(self._tables)

    @property
    def chunks(self) -> int:
        return len(self._tables.texts)

    @property
    def embedded(self) -> int:
        """Texts that went through the encoder."""
        return self.encodings.embedded

    @property
    def facets(self) -> FacetCounts | None:
        """Numbers of facets that were made; None if none are configured."""
        return None if self._facets is None else self._facets.counts

    def kept(self) -> str:
        """Return a sentence on what an interruption loses nothing of; empty if there is nothing."""
        facets = self.facets.made if self.facets else 0
        summarised = f"{count(facets, 'chunk')} summarised and kept; " if facets else ""
        return summarised + (self.encodings.kept() or ("run the same command to continue" if facets else ""))

    def changes(self) -> Changes:
        """Return the records that were added, changed and removed."""
        return self._inventory.changes()

    def chunk_changes(self) -> ChunkChanges:
        """Return how many chunks were added, changed, removed and kept."""
        return self._inventory.chunk_changes(self._tables.starts, self._tables.texts.array)

    def take_all(self, sources: Sequence[Source]) -> None:
        """Read all sources to their end and encode every text.

        Raises:
            UsageError: they have no records.
            ModelFailed: a text ends every worker that encodes it.
        """
        try:
            self._take_each(sources)
        except TextFailed as failed:
            chunk = self._tables.texts.index(text_key(failed.text))
            row = int(np.searchsorted(self._tables.starts, chunk, side="right")) - 1
            number = chunk - int(self._tables.starts[row]) + 1
            message = f"chunk {number} of {quoted(self._tables.id(row))} cannot be embedded: {failed.message}"
            hint = "remove this text, or give it to a model that survives it; finished texts are kept"
            raise ModelFailed(message, hint=hint) from failed
        if not self.records and not self.rejected:
            names = ", ".join(str(source.origin.get("path", source.name)) for source in sources)
            items = noun_for(source.kind for source in sources)
            message = f"no {items if items.endswith('s') else items + 's'} in {names}"
            raise UsageError(message, hint="nothing was built; name a source that has some")

    def _take_each(self, sources: Sequence[Source]) -> None:
        for source in sources:
            self._take(source)
        if self._waiting is not None:
            self._waiting.release(all_read=True)
        self.encodings.finish()

    def _take(self, source: Source) -> None:
        first, rejected = len(self._inventory), len(self.rejected)
        self._begun.append((first, source))
        stamp, folders = source.stamp(), folders_of(source)
        read = hashlib.sha1(usedforsecurity=False)
        with reading(source) as progress:
            for batch in batches(source):
                read.update(batch.traces)
                older = np.full(len(batch), -1, np.int64)
                for places, _ in walk(batch, older, self._inventory):
                    self._item(source, batch.item(places.start))
                    progress.advance(len(places))
        self.notices.report_mapping(source.name, mapping := mapping_of(source))
        self.notices.finish(source.name, complete=True)
        counts = (len(self._inventory) - first, len(self.rejected) - rejected)
        self._then(partial(self._enter, source, first, counts))
        self.origins.append(origin_of(source, read.hexdigest(), stamp, folders, mapping))

    def _enter(self, source: Source, first: int, counts: tuple[int, int]) -> None:
        self.entries.append(SourceEntry(str(source.origin["kind"]), source.name, self._tables.digest(first), *counts))

    def _then(self, step: Callable[[], None]) -> None:
        """Do a step after the records that wait for their facets."""
        if self._waiting is None:
            step()
        else:
            self._waiting.then(step)

    def write(self) -> dict[str, int]:
        """Write the indexes and offsets; return the rows of each file."""
        if truncated := self.encodings.truncated:
            self._progress.say(f"{count(truncated, 'chunk')} longer than the encoder's limit: the end was cut off")
        if summary := self.encodings.summary(self._tables.texts):
            self._progress.say(summary)
        rows = self._tables.finish()
        texts = self._tables.texts
        passages = self.encodings.encoded.passages(texts)
        with task("writing indexes", "indexes", len(self._parts.writers)) as writing:
            for name, writer in self._parts.writers.items():
                file = retriever(name).file
                if file not in self.linked:
                    rows[file] = writer.write(self._scratch / file, passages)
                writing.advance()
        if (stretches := self.encodings.encoded.stretches(texts)) is not None:
            dim = self._parts.recipe.encoder_card.dim
            rows[TOKENS] = token_table.write(stretches, self._scratch / TOKENS, dim=dim)
        rows |= {file: entry.rows for file, entry in self.linked.items() if entry.rows is not None}
        columns = written_columns(self._scratch)
        self.recipe = self._parts.recipe_of(columns)
        if (edges := self._parts.write_graph(self._scratch / GRAPH)) is not None:
            rows[GRAPH] = edges
        for note in self._parts.graph_notes(columns, self._scratch):
            self._progress.say(note)
        return rows

    def close(self) -> None:
        """Close the files, finished or not."""
        self.encodings.close()
        self._tables.close()

    def _item(self, source: Source, item: Item | Refused | Notice) -> None:
        for piece in pieces_of(item) if isinstance(item, Item) else [item]:
            if isinstance(item, Item) and isinstance(piece, Record):
                self._record(source, item, piece)
            elif isinstance(piece, Refused):
                self.rejected.append(piece)
            elif isinstance(piece, Notice):
                self.notices.add(piece)

    def _record(self, source: Source, item: Item, record: Record) -> None:
        if (first := self._inventory.row(record.id)) is not None:
            self._reject(record, self._duplicate(record, source, first))
            return
        try:
            record, chunks = self._parts.chunkers.cut(source, record)
        except (RetrieveError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  a chunker or tokenizer may fail on any text from outside
            self._reject(record, unforeseen(error))
            return
        if not chunks:
            self._reject(record, "it has no text to chunk")
            return
        content = content_digest(record)
        self._inventory.add(record.id, content)
        self.notices.count(record)
        self._places.append(item.source)
        if self._waiting is None:
            self._write(record, chunks, item.digest, content)
        else:
            self._waiting.add(chunks, partial(self._write_with, record, chunks, item.digest, content))

    def _write_with(
        self, record: Record, chunks: Sequence[Chunk], origin: bytes, content: bytes, facets: Sequence[Made]
    ) -> None:
        pairs = zip(chunks, facets, strict=True)
        summarised = [replace(chunk, facets=made) if made else chunk for chunk, made in pairs]
        self._write(record, summarised, origin, content)

    def _write(self, record: Record, chunks: Sequence[Chunk], origin: bytes, content: bytes) -> None:
        """Write a record and its chunks; `origin` and `content` are the SHA-1 of its item and of its content."""
        keys = self._tables.append(record, chunks, origin, content=content)
        for writer in self._parts.writers.values():
            writer.add(record, chunks)
        for key, chunk in zip(keys, chunks, strict=True):
            self.encodings.add(key, chunk.embedded)
            self._characters[record.source] += len(chunk.embedded)

    def _duplicate(self, record: Record, source: Source, first: int) -> str:
        """Return the reason to reject a record whose id the record in row `first` has."""
        if self._waiting is not None:
            self._waiting.release()
        reason = f"duplicate id {quoted(record.id)}, first used by {self._places[first]}:{self._tables.line(first)}"
        other = next(other for row, other in reversed(self._begun) if row <= first)
        if other.name == source.name:
            return reason
        both = f"{reason} of source {quoted(other.name)}; this one is of source {quoted(source.name)}"
        return f"{both}, and an `id_prefix` in config.yaml would tell them apart"

    def _reject(self, record: Record, reason: str) -> None:
        self.rejected.append(Refused(record.source, record.line, reason, record.text[:200]))
