"""The way in: sources -> Record -> chunking -> Chunk -> encoder and indexes -> store. Reads top to bottom.

One record is in memory at a time; texts wait for the encoder in batches, vectors go to a file as they come. Nothing
is published before everything is written, and nothing at all where too much of a source was refused.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from retrieve_cli import __version__
from retrieve_cli.assemble import Parts
from retrieve_cli.contracts import Encoder, Json, Record, Refused, Source
from retrieve_cli.errors import UsageError
from retrieve_cli.generation import BM25, DENSE, GenerationWriter
from retrieve_cli.manifest import SourceEntry
from retrieve_cli.store import Store

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

BATCH = 2048
"""Chunks that wait for the encoder: enough to sort by length, few enough to keep memory flat."""


Status = Literal["published", "unchanged", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a build did."""

    status: Status
    generation: str | None
    """The generation that is live now."""
    records: int
    chunks: int
    refused: list[Refused]
    seconds: float

    def to_json(self) -> dict[str, Json]:
        return {
            "status": self.status,
            "generation": self.generation,
            "records": self.records,
            "chunks": self.chunks,
            "quarantined": len(self.refused),
            "seconds": self.seconds,
        }

    def sentence(self) -> str:
        """The same for people."""
        size = f"{self.records} records, {self.chunks} chunks, {self.seconds:.1f} s"
        if self.status == "failed":
            still = f"generation {self.generation} stays live" if self.generation else "there is no index yet"
            return f"nothing published, too much was refused (--max-fail allows more): {still} ({size})"
        what = {"published": "is live", "partial": "is live, in part", "unchanged": "was live already"}[self.status]
        return f"generation {self.generation} {what}: {size}"


class Progress(Protocol):
    """Where a build tells how far it is."""

    def step(self, records: int, chunks: int) -> None:
        """So many records were read and so many chunks encoded."""

    def say(self, sentence: str) -> None:
        """Something the user should know."""


def build(source: Source, parts: Parts, store: Store, *, max_fail: float, progress: Progress) -> Report:
    """Builds a generation from `source` and makes it live.

    Raises:
        UsageError: the source has no record at all.
        Locked, Unavailable, RetrieveError: from the store and the encoder.
    """
    begun = time.monotonic()
    with store.writer(), store.scratch() as scratch, closing(_Intake(scratch, parts, progress)) as intake:
        intake.take(source)
        records, refused = intake.records, len(intake.refused)
        if not records and not refused:
            raise UsageError(f"{source.location} has no records", hint="nothing was built; name a source that has some")
        store.write_quarantine(intake.refused)
        status: Status = "failed"
        generation = store.live()
        if refused <= max_fail * (records + refused):
            rows = intake.write()
            entry = SourceEntry(source.kind, source.name, intake.digest, records, refused)
            built = {"version": __version__, "sources": [{"kind": source.kind, "location": source.location}]}
            published = store.publish(scratch, recipe=parts.recipe, sources=[entry], rows=rows, built=built)
            status = "partial" if refused else "unchanged" if published == generation else "published"
            generation = published
    seconds = round(time.monotonic() - begun, 3)
    return Report(status, generation, records, intake.chunks, intake.refused, seconds)


class _Intake:
    """Takes records in, one at a time, and leaves the artifacts of a generation in the scratch folder."""

    def __init__(self, scratch: Path, parts: Parts, progress: Progress) -> None:
        self._scratch = scratch
        self._parts = parts
        self._progress = progress
        self._tables = GenerationWriter(scratch)
        self._vectors = VectorFile(scratch / ".vectors", parts.encoder)
        self._seen: dict[str, str] = {}
        self.refused: list[Refused] = []
        self.chunks = 0

    @property
    def records(self) -> int:
        return len(self._seen)

    @property
    def digest(self) -> str:
        return self._tables.digest

    def take(self, source: Source) -> None:
        """Reads the source to its end."""
        for item in source.read():
            if isinstance(item, Record):
                self._record(item)
            elif isinstance(item, Refused):
                self.refused.append(item)
            else:
                self._progress.say(f"{item.source}: {item.message}")
            self._progress.step(self.records, self._vectors.encoded)
        self._vectors.flush()
        self._progress.step(self.records, self._vectors.encoded)
        if truncated := self._parts.encoder.truncated:
            self._progress.say(f"{truncated} chunks were longer than the encoder reads and lost their end")

    def write(self) -> dict[str, int]:
        """Writes the indexes and offsets; returns the rows of each file."""
        rows = self._tables.finish()
        rows[DENSE] = self._parts.write_dense(self._vectors.read(), self._scratch / DENSE)
        rows[BM25] = self._parts.text_index.write(self._scratch / BM25)
        self._vectors.remove()
        return rows

    def close(self) -> None:
        """Closes the files, finished or not."""
        self._tables.close()
        self._vectors.close()

    def _record(self, record: Record) -> None:
        if (first := self._seen.get(record.id)) is not None:
            self._refuse(record, f"its id {record.id!r} is taken by {first}")
            return
        chunks = list(self._parts.chunker_for(record).chunk(record))
        if not chunks:
            self._refuse(record, "it has no text to chunk")
            return
        self._seen[record.id] = f"{record.source}:{record.line}"
        self._tables.append(record, chunks)
        for fields in self._parts.text_rows(record, chunks):
            self._parts.text_index.add(fields)
        for chunk in chunks:
            self._vectors.add(chunk.embedded)
        self.chunks += len(chunks)

    def _refuse(self, record: Record, reason: str) -> None:
        self.refused.append(Refused(record.source, record.line, reason, record.text[:200]))


class VectorFile:
    """Texts to vectors in a file: encoded in batches, appended as they come, mapped at the end."""

    def __init__(self, path: Path, encoder: Encoder) -> None:
        self._path = path
        self._encoder = encoder
        self._file = path.open("wb")
        self._waiting: list[str] = []
        self.encoded = 0

    def add(self, text: str) -> None:
        self._waiting.append(text)
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Encodes what waits."""
        if self._waiting:
            vectors = self._encoder.encode_passages(self._waiting)
            self._file.write(vectors.astype("<f4").tobytes())
            self.encoded += len(self._waiting)
            self._waiting = []

    def close(self) -> None:
        self._file.close()

    def read(self) -> Vectors:
        """All vectors, (n, dim) float32, mapped; none can be added any more."""
        import numpy as np

        self.close()
        shape = (self.encoded, self._encoder.card.dim)
        return np.memmap(self._path, np.float32, "r", shape=shape) if self.encoded else np.empty(shape, np.float32)

    def remove(self) -> None:
        self._path.unlink()
