"""Values as JSON answers, and failures of every kind as OpenAI's error object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.serving.requests import Refused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from retrieve_cli.contracts import Vectors


def finite(numbers: Vectors) -> Vectors:
    """JSON has neither NaN nor infinity: they would go out as null."""
    import numpy as np

    if not np.isfinite(numbers).all():
        raise Refused(500, "the model gave numbers that are not finite", code="not_finite")
    return np.ascontiguousarray(numbers, np.float32)


def dumped(value: Json) -> bytes:
    """JSON; a float32 is written with as many digits as tell it from the next one."""
    import orjson

    found: bytes = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return found


def response(value: Json, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer; bytes are JSON already."""
    from starlette.responses import Response

    body = value if isinstance(value, bytes) else dumped(value)
    return Response(body, status, headers, "application/json")


def refusal(refused: Refused) -> Response:
    """A refusal as OpenAI's error object: https://platform.openai.com/docs/guides/error-codes"""
    kind = "server_error" if refused.status >= 500 else "invalid_request_error"
    error = {"message": str(refused), "type": kind, "param": refused.param, "code": refused.code}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(refused.status)
    return response({"error": error}, refused.status, headers)


def failure_handlers() -> dict[Any, Any]:
    """What answers when a request failed, by the kind of its exception."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    async def refused(_: Request, error: Refused) -> Response:
        return refusal(error)

    async def failed(_: Request, error: RetrieveError) -> Response:
        return refusal(Refused(400 if isinstance(error, UsageError) else 503, error.message, code=error.kind))

    async def http(_: Request, error: HTTPException) -> Response:
        return refusal(Refused(error.status_code, error.detail))

    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return refusal(Refused(400, "the body was cut short"))

    async def unforeseen(_: Request, error: Exception) -> Response:
        answer = refusal(Refused(500, f"internal error ({type(error).__name__})", code="internal"))
        # Starlette raises the error again after this answer, and uvicorn then closes the connection: say so, or a
        # client that keeps connections sends its next request into a closed one.
        answer.headers["Connection"] = "close"
        return answer

    return {Refused: refused, RetrieveError: failed, HTTPException: http, ClientDisconnect: gone, Exception: unforeseen}
