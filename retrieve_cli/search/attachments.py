"""Documents that a query is about: their title and abstract are searched along with its words."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble.documents import shared_reader
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import HEAD, DocumentFile, DocumentReader, FileHead, KnownFile
from retrieve_cli.errors import BadDocument, printable, shortened
from retrieve_cli.retrieval.queries.abstracts import summary_of
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.retrieval.queries.formats.read import FileTokens

_DATA = frozenset({"json"})
"""Formats that hold data rather than prose."""
_TEXTS = frozenset({"markdown", "text", "rst"})
"""Formats that may be cut anywhere."""
_SHOWN = 80
"""Characters of a text that a sentence quotes."""


class _Added(NamedTuple):
    """The part of a query that a document adds."""

    text: str = ""
    """Title and abstract; empty if it is not a document, or has neither."""
    sentences: tuple[str, ...] = ()
    """Sentences for the user: the additions, or why nothing was added."""


def known_file(name: str, settings: Settings | None = None) -> KnownFile:
    """Return the facts from a file or folder of a query; no content is an error.

    Raises:
        UsageError: nothing is there, or it cannot be opened.
    """
    from retrieve_cli.retrieval.queries.formats.content import expect_file
    from retrieve_cli.retrieval.queries.formats.read import read_file

    expect_file(name)
    return _known(name, read_file(Path(name)), _of_file(Path(name), shared_reader(settings or Settings())))


def known_head(head: FileHead, settings: Settings | None = None) -> KnownFile:
    """Return the facts from the first bytes of a file of a query; no content is an error."""
    from retrieve_cli.retrieval.queries.formats.read import read_head

    return _known(head.name, read_head(head.name, head.data), _of_head(head, shared_reader(settings or Settings())))


def _known(name: str, header: FileTokens, added: _Added) -> KnownFile:
    return KnownFile(name, header.tokens, (*header.warnings, *header.remarks, *added.sentences), added.text)


def _of_file(path: Path, reader: DocumentReader) -> _Added:
    """Return what a file adds; nothing if it is a folder or not a document."""
    try:
        if not path.is_file():
            return _Added()
        with files.open_regular(path) as file:
            head = file.read(HEAD)
        kind = _kind(path.name, head, reader)
        if kind is None:
            return _Added()
        sha1 = files.sha1_of(path, limit=reader.max_bytes(kind))
    except (OSError, ValueError) as error:
        return _unread(str(path), getattr(error, "strerror", None) or "no file can have this name")
    return _read(str(path), DocumentFile(path, sha1), kind, reader)


def _of_head(head: FileHead, reader: DocumentReader) -> _Added:
    """Return what the first bytes of a file add, which may be all of it."""
    kind = _kind(head.name, head.data[:HEAD], reader)
    if kind is None:
        return _Added()
    data = _whole_characters(head.data) if kind in _TEXTS else head.data
    try:
        with NamedTemporaryFile(prefix="retrieve-") as file:  # a parser opens its file itself
            file.write(data)
            file.flush()
            sha1 = hashlib.sha1(data, usedforsecurity=False).digest()
            added = _read(head.name, DocumentFile(Path(file.name), sha1), kind, reader)
    except OSError as error:
        return _unread(head.name, f"it cannot be kept for its parser: {error.strerror}")
    if not added.text and kind not in _TEXTS:
        whole = f"{_shown(head.name)} can only be read as a whole: send all of it, or add its title to the query"
        return added._replace(sentences=(*added.sentences, whole))
    return added


def _kind(name: str, head: bytes, reader: DocumentReader) -> str | None:
    """Return the format of a document; None for data, which has no abstract, and for files of other kinds."""
    kind = reader.format_of(name, head) if head.strip() else None
    return None if kind in _DATA else kind


def _read(name: str, file: DocumentFile, kind: str, reader: DocumentReader) -> _Added:
    if lacking := reader.lacks(kind):
        return _unread(name, lacking)
    try:
        parsed = reader.begin(file, kind, name=name).result()
    except BadDocument as error:
        return _unread(name, f"{error.message} ({error.hint})" if error.hint else error.message)
    summary = summary_of(parsed)
    parts = " and ".join(filter(None, (summary.title and "title", summary.kind)))
    if not parts:
        return _unread(name, "it has neither a title nor an abstract")
    quote = printable(shortened(summary.text, _SHOWN))
    return _Added(summary.text, (f'added the {parts} of {_shown(name)}: "{quote}"',))


def _whole_characters(data: bytes) -> bytes:
    """Return a UTF-8 text without its last character if that is incomplete."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data[: error.start] if error.reason == "unexpected end of data" else data
    return data


def _unread(name: str, reason: str) -> _Added:
    return _Added("", (f"no text of {_shown(name)} was added: {printable(reason)}",))


def _shown(name: str) -> str:
    return printable(name.encode("utf-8", "replace").decode())
