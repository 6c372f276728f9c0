"""The endpoints of the models: vectors, term weights and token vectors of texts, and reranking.

request -> caller -> body, within the limits -> JSON -> work -> one computation at a time -> answer
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from threading import Lock
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.contracts import Json, PairScorer
from retrieve_cli.errors import UsageError
from retrieve_cli.server.http import requests
from retrieve_cli.server.http.admission import Queue, departure, read_body
from retrieve_cli.server.http.answers import failure_handlers, finite, response
from retrieve_cli.server.http.callers import Callers, Hosts
from retrieve_cli.server.http.description import operation
from retrieve_cli.server.http.embed import Embed, embeddings
from retrieve_cli.server.http.metrics import CONTENT_TYPE, Metrics
from retrieve_cli.server.http.model_parts import POSTS, ModelParts, Post, info, listing
from retrieve_cli.server.http.observing import AccessLog, Observing
from retrieve_cli.server.http.requests import Limits, RejectedRequest, Work
from retrieve_cli.server.http.service import Guard, Service

_SCOPE = "search"
"""Scope of all endpoints of the models."""


class Models:
    """The models that a server has, and the queue before them. They are opened at the first request."""

    def __init__(self, open_parts: Callable[[], ModelParts], limits: Limits | None = None) -> None:
        self._open, self._limits = open_parts, limits or Limits()
        self._queue = Queue(self._limits)
        self._opening = Lock()
        self._works: Mapping[str, Callable[[dict[str, Any]], Work]] = {}
        self._parts: ModelParts | None = None

    @property
    def busy(self) -> bool:
        """True if something is being computed."""
        return self._queue.busy

    def close(self) -> None:
        """Drop the jobs that have not begun."""
        self._queue.close()

    def router(self, callers: Callers, about: Callable[[str | None], Mapping[str, Json]] = lambda _: {}) -> APIRouter:
        """Return the routes for these callers; `about` returns what `/info` has on the index of a tenant."""

        async def list_models(request: Request) -> Response:
            """List the models."""
            callers.of(request, _SCOPE)
            return response(listing(await self._opened()))

        async def describe(request: Request) -> Response:
            """Describe the embedding model, as text-embeddings-inference does, and the index."""
            tenant = callers.of(request, _SCOPE).tenant
            described = await asyncio.to_thread(about, tenant)
            return response({**info(await self._opened(), self._limits), **described})

        routes = APIRouter(tags=["models"])
        for path, post in POSTS.items():
            described = operation(post.name, post.answer, body=post.schema, errors=(404, 424, 501), scope=_SCOPE)
            routes.add_api_route(path, self._handler(post, callers), summary=post.summary, **described)
        routes.add_api_route("/v1/models", list_models, **operation("list_models", "ModelList"))
        routes.add_api_route("/info", describe, **operation("get_model_info", "ModelInfo"))
        return routes

    def _handler(self, post: Post, callers: Callers) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            callers.of(request, _SCOPE)
            payload = requests.read_object(await read_body(request, self._limits))
            await self._opened()
            work = self._works[post.work](payload)
            return response(await self._queue.compute(work, partial(departure, request)))

        return answer

    async def _opened(self) -> ModelParts:
        return await asyncio.to_thread(self._open_once) if self._parts is None else self._parts

    def _open_once(self) -> ModelParts:
        with self._opening:
            if self._parts is not None:
                return self._parts
            parts = self._open()
            embed = Embed(parts, self._limits)
            self._works = {
                "embeddings": partial(embeddings, parts, self._limits),
                "rerank": partial(rerank, parts.scorer, self._limits),
                "embed": embed.understand,
                "sparse": embed.understand_sparse,
            }
            self._parts = parts
            return parts


def models_app(
    parts: ModelParts,
    callers: Callers | None = None,
    *,
    limits: Limits | None = None,
    hosts: Hosts | None = None,
    metrics: Metrics,
    log: AccessLog | None = None,
) -> Service:
    """Return a server of models alone, with /health and /metrics. Raises: UsageError: the encoder adds prefixes."""
    card = parts.encoder.card
    if card.query_prefix or card.passage_prefix:
        raise UsageError(f"the encoder of {parts.name} adds prefixes, which the server adds itself")
    models, callers = Models(lambda: parts, limits), callers or Callers()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            models.close()
            if log is not None:
                log.close()

    async def health() -> Response:
        return response({"status": "ok"})

    async def scrape(request: Request) -> Response:
        callers.of(request, "metrics")
        return Response(await asyncio.to_thread(metrics.exposition), headers={"Content-Type": CONTENT_TYPE})

    app = FastAPI(title="retrieve", openapi_url=None, lifespan=lifespan, exception_handlers=failure_handlers())
    app.include_router(models.router(callers))
    app.add_api_route("/health", health, methods=["GET"])
    app.add_api_route("/metrics", scrape, methods=["GET"])
    guarded = Guard(app, hosts, callers)
    return Service(guarded, lambda: models.busy, lambda answers: Observing(answers, metrics, log=log))


_FIELDS = ("model", "query", "documents", "top_n", "return_documents")
_FIELDS_TEI = ("query", "texts", "raw_scores", "return_text", "truncate")


def rerank(scorer: PairScorer | None, limits: Limits, payload: dict[str, Any]) -> Work:
    """Return the work of a rerank request; one with `texts` is in TEI's form. Raises: RejectedRequest."""
    if scorer is None:
        said = "this server has no reranker: set rerank.backend to cross_encoder and rerank.model, then restart it"
        raise RejectedRequest(501, said, code="no_reranker")
    tei = "texts" in payload
    requests.check_fields(payload, _FIELDS_TEI if tei else _FIELDS)
    # Not 404: a client that tries the other form after a 404 would get scores there, as TEI names no model.
    requests.check_model(payload, dict.fromkeys((scorer.name, scorer.name.rpartition("/")[2])), status=501)
    query = payload.get("query")
    if not isinstance(query, str) or not query.strip():
        raise RejectedRequest(400, "`query` must be a text that is not blank", param="query")
    key = "texts" if tei else "documents"
    given = payload.get(key)
    if isinstance(given, list):
        given = [item.get("text") if isinstance(item, dict) else item for item in given]
    texts = requests.read_texts(given, key, limits, blank=True)
    if requests.flag(payload, "raw_scores", default=True) is False:
        said = "scores are on the model's own scale: omit `raw_scores`, or set it to true"
        raise RejectedRequest(400, said, param="raw_scores")
    requests.flag(payload, "truncate")
    shown = requests.flag(payload, "return_text" if tei else "return_documents")
    top = payload.get("top_n", len(texts))
    if type(top) is not int or top < 1:
        raise RejectedRequest(400, "`top_n` must be a whole number above 0", param="top_n")

    def rows() -> Json:  # best first, in the form of TEI, or in that of Jina and Cohere
        scores, found = finite(scorer.score(query, texts)), []
        for place in sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:top]:
            text: Json = {"text": texts[place]} if shown else {}
            if tei:
                found.append({"index": place, "score": scores[place], **text})
            else:
                document = {"document": text} if shown else {}
                found.append({"index": place, "relevance_score": scores[place], **document})
        return found if tei else {"model": scorer.name, "results": found}

    return rows
