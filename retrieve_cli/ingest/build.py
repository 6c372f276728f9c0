"""The way in: sources -> Item -> Record -> chunking -> Chunk -> vectors and indexes -> store. Reads top to bottom.

`build` reads everything anew; `sync` (sync.py) hands in the live generation, whose rows are taken over where the item
they were read from is the same. Both end in the same bytes. One record is in memory at a time; texts wait for the
encoder in batches, vectors go to the cache as they come. Nothing is published before everything is written, and
nothing at all where too much of a source was refused.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli import __version__
from retrieve_cli.assemble import splade
from retrieve_cli.assemble.parts import Parts
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Item, Json, Record, Refused, Source
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.ingest.embedding import (
    TERM_LAYOUT,
    Embedding,
    Encoding,
    TermEncoding,
    VectorEncoding,
    WrittenPassages,
)
from retrieve_cli.ingest.generation_writer import GenerationWriter, written_columns
from retrieve_cli.ingest.report import Limits, Progress, Report, Status
from retrieve_cli.ingest.scanned import pieces_of, unforeseen
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage import token_table
from retrieve_cli.storage.content_cache import ContentCache
from retrieve_cli.storage.generation import GRAPH, TOKENS, open_generation
from retrieve_cli.storage.manifest import Manifest, SourceEntry, trace
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.vector_cache import VectorCache

if TYPE_CHECKING:
    from retrieve_cli.ingest.reuse import Reuse


def build(sources: Sequence[Source], parts: Parts, store: Store, *, limits: Limits, progress: Progress) -> Report:
    """Builds a generation from everything that the sources have and makes it live.

    Raises:
        UsageError: the sources have no record at all.
        SourceFailed, Locked, Unavailable, RetrieveError: from the sources, the store and the encoder.
    """
    with store.writer(wait=limits.wait, say=progress.say):
        for source in sources:
            source.fetch()
        return apply(sources, parts, store, limits=limits, progress=progress, before=contents_before(store))


def contents_before(store: Store) -> dict[str, bytes]:
    """SHA-1 of the content of every live record by its id; nothing where there is no index that can be read."""
    try:
        with open_generation(store) as generation:
            return generation.contents_by_id()
    except RetrieveError:
        return {}


def apply(
    sources: Sequence[Source],
    parts: Parts,
    store: Store,
    *,
    limits: Limits,
    progress: Progress,
    before: Mapping[str, bytes],
    last: Manifest | None = None,
    reuse: Reuse | None = None,
) -> Report:
    """Writes a generation and makes it live; takes rows from `reuse` where they are still right.

    `before` has the SHA-1 of the content of each live record; sources are held to what they had in `last`.
    The lock must be held. Raises as `build` does.
    """
    begun = time.monotonic()
    with store.scratch() as scratch, closing(Intake(scratch, parts, store.cache, progress, reuse=reuse)) as intake:
        intake.take_all(sources)
        if last:
            limits.check_loss(last, {entry.name: entry.records for entry in intake.entries})
        records, refused, live = intake.records, intake.refused, store.live()
        store.write_quarantine(refused)
        changes = Changes.between(before, intake.contents())
        status: Status = "failed"
        if limits.tolerates(len(refused), records):
            manifest = store.seal(scratch, recipe=parts.recipe, sources=intake.entries, rows=intake.write())
            built = {"version": __version__, "sources": intake.origins, "changes": changes.counts}
            published = store.publish(scratch, manifest, built)
            status = "partial" if refused else "unchanged" if published == live else "published"
            live = published
            tidy(store, limits.keep, progress)
    return Report(
        status=status,
        generation=live,
        records=records,
        chunks=intake.chunks,
        embedded=intake.embedded,
        changes=changes,
        quarantined=len(refused),
        refused=refused,
        seconds=round(time.monotonic() - begun, 3),
    )


def _vectors(parts: Parts, cache: Path, say: Callable[[str], None]) -> VectorEncoding | None:
    if parts.encoder is None:
        return None
    card = parts.encoder.card
    tokens = TokenCache(cache, card, say=say) if parts.keeps_tokens else None
    return VectorEncoding(parts.encoder, VectorCache(cache, card, say=say), tokens)


def _terms(parts: Parts, cache: Path, say: Callable[[str], None]) -> TermEncoding | None:
    if parts.sparse is None:
        return None
    ((name, card),) = splade.term_cards(parts.recipe).items()
    return TermEncoding(parts.sparse, name, card, ContentCache(cache, card, TERM_LAYOUT, say=say))


class Intake:
    """Takes items in, one at a time, and leaves the artifacts of a generation in the scratch folder."""

    def __init__(
        self, scratch: Path, parts: Parts, cache: Path, progress: Progress, *, reuse: Reuse | None = None
    ) -> None:
        self._scratch = scratch
        self._parts = parts
        self._reuse = reuse
        self._progress = progress
        for sentence in parts.skipped:
            progress.say(sentence)
        self._vectors = _vectors(parts, cache, progress.say)
        self._terms = _terms(parts, cache, progress.say)
        encodings: list[Encoding] = [each for each in (self._vectors, self._terms) if each is not None]
        self._tables = GenerationWriter(scratch)
        self._seen: dict[str, str] = {}
        self._embedding = Embedding(encodings)
        self.refused: list[Refused] = []
        self.entries: list[SourceEntry] = []
        self.origins: list[dict[str, Json]] = []
        if reuse:
            reuse.begin(parts.writers, encodings)

    @property
    def records(self) -> int:
        return len(self._tables)

    @property
    def chunks(self) -> int:
        return len(self._tables.texts)

    @property
    def embedded(self) -> int:
        """Texts that went through the encoder."""
        return self._vectors.done if self._vectors else 0

    def contents(self) -> dict[str, bytes]:
        """SHA-1 of the content of every record by its id."""
        return self._tables.contents()

    def take_all(self, sources: Sequence[Source]) -> None:
        """Reads all sources to their end; every text is then encoded.

        Raises:
            UsageError: there is nothing in them.
        """
        for source in sources:
            self._take(source)
        self._embedding.flush()
        if not self.records and not self.refused:
            names = ", ".join(str(source.origin.get("path", source.name)) for source in sources)
            raise UsageError(f"{names} has no records", hint="nothing was built; name a source that has some")

    def _take(self, source: Source) -> None:
        first, refused = self.records, len(self.refused)
        stamp = source.stamp()
        read = hashlib.sha1(usedforsecurity=False)
        for item in source.scan():
            read.update(trace(item))
            if isinstance(item, Item):
                self._item(source, item)
            elif isinstance(item, Refused):
                self.refused.append(item)
            else:
                self._progress.say(f"{item.source}: {item.message}")
            self._progress.step(self.records, self.embedded)
        counts = (self.records - first, len(self.refused) - refused)
        self.entries.append(SourceEntry(str(source.origin["kind"]), source.name, self._tables.digest(first), *counts))
        self.origins.append({"origin": dict(source.origin), "digest": read.hexdigest(), "stamp": stamp})

    def write(self) -> dict[str, int]:
        """Write the indexes and offsets; return the rows of each file."""
        self._warn()
        rows = self._tables.finish()
        texts = self._tables.texts
        passages = WrittenPassages(texts, self._vectors, self._terms.weights if self._terms else None)
        for name, writer in self._parts.writers.items():
            file = retriever(name).file
            rows[file] = writer.write(self._scratch / file, passages)
        if self._vectors is not None and self._vectors.tokens is not None:
            dim = self._vectors.encoder.card.dim
            rows[TOKENS] = token_table.write(self._vectors.stretches(texts), self._scratch / TOKENS, dim=dim)
        if (edges := self._parts.write_graph(written_columns(self._scratch), self._scratch / GRAPH)) is not None:
            rows[GRAPH], dangling = edges
            if dangling:
                self._progress.say(f"{dangling} names of related records lead nowhere: retrieve inspect graph")
        return rows

    def _warn(self) -> None:
        """Say what the encoders lost, and what was damaged."""
        if self._vectors is not None and (truncated := self._vectors.encoder.truncated):
            self._progress.say(f"{truncated} chunks were longer than the encoder reads and lost their end")
        if self._terms is not None:
            self._progress.say(self._terms.summary(len(set(self._tables.texts))))

    def close(self) -> None:
        """Closes the files, finished or not."""
        self._tables.close()

    def _item(self, source: Source, item: Item) -> None:
        row = self._reuse.row(source, item) if self._reuse else None
        if self._reuse and row is not None and (name := self._reuse.name(row)) not in self._seen:
            self._seen[name] = f"{item.source}:{item.line}"
            self._tables.keep(self._reuse.generation, row, line=item.line)
            self._reuse.keep(row, self._parts.writers, self._embedding.add)
            return
        for piece in pieces_of(item):
            if isinstance(piece, Record):
                self._record(source, item, piece)
            elif isinstance(piece, Refused):
                self.refused.append(piece)
            else:
                self._progress.say(f"{piece.source}: {piece.message}")

    def _record(self, source: Source, item: Item, record: Record) -> None:
        if (first := self._seen.get(record.id)) is not None:
            self._refuse(record, f"its id {quoted(record.id)} is taken by {first}")
            return
        try:
            chunks = list(self._parts.chunkers[source.kind].chunk(record))
        except (RetrieveError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  whatever a chunker or a tokenizer meets in a text from outside
            self._refuse(record, unforeseen(error))
            return
        if not chunks:
            self._refuse(record, "it has no text to chunk")
            return
        self._seen[record.id] = f"{item.source}:{item.line}"
        keys = self._tables.append(record, chunks, item.digest)
        for writer in self._parts.writers.values():
            writer.add(record, chunks)
        for key, chunk in zip(keys, chunks, strict=True):
            self._embedding.add(key, chunk.embedded)

    def _refuse(self, record: Record, reason: str) -> None:
        self.refused.append(Refused(record.source, record.line, reason, record.text[:200]))
