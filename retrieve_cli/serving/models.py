"""The endpoints of the models: embeddings and reranking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Encoder, PairScorer
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.output.prometheus import CONTENT_TYPE
from retrieve_cli.serving.admission import Queue, departure, read_body
from retrieve_cli.serving.answers import failure_handlers, response
from retrieve_cli.serving.callers import Callers
from retrieve_cli.serving.embeddings import Embeddings
from retrieve_cli.serving.guard import Guard
from retrieve_cli.serving.hosts import Hosts
from retrieve_cli.serving.metrics import Metrics
from retrieve_cli.serving.requests import Limits, Work, read_object
from retrieve_cli.serving.rerank import Rerank
from retrieve_cli.serving.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

_PATHS = ("/v1/embeddings", "/v1/rerank", "/rerank", "/v1/models", "/health", "/metrics")
INSTALL = "pip install 'retrieve-cli[serve]'"


def encoder_app(
    encoder: Encoder,
    scorer: PairScorer | None,
    name: str,
    callers: Callers | None = None,
    *,
    query_prefix: str = "",
    passage_prefix: str = "",
    limits: Limits | None = None,
    query_log: Path | None = None,
    hosts: Hosts | None = None,
) -> Service:
    """POST /v1/embeddings, POST /v1/rerank (and /rerank, where TEI has it), GET /v1/models, GET /health, GET /metrics.

    `encoder` adds no prefix to a text: a client that knows the model's prefixes sends them, as with OpenAI's API; one
    that does not sets `input_type: query` or `passage`, which adds the prefix given here. `name` is the model's; a
    request for another one is rejected. All endpoints but /health require a credential if `callers` have some.
    `query_log` is a log of queries that /metrics summarises, once it exists. `hosts` has the names that the server
    accepts; None: any.

    Raises:
        Unavailable: fastapi is not installed.
        UsageError: `encoder` has prefixes of its own.
    """
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise Unavailable("the server needs fastapi, which is not installed", hint=INSTALL) from error
    card = encoder.card
    if card.query_prefix or card.passage_prefix:
        raise UsageError(f"the encoder of {name} adds prefixes, which the server adds itself")
    limits = limits or Limits()
    prefixes = {"query": query_prefix, "passage": passage_prefix}
    embeddings, rerank = Embeddings(encoder, name, prefixes=prefixes, limits=limits), Rerank(scorer, limits)
    names = list(dict.fromkeys([name, *([scorer.name] if scorer else [])]))
    callers = callers or Callers()
    endpoints = _Endpoints(embeddings, rerank, names, callers, limits, query_log=query_log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            endpoints.close()

    routes, handlers = endpoints.routes(), failure_handlers()
    app = FastAPI(title="retrieve", openapi_url=None, routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Service(Guard(app, hosts, callers), endpoints.busy, endpoints.metrics.count)


class _Endpoints:
    """Handlers of the endpoints."""

    def __init__(
        self,
        embeddings: Embeddings,
        rerank: Rerank,
        names: list[str],
        callers: Callers,
        limits: Limits,
        *,
        query_log: Path | None,
    ) -> None:
        self._embeddings = embeddings
        self._rerank = rerank
        self._names = names
        self._callers = callers
        self._limits = limits
        self._queue = Queue(limits)
        self.metrics = Metrics(_PATHS, waiting=lambda: self._queue.waiting, query_log=query_log)

    def close(self) -> None:
        """Drop the jobs that have not begun."""
        self._queue.close()

    def busy(self) -> bool:
        """Return True if something is being computed."""
        return self._queue.busy

    def routes(self) -> list[BaseRoute]:
        from starlette.routing import Route

        return [
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/rerank", self.rerank, methods=["POST"]),
            Route("/rerank", self.rerank, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/metrics", self.scrape, methods=["GET"]),
        ]

    async def embeddings(self, request: Request) -> Response:
        return await self._answer(request, self._embeddings.understand)

    async def rerank(self, request: Request) -> Response:
        return await self._answer(request, self._rerank.understand)

    async def models(self, request: Request) -> Response:
        self._callers.of(request, "search")
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "retrieve"} for name in self._names]
        return response({"object": "list", "data": listed})

    async def health(self, _: Request) -> Response:
        return response({"status": "ok"})

    async def scrape(self, request: Request) -> Response:
        from starlette.responses import Response

        self._callers.of(request, "metrics")
        text = await asyncio.to_thread(self.metrics.exposition, self.metrics.server())
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def _answer(self, request: Request, understand: Callable[[dict[str, Any]], Work]) -> Response:
        self._callers.of(request, "search")
        work = understand(read_object(await read_body(request, self._limits)))
        return response(await self._queue.compute(work, partial(departure, request)))
