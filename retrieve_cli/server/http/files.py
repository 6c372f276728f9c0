"""Files of documents: the originals, `GET /files/{id}`, and pictures of pages, `GET /pictures/{id}?chunk=3&page=12`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from retrieve_cli.api import contents
from retrieve_cli.api.contents import PictureRequest
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.server.http.description import BINARY, operation, parameter
from retrieve_cli.server.http.documents import ID
from retrieve_cli.server.http.state import State
from retrieve_cli.server.page import signing

_NAMES = ("page", "chunk", "generation")
_DIGITS = 7
_PIECE = 1 << 18
"""Bytes of a file that are read at once."""
_HEADERS = {"Cache-Control": "private, no-cache", "Cross-Origin-Resource-Policy": "same-origin"}


def router(state: State) -> APIRouter:
    """Return the routes of original files and of pictures."""

    async def original(request: Request) -> Response:
        """Return the file that was sent as a document."""
        tenant = state.callers.of(request, "search").tenant
        name = request.path_params["id"]
        file, content = await state.pool.run(request, lambda: state.documents.original(name, tenant=tenant))
        etag = f'"{file.sha1}"'
        if request.headers.get("If-None-Match") == etag:
            content.close()
            return Response(status_code=304, headers={"ETag": etag})
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
            "Content-Length": str(file.size),
            "ETag": etag,
        }
        return StreamingResponse(_pieces(content), 200, headers, "application/octet-stream")

    async def picture(request: Request) -> Response:
        """Return a page of a document as PNG, with the words of a chunk marked."""
        request = signing.with_credential(request)  # pages show pictures, and browsers send their cookie
        await state.callers.prepare(request.headers)
        tenant = state.callers.of(request, "search").tenant
        given = request.query_params
        if strange := [key for key in given if key not in _NAMES]:
            raise UsageError(f"unknown parameter {quoted(strange[0])}", hint=f"known: {', '.join(_NAMES)}")
        page, chunk = _number(given.get("page"), "page", 1), _number(given.get("chunk"), "chunk", 0)
        wanted = PictureRequest(request.path_params["id"], chunk, page)
        index = state.live.at(given.get("generation"))
        etag = f'"{await state.pool.run(request, lambda: contents.picture_tag(index, wanted, tenant=tenant))}"'
        headers = {"ETag": etag, **_HEADERS}
        if request.headers.get("If-None-Match") == etag:
            return Response(status_code=304, headers=headers)
        drawn = await state.pool.run(request, lambda: contents.picture(index, wanted, tenant=tenant))
        return Response(drawn, 200, headers, "image/png")

    routes = APIRouter(tags=["documents"])
    described = partial(operation, statuses=(200, 304))
    file = described("get_file", other={"application/octet-stream": BINARY}, parameters=[ID])
    routes.add_api_route("/files/{id:path}", original, **file)
    drawing = described("get_picture", other={"image/png": BINARY}, parameters=[ID, *_PARAMETERS], errors=(409,))
    routes.add_api_route("/pictures/{id:path}", picture, **drawing)
    return routes


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while piece := content.read(_PIECE):
            yield piece


def _number(text: str | None, name: str, lowest: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) >= lowest):
        raise UsageError(f"`{name}` is {quoted(text)}; it takes a whole number from {lowest}", hint=f"{name}={lowest}")
    return int(text)


_PARAMETERS = [
    parameter("page", "query", {"type": "integer", "minimum": 1}, "Page, from 1; by default the first of the chunk."),
    parameter("chunk", "query", {"type": "integer", "minimum": 0}, "Number of the chunk that is marked."),
    parameter("generation", "query", {"type": "string"}, "Generation; by default the current one."),
]
