"""Bodies of the type multipart/form-data: files go to temporary files as they arrive, and fields are small."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from retrieve_cli.errors import quoted, unwritable
from retrieve_cli.server.http.requests import RejectedRequest
from retrieve_cli.storage.inbox import Upload

TYPE = "multipart/form-data"
FIELDS = ("id", "metadata")
MOST_FILES = 100
"""Files of one request."""
_FIELD = 1 << 20
"""Bytes of one field, and of all boundaries and headers together."""
_LONGEST_HEADER = 4096
_LONGEST_NAME = 1000


class Form(NamedTuple):
    """The parts of a body."""

    files: list[Upload]
    fields: dict[str, str]


class _Parser(MultiPartParser):
    """Parser that rejects long headers, and knows if the last boundary came."""

    ended = False

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        super().on_header_field(data, start, end)
        self._check_header()

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        super().on_header_value(data, start, end)
        self._check_header()

    def on_end(self) -> None:
        self.ended = True

    def _check_header(self) -> None:
        if len(self._current_partial_header_name) + len(self._current_partial_header_value) > _LONGEST_HEADER:
            raise MultiPartException("a header of a part is too long")


@asynccontextmanager
async def received(request: Request, *, most: int) -> AsyncIterator[Form]:
    """Yield the parts of a request's body; its files are closed afterwards. `most` is the number of bytes of all files
    together.

    Raises:
        RejectedRequest: the body is too large (413), or it is not such a body (400, 422).
        RetrieveError: the files cannot be written.
    """
    parser = _Parser(request.headers, _limited(request, most), max_files=MOST_FILES, max_part_size=_FIELD)
    try:
        parts = await parser.parse()
    except MultiPartException as error:
        raise RejectedRequest(400, f"the body is not {TYPE}: {error.message}", code="usage") from error
    except OSError as error:
        raise unwritable(Path(tempfile.gettempdir()), error) from error
    try:
        if not parser.ended:
            raise RejectedRequest(400, "the body is incomplete: its last boundary is missing", code="usage")
        form = await asyncio.to_thread(_form, parts)
        if sum(upload.size for upload in form.files) > most:
            raise _too_large(most)
        yield form
    finally:
        await parts.close()


async def _limited(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """Yield the body. Raises: RejectedRequest: it is too large."""
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most + _FIELD:
            raise _too_large(most)
        yield piece


def _form(parts: FormData) -> Form:
    """Return the files and fields of a body. Raises: RejectedRequest: a field is unknown, or given twice."""
    form = Form([], {})
    for name, value in parts.multi_items():
        if isinstance(value, UploadFile):
            form.files.append(Upload(value.file, (value.filename or "")[-_LONGEST_NAME:]))
        elif name not in FIELDS or name in form.fields:
            again = "given twice" if name in form.fields else "unknown"
            hint = "files have the name `file`; fields: " + ", ".join(FIELDS)
            raise RejectedRequest(422, f"the field {quoted(name)} is {again}", code="usage", hint=hint)
        else:
            form.fields[name] = value
    return form


def _too_large(most: int) -> RejectedRequest:
    limit = f"{most / 2**20:,.0f} MB"
    hint = "send fewer or smaller files, or raise parsing.max_mb"
    return RejectedRequest(413, f"the files have more than {limit} together", code="too_large", hint=hint)
