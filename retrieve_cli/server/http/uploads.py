"""Bodies of the type multipart/form-data: files are written to the disk as they arrive, and fields are small."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from retrieve_cli.errors import quoted, unwritable
from retrieve_cli.server.http.requests import RejectedRequest
from retrieve_cli.storage.inbox_files import Upload

if TYPE_CHECKING:
    from starlette.requests import Request

TYPE = "multipart/form-data"
FIELDS = ("id", "metadata")
MOST_FILES = 100
"""Files of one request."""
_FIELD = 1 << 20
"""Bytes of one field, and of all boundaries and headers together."""
_LONGEST_HEADER = 4096
_LONGEST_NAME = 1000


class Form:
    """The parts of a body, read piece by piece."""

    def __init__(self, inbox: Path, boundary: bytes, most: int) -> None:
        """`most` is the number of bytes of all files together."""
        from python_multipart.multipart import MultipartParser

        self.files: list[Upload] = []
        self.fields: dict[str, bytes] = {}
        self._inbox, self._most = inbox, most
        self._received = self._size = 0
        self._field, self._header, self._disposition = "", [b"", b""], b""
        self._upload: Upload | None = None
        self._ended = False
        callbacks: dict[str, Callable[..., None]] = {
            "on_part_begin": self._begin,
            "on_header_field": partial(self._read_header, 0),
            "on_header_value": partial(self._read_header, 1),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_data,
            "on_part_data": self._add,
            "on_end": self._end,
        }
        self._parser = MultipartParser(boundary, callbacks)  # type: ignore[arg-type]
        self._writing = Lock()

    def write(self, piece: bytes) -> None:
        """Read a piece of the body.

        Raises:
            RejectedRequest: it is not of the type, too large, or has other parts.
            RetrieveError: the disk is full, or the folder cannot be written.
        """
        from python_multipart.exceptions import FormParserError

        self._received += len(piece)
        if self._received > self._most + _FIELD:
            raise _too_large(self._most)
        try:
            with self._writing:
                self._parser.write(piece)
        except FormParserError as error:
            raise RejectedRequest(400, f"the body is not {TYPE}: {error}", code="usage") from error
        except OSError as error:
            raise unwritable(self._inbox, error) from error

    def finish(self) -> None:
        """Wait until all files are on the disk. Raises: RejectedRequest if the body is incomplete, RetrieveError."""
        if not self._ended:
            raise RejectedRequest(400, "the body is incomplete: its last boundary is missing", code="usage")
        try:
            for upload in self.files:
                upload.settle()
        except OSError as error:
            raise unwritable(self._inbox, error) from error

    def close(self) -> None:
        """Remove the files that were not kept, once nothing is written to them any more."""
        with self._writing:
            for upload in self.files:
                upload.close()

    def _begin(self) -> None:
        self._upload, self._field, self._header, self._disposition = None, "", [b"", b""], b""

    def _read_header(self, side: int, data: bytes, start: int, end: int) -> None:
        """Add to the name (0) or the value (1) of a header."""
        self._header[side] += data[start:end]
        if sum(map(len, self._header)) > _LONGEST_HEADER:
            raise RejectedRequest(400, "a header of a part is too long", code="usage")

    def _end_header(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = [b"", b""]

    def _begin_data(self) -> None:
        from python_multipart.multipart import parse_options_header

        _, options = parse_options_header(self._disposition)
        name = _text(options.get(b"name", b""))
        if b"filename" in options:
            if len(self.files) >= MOST_FILES:
                raise RejectedRequest(413, f"the body has more than {MOST_FILES} files", code="too_large")
            self._upload = Upload(self._inbox, _text(options[b"filename"])[-_LONGEST_NAME:])
            self.files.append(self._upload)
            return
        if name not in FIELDS or name in self.fields:
            again = "given twice" if name in self.fields else "unknown"
            hint = "files have the name `file`; fields: " + ", ".join(FIELDS)
            raise RejectedRequest(422, f"the field {quoted(name)} is {again}", code="usage", hint=hint)
        self._field = name
        self.fields[name] = b""

    def _add(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._upload is not None:
            self._size += len(piece)
            if self._size > self._most:
                raise _too_large(self._most)
            self._upload.write(piece)
        else:
            self.fields[self._field] += piece
            if len(self.fields[self._field]) > _FIELD:
                raise RejectedRequest(413, f"the field `{self._field}` has more than {_FIELD} bytes", code="too_large")

    def _end(self) -> None:
        self._ended = True


@asynccontextmanager
async def received(request: Request, inbox: Path, *, most: int) -> AsyncIterator[Form]:
    """Yield the parts of a request's body, whose files are on the disk; afterwards, those that were not kept are
    removed. `most` is the number of bytes of all files together.

    Raises:
        RejectedRequest: the body is too large (413), or it is not such a body (400, 422).
        RetrieveError: the files cannot be written.
    """
    from python_multipart.multipart import parse_options_header

    boundary = parse_options_header(request.headers.get("Content-Type", ""))[1].get(b"boundary", b"")
    if not 0 < len(boundary) <= 200:
        said, hint = f"Content-Type: {TYPE} has no boundary", "let the library of HTTP set this header"
        raise RejectedRequest(400, said, code="usage", hint=hint)
    form = Form(inbox, boundary, most)
    length = request.headers.get("Content-Length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > most + _FIELD:
        raise _too_large(most)
    try:
        async for piece in request.stream():
            await asyncio.to_thread(form.write, piece)
        await asyncio.to_thread(form.finish)
        yield form
    finally:
        await asyncio.to_thread(form.close)


def _too_large(most: int) -> RejectedRequest:
    limit = f"{most / 2**20:,.0f} MB"
    hint = "send fewer or smaller files, or raise parsing.max_mb"
    return RejectedRequest(413, f"the files have more than {limit} together", code="too_large", hint=hint)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
