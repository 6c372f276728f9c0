"""Original files of documents: `GET /files/{id}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from retrieve_cli.serving.state import State

_PIECE = 1 << 18
PARAMETERS: list[dict[str, Any]] = [
    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "description": "Id of the record."}
]


def router(state: State) -> APIRouter:
    """Return the routes of original files."""

    async def original(request: Request) -> Response:
        """Return the file that was sent as a document."""
        tenant = state.callers.of(request, "search").tenant
        file, content = await state.pool.run(
            request, lambda: state.documents.original(request.path_params["id"], tenant=tenant)
        )
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

    routes = APIRouter(tags=["documents"])
    answers: dict[int | str, dict[str, Any]] = {
        200: {"description": "The file.", "content": {"application/octet-stream": {}}},
        304: {"description": "The client has it."},
    }
    return with_file(routes, "/files/{id:path}", original, answers, PARAMETERS)


def with_file(routes: APIRouter, path: str, answer: Any, answers: dict[int | str, Any], parameters: Any) -> APIRouter:
    """Return routes with one whose answer is a file."""
    extra = {"parameters": parameters}
    routes.add_api_route(path, answer, responses=answers, response_class=Response, openapi_extra=extra)
    return routes


def _pieces(content: BinaryIO) -> Iterator[bytes]:
    with content:
        while piece := content.read(_PIECE):
            yield piece
