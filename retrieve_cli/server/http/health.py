"""`/health` reports that the process answers, `/readyz` if searches do, `/metrics` the metrics of all processes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError
from retrieve_cli.server.http.answers import response
from retrieve_cli.server.http.description import TEXT, operation
from retrieve_cli.server.http.metrics import CONTENT_TYPE
from retrieve_cli.server.http.state import State

_EVERY_S = 5.0
"""Seconds for which the checks of models and sources hold."""


def router(state: State) -> APIRouter:
    """Return the routes of the health checks."""
    readiness = Readiness(state)

    async def health() -> Response:
        """Report that the process answers, and without an index, the state of the first build."""
        if state.live.opened:
            return response({"status": "ok"})
        build = await asyncio.to_thread(state.syncing.state)
        # Where clients need a key, without words and numbers on records.
        public = ("status", "started", "hint") if state.callers.required else tuple(build)
        return response({key: value for key, value in build.items() if key in public})

    async def readyz() -> Response:
        """Report if searches are answered, with the state of the index, its models and its sources."""
        report = await asyncio.to_thread(readiness.report)
        return response(report, 200 if report["ready"] else 503)

    routes = APIRouter(tags=["health"])
    ready = operation("get_readiness", "ReadyState", statuses=(200, 503), scope="")
    routes.add_api_route("/health", health, **operation("get_health", "HealthState", scope=""))
    routes.add_api_route("/readyz", readyz, **ready)
    return routes


class Readiness:
    """Checks of the parts of a server."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._checked = -_EVERY_S
        self._checks: dict[str, Json] = {}

    def report(self) -> dict[str, Json]:
        """Return the generation that answers, and the checks; `ready` is false if searches cannot be answered."""
        live = self._state.live
        try:
            manifest = live.index.opened.generation.manifest
        except RetrieveError as error:
            return {"ready": False, "generation": None, "checks": {"index": _fault(error)}}
        index = {"status": "ok"} if live.fault is None else {**_fault(live.fault), "answering": manifest.id}
        if time.monotonic() - self._checked >= _EVERY_S:
            from retrieve_cli.operations.doctor.checks import examine

            state, names = self._state, ("model", "servers", "sources")
            with_words = not state.callers.required  # their words name paths and servers
            self._checks = {
                finding.name: {
                    "status": finding.status,
                    **({"message": finding.message, "hint": finding.fix} if with_words else {}),
                }
                for finding in examine(state.store.path, None, settings=state.settings, names=names)
            }
            self._checked = time.monotonic()
        return {
            "ready": True,
            "generation": manifest.id,
            "sequence": manifest.sequence,
            "age_s": age_s(manifest.built.get("at")),
            "checks": {"index": index, **self._checks},
        }


def _fault(error: RetrieveError) -> dict[str, Json]:
    return {"status": "fail", "kind": error.kind, "message": error.message, "hint": error.hint}


def age_s(built: Json) -> float | None:
    """Return the seconds since a time of a manifest; None if it is not a time."""
    with suppress(TypeError, ValueError):
        return max(0.0, round((datetime.now(UTC) - datetime.fromisoformat(built)).total_seconds(), 1))
    return None


def metrics_router(state: State) -> APIRouter:
    """Return the route of the metrics."""

    async def metrics(request: Request) -> Response:
        """Return the metrics in Prometheus' text format: of requests, stages, syncs and the index."""
        state.callers.of(request, "metrics")
        return Response(await asyncio.to_thread(_metrics_text, state), headers={"Content-Type": CONTENT_TYPE})

    routes = APIRouter(tags=["health"])
    described = operation("get_metrics", other={"text/plain": TEXT}, scope="metrics")
    routes.add_api_route("/metrics", metrics, **described)
    return routes


def _metrics_text(state: State) -> str:
    with suppress(RetrieveError):  # without an index there is none to describe
        manifest = state.live.index.opened.generation.manifest
        built = None
        with suppress(ValueError):
            built = datetime.fromisoformat(str(manifest.built.get("at"))).timestamp()
        state.metrics.generation(manifest.id, sequence=manifest.sequence, built=built)
    return state.metrics.exposition()
