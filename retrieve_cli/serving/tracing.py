"""Traces through the OpenTelemetry API: a span for each request, and one for each stage of a search.

Without a configured SDK there is nothing to pay. `opentelemetry-instrument retrieve serve` configures one by the
environment, and so does `OTEL_PYTHON_TRACER_PROVIDER`. https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from starlette.types import Scope

_CONTEXT = ("traceparent", "tracestate")
_FAILED = 500


class Notes(Protocol):
    """Notes on a request that become attributes; see `observing.Observed`."""

    id: str
    status: int

    @property
    def stages_ms(self) -> dict[str, float]: ...

    @property
    def generation(self) -> str | None: ...

    @property
    def results(self) -> int | None: ...


class Tracing:
    """A tracer of requests."""

    def __init__(self, tracer: Any) -> None:
        """`tracer` is that of an OpenTelemetry provider."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def configured(cls) -> Tracing | None:
        """Return the tracing of the configured SDK; None if there is none."""
        try:
            from opentelemetry import trace
        except ImportError:
            return None
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
        from retrieve_cli import __version__

        return cls(provider.get_tracer("retrieve", __version__))

    @contextmanager
    def request(self, scope: Scope, notes: Notes) -> Iterator[None]:
        """Run a request in a span, a child of the client's if it sent one. The span has no texts of the request."""
        sent = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.decode("latin-1") in _CONTEXT
        }
        parent = self._propagator.extract(sent)
        kind = self._trace.SpanKind.SERVER
        begun = time.time_ns()
        with self._tracer.start_as_current_span(scope["method"], parent, kind, start_time=begun) as span:
            try:
                yield
            finally:
                if span.is_recording():
                    self._stages(notes, begun)
                    self._finish(span, scope, notes)

    def _finish(self, span: Any, scope: Scope, notes: Notes) -> None:
        span.set_attribute("http.request.method", scope["method"])
        span.set_attribute("http.response.status_code", notes.status)
        span.set_attribute("retrieve.request_id", notes.id)
        if (route := getattr(scope.get("route"), "path", None)) is not None:
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.route", route)
        if notes.generation is not None:
            span.set_attribute("retrieve.generation", notes.generation)
        if notes.results is not None:
            span.set_attribute("retrieve.results", notes.results)
        if notes.status >= _FAILED:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))

    def _stages(self, notes: Notes, begun: int) -> None:
        """Add a span for each stage. Its length was measured; it begins where the one before ends."""
        start = begun
        for stage, spent in notes.stages_ms.items():
            if stage != "total" and spent > 0:
                end = start + int(spent * 1e6)
                self._tracer.start_span(stage, start_time=start).end(end)
                start = end
