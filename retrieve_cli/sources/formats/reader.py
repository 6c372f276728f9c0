"""Reader of documents in all formats (`contracts.DocumentReader`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple

from retrieve_cli.contracts import Card, DocumentFile, Parsed, Reading
from retrieve_cli.contracts.layout import Mark
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats import formats
from retrieve_cli.sources.formats.formats import MB, ParsingLimits
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.sources.formats.processes.pool import ParserPool
from retrieve_cli.untrusted import files

_OF_CPU, _LEAST_CPU_S = 0.25, 2.0
"""Share of the CPU seconds of a file that a picture of some of its pages may take, and seconds that it may always take
if the file may: a process needs some to start."""
_MOST_MARKS = 50_000
"""Marks of a picture; a page that is full of words in the smallest print has a tenth of it."""


class _Here(NamedTuple):
    """A document that is read in this process when it is asked for."""

    result: Callable[[], Parsed]


class SandboxedReader:
    """Parses and draws documents within limits, all but text and Markdown in separate processes."""

    def __init__(self, limits: ParsingLimits, *, text_bytes: int = 64 * MB, workers: int | None = None) -> None:
        """`text_bytes` is the size of the largest Markdown or text file; `workers` is the number of processes, by
        default one for each core."""
        self._limits = limits
        self._text_bytes = text_bytes
        self._pool = ParserPool(limits.memory_bytes, workers=workers)

    @property
    def suffixes(self) -> Sequence[str]:
        """Suffixes of the names of documents, sorted."""
        return formats.suffixes()

    @property
    def formats(self) -> Sequence[str]:
        """Names of the formats."""
        return list(formats.FORMATS)

    def format_of(self, name: str, head: bytes) -> str | None:
        """Return the format of a file; see `formats.format_of`."""
        return formats.format_of(name, head)

    def card(self, kind: str) -> Card:
        """Return the parser of a format with its version."""
        return formats.card(kind, main_content=self._limits.main_content)

    def lacks(self, kind: str) -> str:
        """Return a sentence on missing packages; empty if the format can be read."""
        return formats.lacks(kind)

    def max_bytes(self, kind: str) -> int:
        """Return the size of the largest file of a format that is read."""
        return self._limits.max_bytes if formats.FORMATS[kind].apart else self._text_bytes

    def begin(self, file: DocumentFile, kind: str, *, name: str) -> Reading:
        """Begin to read a file in a separate process, in its turn; Markdown and text are read here, when they are
        asked for. The bytes are parsed only if they have the SHA-1 of the file.
        """
        if not formats.FORMATS[kind].apart:
            return _Here(partial(self._read, file, kind, name))
        module, limit = formats.FORMATS[kind].module, self.max_bytes(kind)
        request = ParseRequest(module, file.path, file.sha1, name, self._limits, limit, file.sidecar, self._text_bytes)
        return self._pool.begin(request)

    def draw(self, file: DocumentFile, kind: str, *, pages: Sequence[int], marks: Sequence[Mark] = ()) -> bytes:
        """Return a PNG of pages of a file, drawn in a separate process, which reads it as in `begin`.

        Raises:
            BadDocument: it cannot be drawn, a page does not exist, or its content has changed.
            Unavailable: a package is missing, or pages of this format cannot be drawn.
        """
        drawn = frozenset(pages)
        shown = tuple(mark for mark in marks if mark.box.page in drawn)
        if len(shown) > _MOST_MARKS:
            raise BadDocument(f"it has {len(shown):,} boxes to mark; the limit is {_MOST_MARKS:,}")
        module, limit = formats.drawer_of(kind), self.max_bytes(kind)
        whole = self._limits.cpu_s
        limits = self._limits._replace(cpu_s=min(whole, max(_LEAST_CPU_S, _OF_CPU * whole)))
        request = ParseRequest(module, file.path, file.sha1, file.path.name, limits, limit)
        return bytes(self._pool.begin(request._replace(pages=tuple(pages), marks=shown)).result())

    def close(self) -> None:
        """End the processes at once; without it, they end when they have been idle, or with this process."""
        self._pool.close()

    def _read(self, file: DocumentFile, kind: str, name: str) -> Parsed:
        """Return a document read in this process. Raises: BadDocument."""
        try:
            content = files.read_bytes(file.path, limit=self.max_bytes(kind))
        except OSError as error:
            raise BadDocument(f"it cannot be read: {error.strerror or error}") from error
        if hashlib.sha1(content, usedforsecurity=False).digest() != file.sha1:
            raise BadDocument("it changed while it was read", hint="sync again")
        return self.parse(content, kind, name=name)

    def parse(self, content: bytes, kind: str, *, name: str) -> Parsed:
        """Return a document whose bytes are at hand.

        Raises:
            BadDocument: it cannot be read.
        """
        module = import_module(formats.FORMATS[kind].module)
        content = formats.ungzipped(content, name, self._limits, most=self.max_bytes(kind))
        parsed: Parsed = module.parse(content, name=name, limits=self._limits, on_page=lambda _: None)
        return parsed
