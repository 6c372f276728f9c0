"""Search in other shapes: passages for language models, and the chunks of a RAG service."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import dumped, response
from retrieve_cli.server.http.description import operation
from retrieve_cli.server.http.observing import Observed, observed
from retrieve_cli.server.http.requests import read_object
from retrieve_cli.server.http.shapes import passages, rag_flow
from retrieve_cli.server.http.shapes.shape import Read
from retrieve_cli.server.http.state import State

Reader = Callable[[Json, str | None, Settings], Read]
"""Reads a body under the tenant of its credential, and the configuration."""


def router(state: State) -> APIRouter:
    """Return the routes of the shapes."""

    async def retrieve(request: Request) -> Response:
        """Return passages for a language model, and the same as one text with numbered citations."""
        return await _answered(state, request, passages.read)

    async def rag_retrieve(request: Request) -> Response:
        """Return chunks with scores from 0 to 1, in the form of a RAG service."""
        return await _answered(state, request, rag_flow.read)

    routes = APIRouter(tags=["shapes"])
    for path, endpoint, described in (
        ("/retrieve", retrieve, operation("retrieve_passages", "PassagesAnswer", body=passages.SCHEMA, errors=(404,))),
        ("/api/v1/rag/retrieve", rag_retrieve, operation("rag_retrieve", "RagAnswer", body=rag_flow.SCHEMA)),
    ):  # fmt: skip
        routes.add_api_route(path, endpoint, **described)
    return routes


async def _answered(state: State, request: Request, read: Reader) -> Response:
    """Answer a request; it is read, searched and rendered outside the event loop.

    Raises:
        RejectedRequest, RetrieveError: it cannot be answered.
    """
    tenant = state.callers.of(request, "search").tenant
    payload = read_object(await read_body(request, state.limits))
    read_request = read(payload, tenant, state.settings)
    deadline = read_request.asked.choices.get("deadline_ms")
    notes = observed(request)
    return response(await state.pool.run(request, _rendered, state, read_request, notes, deadline_ms=deadline))


def _rendered(state: State, read: Read, notes: Observed) -> bytes:
    (outcome,) = state.live.answer([read.asked])
    if isinstance(outcome, RetrieveError):
        raise outcome
    notes.answers = [outcome]
    return dumped(read.render(outcome))
