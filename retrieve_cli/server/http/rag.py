"""Search in the shapes of other programs: passages for language models, and the requests of OpenAI and Dify."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, quoted
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import dumped, failed_response, hint_of, rejection, response
from retrieve_cli.server.http.description import operation, parameter
from retrieve_cli.server.http.observing import Observed, observed
from retrieve_cli.server.http.requests import RejectedRequest, read_object
from retrieve_cli.server.http.shapes import external_knowledge, passages, rag_flow, vector_store
from retrieve_cli.server.http.shapes.shape import Read
from retrieve_cli.server.http.state import State

Reader = Callable[[Json, str | None, Settings], Read]
"""Reads a body under the tenant of its credential, and the configuration."""

DEFAULT = "default"
"""Name of the index of any server, in addition to the name of its folder."""


def router(state: State) -> APIRouter:
    """Return the routes of the shapes."""

    async def retrieve(request: Request) -> Response:
        """Return passages for a language model, and the same as one text with numbered citations."""
        return await _answered(state, request, passages.read)

    async def rag_retrieve(request: Request) -> Response:
        """Return chunks with scores from 0 to 1, in the form of a RAG service."""
        return await _answered(state, request, rag_flow.read)

    async def search_vector_store(request: Request) -> Response:
        """Search as in a vector store of OpenAI."""
        name = request.path_params["name"]
        return await _answered(state, request, vector_store.read, check=lambda _: _expect_index(state, name))

    def expect_knowledge(payload: Json) -> None:
        _expect_index(state, external_knowledge.knowledge_of(payload))

    async def retrieval(request: Request) -> Response:
        """Search as an external knowledge base of Dify."""
        try:
            return await _answered(state, request, external_knowledge.read, check=expect_knowledge)
        except RetrieveError as error:
            return _dify_error(request, rejection(error))
        except RejectedRequest as error:
            return _dify_error(request, error)

    routes = APIRouter(tags=["shapes"])
    store = [parameter("name", "path", {"type": "string"}, f"Name of the folder of the index, or `{DEFAULT}`.")]
    for path, endpoint, described in (
        ("/retrieve", retrieve, operation("retrieve_passages", "PassagesAnswer", body=passages.SCHEMA, errors=(404,))),
        ("/api/v1/rag/retrieve", rag_retrieve, operation("rag_retrieve", "RagAnswer", body=rag_flow.SCHEMA)),
        ("/v1/vector_stores/{name}/search", search_vector_store, operation(
            "search_vector_store", "VectorStorePage", body=vector_store.SCHEMA, parameters=store)),
        ("/retrieval", retrieval, operation("search_knowledge", "KnowledgeAnswer", body=external_knowledge.SCHEMA,
                                            errors=(404,), failure="KnowledgeError")),
    ):  # fmt: skip
        routes.add_api_route(path, endpoint, **described)
    return routes


async def _answered(
    state: State, request: Request, read: Reader, *, check: Callable[[Json], None] = lambda _: None
) -> Response:
    """Answer a request; it is read, searched and rendered outside the event loop.

    Raises:
        RejectedRequest, RetrieveError: it cannot be answered.
    """
    tenant = state.callers.of(request, "search").tenant
    payload = read_object(await read_body(request, state.limits))
    check(payload)
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


def _expect_index(state: State, name: str) -> None:
    """Raises: RejectedRequest if the server has no index of that name."""
    if name not in (state.store.path.resolve().name, DEFAULT):
        said = f"there is no index {quoted(name)}"
        raise RejectedRequest(404, said, code="not_found", hint=f"this one is called {DEFAULT}")


def _dify_error(request: Request, rejected: RejectedRequest) -> Response:
    """Return a failure in the form that Dify documents; an error of the credential is 403 there."""
    unauthorized = rejected.status in (401, 403)
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    malformed = unauthorized and (scheme.lower() != "bearer" or not token.strip())
    message = f"{rejected} ({hint})" if (hint := hint_of(rejected)) else str(rejected)
    error = external_knowledge.error(rejected.status, message, unauthorized=unauthorized, malformed=malformed)
    return failed_response(error, rejected, request.scope, 403 if unauthorized else 0)
