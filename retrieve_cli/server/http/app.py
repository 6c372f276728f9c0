"""The application: one searcher behind all doors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial

from fastapi import APIRouter, FastAPI

from retrieve_cli.server.http import documents, files, health, index, rag, search, web
from retrieve_cli.server.http.answers import failure_handlers
from retrieve_cli.server.http.description import described_api
from retrieve_cli.server.http.observing import Observing
from retrieve_cli.server.http.service import Guard, Service
from retrieve_cli.server.http.state import State
from retrieve_cli.server.mcp import door as mcp
from retrieve_cli.server.page import routes as page
from retrieve_cli.version import __version__

DOORS: tuple[Callable[[State], APIRouter], ...] = (
    search.router,
    rag.router,
    documents.router,
    files.router,
    index.router,
    web.router,
    lambda state: state.models.router(state.callers, partial(index.about, state)),
    health.router,
    mcp.router,
    health.metrics_router,
    page.router,
)
"""The doors: each returns its routes."""


def server_app(state: State) -> Service:
    """Return the server of an index."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        state.start()
        try:
            yield
        finally:
            state.close()

    app = FastAPI(
        title="retrieve",
        version=__version__,
        description="Hybrid search over catalogs and documents.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=page.handlers(failure_handlers()),
    )
    routers = [door(state) for door in DOORS]
    for router in routers:
        app.include_router(router)
    described = cache(partial(described_api, app))
    app.openapi = lambda: described(secured=state.callers.required)  # type: ignore[method-assign]
    guarded = Guard(app, state.hosts, state.callers)
    paths = {str(getattr(route, "path", "")) for router in routers for route in router.routes}
    return Service(
        guarded, lambda: state.busy, lambda answers: Observing(answers, state.metrics, log=state.access_log), paths
    )
