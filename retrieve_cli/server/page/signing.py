"""Signing in with a key: a cookie that scripts cannot read, and that no other site can make a browser send.

The cookie replaces an Authorization header on the routes of the page only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.requests import Limits, RejectedRequest
from retrieve_cli.server.page import rendering
from retrieve_cli.server.page.rendering import COOKIE

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from retrieve_cli.server.http.state import State

_FORM = Limits(bytes=64 << 10)
"""Limits of a form."""
_LONGEST = 8192
"""Characters of a key."""


def with_credential(request: Request, key: str | None = None) -> Request:
    """Return the request with a key, by default of its cookie, as its credential. A credential in its headers wins."""
    from starlette.requests import Request as Made

    if key is None:
        key = unquote(request.cookies.get(COOKIE, ""))
    own = "authorization" in request.headers or "x-api-key" in request.headers
    if key and not own and key.isascii() and key.isprintable() and len(key) <= _LONGEST:
        request.scope["headers"] = [*request.scope["headers"], (b"authorization", f"Bearer {key}".encode())]
    return Made(request.scope, request.receive)


def expect_own_page(request: Request, state: State) -> None:
    """Check that a form was sent by a page of this server. Raises: RejectedRequest."""
    origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
    if origin is None:
        sound = COOKIE not in request.cookies  # a browser names the origin of every form that it posts
    else:
        public = urlsplit(state.public_url)
        sound = urlsplit(origin).netloc == host or origin == f"{public.scheme}://{public.netloc}"
    if not sound:
        said = "this form was not sent by a page of this server"
        raise RejectedRequest(403, said, code="origin", hint="send it from there")


async def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a posted form. Raises: RejectedRequest if it is too long or not a form."""
    body = await read_body(request, _FORM)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=50, errors="strict"))
    except ValueError as error:
        raise RejectedRequest(400, "the body is not a form", code="usage") from error


def form(request: Request, *, following: str, status: int = 200, message: str = "") -> Response:
    """Return the form to sign in; `following` is the address to go to afterwards."""
    return rendering.page(request, "signin", {"next": following, "message": message}, status=status)


async def sign_in(state: State, request: Request) -> Response:
    """Return the way on with the cookie if the key is valid; else the form again."""
    expect_own_page(request, state)
    fields = await fields_of(request)
    key, following = fields.get("key", "").strip(), inner(fields.get("next", "/"))
    headers = request.scope["headers"]
    request.scope["headers"] = [pair for pair in headers if pair[0] not in (b"authorization", b"x-api-key")]
    try:
        state.callers.of(with_credential(request, key or "-"), "search")
    except RejectedRequest as error:
        if error.status not in (401, 403):
            raise
        said = "This key is not valid." if error.status == 401 else "This key may not search."
        return form(request, following=following, status=error.status, message=said)
    answer, path, value = onward(request, following), f"{_root(request)}/", quote(key, safe="")
    secure = request.url.scheme == "https" or state.public_url.startswith("https://")
    answer.set_cookie(COOKIE, value, path=path, secure=secure, httponly=True, samesite="strict")
    return answer


def onward(request: Request, following: str) -> Response:
    """Return the way to a page of this server, after a form."""
    from starlette.responses import RedirectResponse

    return RedirectResponse(_root(request) + inner(following), 303, dict(rendering.HEADERS))


def sign_out(request: Request) -> Response:
    """Return the way to the form, without the cookie."""
    answer = onward(request, "/signin")
    answer.delete_cookie(COOKIE, path=f"{_root(request)}/", httponly=True, samesite="strict")
    return answer


def address_of(request: Request) -> str:
    """Return the address of a page below the root, to come back to."""
    query = f"?{request.url.query}" if request.url.query else ""
    path = quote(request.scope["path"].removeprefix(_root(request)))
    return inner(f"{path}{query}") if request.method in ("GET", "HEAD") else "/"


def inner(address: str) -> str:
    """Return an address if it leads to a page of this server; the first page otherwise."""
    sound = address.startswith("/") and address[1:2] not in ("/", "\\") and address.isascii() and address.isprintable()
    return address if sound and "\\" not in address else "/"


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")
