"""Reader of documents in all formats (`contracts.DocumentReader`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module

from retrieve_cli.contracts import Card, DocumentFile, Parsed, Reading
from retrieve_cli.documents import formats
from retrieve_cli.documents.limits import MB, Limits
from retrieve_cli.errors import BadDocument
from retrieve_cli.untrusted import files


class Reader:
    """Parses documents within limits."""

    def __init__(self, limits: Limits, *, text_bytes: int = 64 * MB) -> None:
        """`text_bytes` is the size of the largest Markdown or text file."""
        self._limits = limits
        self._text_bytes = text_bytes

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
        """Return the parser of a format with its version; empty for Markdown and text."""
        return formats.card(kind, main_content=self._limits.main_content)

    def lacks(self, kind: str) -> str:
        """Return a sentence on missing packages; empty if the format can be read."""
        return formats.lacks(kind)

    def max_bytes(self, kind: str) -> int:
        """Return the size of the largest file of a format that is read."""
        return self._limits.max_bytes if formats.FORMATS[kind].apart else self._text_bytes

    def begin(self, file: DocumentFile, kind: str, *, name: str) -> Reading:
        """Begin to read a file."""
        return _Later(lambda: self._read(file, kind, name))

    def parse(self, content: bytes, kind: str, *, name: str) -> Parsed:
        """Return a document whose bytes are at hand.

        Raises:
            BadDocument: it cannot be read.
        """
        module = import_module(formats.FORMATS[kind].module)
        parsed: Parsed = module.parse(content, name=name, limits=self._limits, on_page=_ignore)
        return parsed

    def _read(self, file: DocumentFile, kind: str, name: str) -> Parsed:
        try:
            content = files.read_bytes(file.path, limit=self.max_bytes(kind))
            sidecar = file.sidecar and files.read_bytes(file.sidecar, limit=self._text_bytes)
        except OSError as error:
            raise BadDocument(f"it cannot be read: {error.strerror}") from error
        if hashlib.sha1(content, usedforsecurity=False).digest() != file.sha1:
            raise BadDocument("it changed while it was read", hint="sync again")
        extra = {} if sidecar is None else {"sidecar": sidecar}
        module = import_module(formats.FORMATS[kind].module)
        parsed: Parsed = module.parse(content, name=name, limits=self._limits, on_page=_ignore, **extra)
        return parsed


class _Later:
    """A document that is read when it is asked for."""

    def __init__(self, read: Callable[[], Parsed]) -> None:
        self._read = read

    def result(self) -> Parsed:
        """Read it. Raises: BadDocument."""
        return self._read()


def _ignore(page: int) -> None:
    """Ignore the number of the page."""
