"""The metrics of all processes of the server: `GET /metrics`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.errors import RetrieveError
from retrieve_cli.output.prometheus import CONTENT_TYPE
from retrieve_cli.server.http.state import State


def router(state: State) -> APIRouter:
    """Return the route of the metrics."""

    async def scrape(request: Request) -> Response:
        """Return the metrics in Prometheus' text format: of requests, stages, syncs and the index."""
        state.callers.of(request, "metrics")
        return Response(await asyncio.to_thread(_text, state), headers={"Content-Type": CONTENT_TYPE})

    routes = APIRouter(tags=["health"])
    routes.add_api_route("/metrics", scrape, methods=["GET"], response_class=Response)
    return routes


def _text(state: State) -> str:
    with suppress(RetrieveError):  # without an index there is none to describe
        manifest = state.live.index.opened.generation.manifest
        built = None
        with suppress(ValueError):
            built = datetime.fromisoformat(str(manifest.built.get("at"))).timestamp()
        state.metrics.generation(manifest.id, sequence=manifest.sequence, built=built)
    return state.metrics.exposition()
