"""Values as JSON answers, and failures of every kind as error objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.contracts import Json
from retrieve_cli.errors import SPACE, NotConfigured, RetrieveError, UsageError, shortened, unwritable
from retrieve_cli.server.http.requests import RejectedRequest

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

    from retrieve_cli.contracts import Vectors


def finite(numbers: Vectors) -> Vectors:
    """Return finite numbers as float32; JSON has neither NaN nor infinity. Raises: RejectedRequest."""
    import numpy as np

    if not np.isfinite(numbers).all():
        raise RejectedRequest(500, "the model returned numbers that are not finite", code="not_finite")
    return np.ascontiguousarray(numbers, np.float32)


def dumped(value: Json) -> bytes:
    """Return JSON; a float32 has as many digits as distinguish it from the next one."""
    import orjson

    found: bytes = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return found


def response(
    value: Json, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = "application/json"
) -> Response:
    """Return an HTTP response with a value as JSON; bytes are JSON already."""
    from starlette.responses import Response

    body = value if isinstance(value, bytes) else dumped(value)
    return Response(body, status, headers, media_type)


def error_response(rejected: RejectedRequest, scope: Scope) -> Response:
    """Return a rejected request as an error object: in the form of OpenAI on its routes, of the command line elsewhere.

    https://platform.openai.com/docs/guides/error-codes
    """
    if scope["path"].startswith(OPENAI):
        type_ = "server_error" if rejected.status >= 500 else "invalid_request_error"
        error = {"message": str(rejected), "type": type_, "param": rejected.param, "code": rejected.code}
        return failed_response({"error": error}, rejected, scope)
    value: dict[str, Json] = {
        "code": rejected.exit_code,
        "kind": kind_of(rejected),
        "message": str(rejected),
        "hint": hint_of(rejected),
        "request_id": scope.get("state", {}).get("request_id"),
        "retryable": rejected.status in RETRYABLE,
    }
    return failed_response({"error": value}, rejected, scope)


def failed_response(value: dict[str, Json], rejected: RejectedRequest, scope: Scope) -> Response:
    """Return an error object as a response; with the members of RFC 9457 beside it if the client accepts these."""
    from starlette.datastructures import Headers

    status = rejected.status
    headers = {**_HEADERS.get(status, {}), **rejected.headers}
    if PROBLEM not in Headers(scope=scope).get("accept", "").lower():
        return response(value, status, headers)
    root, kind = str(scope.get("root_path", "")).rstrip("/"), kind_of(rejected)
    problem: dict[str, Json] = {"type": f"{root}/docs#error-{kind}", "title": kind.replace("_", " ")}
    return response({**problem, "status": status, "detail": str(rejected), **value}, status, headers, PROBLEM)


def kind_of(rejected: RejectedRequest) -> str:
    """Return the kind of an error."""
    return rejected.code or KINDS.get(rejected.status, "error")


def hint_of(rejected: RejectedRequest) -> str:
    """Return the hint of an error for a client of HTTP: keys of a body in place of flags, and commands for the operator
    of the server."""
    hint = SEARCH.without_flags(rejected.hint)
    if "retrieve " in hint:
        return f"for the operator of the server: {hint}"
    return hint or ("GET /docs shows the requests, with an example of each" if rejected.status in _OF_FORM else "")


PROBLEM = "application/problem+json"
"""Media type of the errors of RFC 9457."""
_OF_FORM = (400, 404, 405, 422)
OPENAI = ("/v1/", "/rerank")
"""Beginnings of the paths whose errors have OpenAI's shape."""
_HEADERS: Mapping[int, dict[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
RETRYABLE = (502, 503, 504)
KINDS: Mapping[int, str] = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method",
    413: "too_large",
    421: "host",
    500: "internal",
}
"""Kind of an error by its status, if it has no other one."""
STATUS: Mapping[str, int] = {
    "usage": 422,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "not_yet": 503,
    "index_missing": 503,
    "index_corrupt": 503,
    "unavailable": 503,
    "locked": 503,
    "stale": 503,
    "source_failed": 502,
    "model_failed": 502,
    "no_space": 507,
}
"""Status of each kind of failure; 500 for any other."""


def rejection(error: RetrieveError, *, path: str = "") -> RejectedRequest:
    """Return a failure as a rejected request."""
    if path.startswith(OPENAI):
        status = STATUS.get(error.kind, 503)
        if status not in (403, 404):
            status = 400 if isinstance(error, UsageError | NotConfigured) else 503
        return RejectedRequest(status, error.message, code=error.kind)
    status = 422 if isinstance(error, NotConfigured) else STATUS.get(error.kind, 500)
    return RejectedRequest(status, error.message, code=error.kind, hint=error.hint, exit_code=int(error.code))


def failure_handlers() -> dict[Any, Any]:
    """Return the handler of each kind of exception."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    def answering(rejected: Callable[..., RejectedRequest]) -> Callable[[Request, Exception], Awaitable[Response]]:
        async def answer(request: Request, error: Exception) -> Response:
            return error_response(rejected(request, error), request.scope)

        return answer

    def http(request: Request, error: HTTPException) -> RejectedRequest:
        missing = error.status_code in (404, 405)
        said = f"there is no route {request.method} {shortened(request.url.path)}" if missing else error.detail
        hint = "GET /docs lists the routes" if missing else ""
        return RejectedRequest(error.status_code, said, hint=hint, headers=error.headers)

    def system(_: Request, error: OSError) -> RejectedRequest:
        if error.errno not in SPACE:
            raise error
        return rejection(unwritable(error.filename or "the disk", error))

    async def unforeseen(request: Request, error: Exception) -> Response:
        rejected = RejectedRequest(500, f"internal error ({type(error).__name__})", code="internal")
        answer = error_response(rejected, request.scope)
        # Starlette raises the error again after this answer, and uvicorn then closes the connection. Without the header
        # a client that keeps connections would send its next request into a closed one.
        answer.headers["Connection"] = "close"
        return answer

    return {
        RejectedRequest: answering(lambda _, error: error),
        RetrieveError: answering(lambda request, error: rejection(error, path=request.url.path)),
        HTTPException: answering(http),
        ClientDisconnect: answering(lambda *_: RejectedRequest(400, "the body is incomplete")),
        OSError: answering(system),
        Exception: unforeseen,
    }
