"""Values as JSON answers, and failures of every kind as OpenAI's error object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.serving.requests import Rejected

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from retrieve_cli.contracts import Vectors


def finite(numbers: Vectors) -> Vectors:
    """Return finite numbers as float32; JSON has neither NaN nor infinity. Raises: Rejected."""
    import numpy as np

    if not np.isfinite(numbers).all():
        raise Rejected(500, "the model returned numbers that are not finite", code="not_finite")
    return np.ascontiguousarray(numbers, np.float32)


def dumped(value: Json) -> bytes:
    """Return JSON; a float32 has as many digits as distinguish it from the next one."""
    import orjson

    found: bytes = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return found


def response(value: Json, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an HTTP response with a value as JSON; bytes are JSON already."""
    from starlette.responses import Response

    body = value if isinstance(value, bytes) else dumped(value)
    return Response(body, status, headers, "application/json")


def error_response(rejected: Rejected) -> Response:
    """Return OpenAI's error object for a rejected request: https://platform.openai.com/docs/guides/error-codes"""
    kind = "server_error" if rejected.status >= 500 else "invalid_request_error"
    error = {"message": str(rejected), "type": kind, "param": rejected.param, "code": rejected.code}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(rejected.status)
    return response({"error": error}, rejected.status, headers)


def failure_handlers() -> dict[Any, Any]:
    """Return the handler of each kind of exception."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    async def rejected(_: Request, error: Rejected) -> Response:
        return error_response(error)

    async def failed(_: Request, error: RetrieveError) -> Response:
        return error_response(Rejected(400 if isinstance(error, UsageError) else 503, error.message, code=error.kind))

    async def http(_: Request, error: HTTPException) -> Response:
        return error_response(Rejected(error.status_code, error.detail))

    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return error_response(Rejected(400, "the body is incomplete"))

    async def unforeseen(_: Request, error: Exception) -> Response:
        answer = error_response(Rejected(500, f"internal error ({type(error).__name__})", code="internal"))
        # Starlette raises the error again after this answer, and uvicorn then closes the connection: say so, or a
        # client that keeps connections sends its next request into a closed one.
        answer.headers["Connection"] = "close"
        return answer

    return {
        Rejected: rejected,
        RetrieveError: failed,
        HTTPException: http,
        ClientDisconnect: gone,
        Exception: unforeseen,
    }
