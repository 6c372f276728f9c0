"""Templates and static files of the page, and the headers under which it is sent; and text of records for it.

Such text is cut, divided at matched words, and linked only if its address is safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from gzip import compress
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, printable
from retrieve_cli.output.styled_lines import address

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: files of the server itself, and nothing inline."""
COOKIE = "retrieve_key"
"""Name of the cookie that holds the key."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TYPES: Mapping[str, str] = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Static files, and the type of each."""
_FOREVER = "public, max-age=31536000, immutable"
_LEVEL = 5
"""Of compression: about a millisecond per page."""
_FOLDER = "retrieve_cli.server.page"


class StaticFile(NamedTuple):
    """A static file."""

    content: bytes
    digest: str


def page(
    request: Request, template: str, values: Mapping[str, Any], *, status: int = 200, pictures_of: Sequence[str] = ()
) -> Response:
    """Return a template filled with values as the answer to a request; it may load pictures of these servers."""
    from starlette.responses import HTMLResponse

    root = str(request.scope.get("root_path", "")).rstrip("/")
    values = {"root": root, "signed": COOKIE in request.cookies, **values}
    html = environment().get_template(f"{template}.html").render(values)
    pictures = " ".join(["img-src 'self'", *(f"https://{name}" for name in pictures_of)])
    headers = {**HEADERS, "Content-Security-Policy": POLICY.replace("img-src 'self'", pictures)}
    headers |= {"Cache-Control": "no-store", "Vary": "Accept-Encoding, Cookie"}
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return HTMLResponse(html, status, headers)
    return HTMLResponse(compress(html.encode(), _LEVEL, mtime=0), status, {**headers, "Content-Encoding": "gzip"})


def static(name: str) -> Response | None:
    """Return a static file as an answer; None if it does not exist. Its address has its digest."""
    from starlette.responses import Response

    if name not in TYPES:
        return None
    return Response(static_file(name).content, headers={**HEADERS, "Cache-Control": _FOREVER}, media_type=TYPES[name])


@cache
def static_file(name: str) -> StaticFile:
    """Return a static file of the package."""
    content = files(_FOLDER).joinpath("static", name).read_bytes()
    return StaticFile(content, sha256(content).hexdigest()[:12])


@cache
def environment() -> Environment:
    """Return the environment of the templates: all text is escaped, and without control characters.

    Raises:
        Unavailable: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        hint = "pip install 'retrieve-cli[serve]'"
        raise Unavailable("the search page needs jinja2, which is not installed", hint=hint) from error
    found = Environment(
        loader=PackageLoader(_FOLDER, "templates"),
        autoescape=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"cut": cut, "count": "{:,}".format, "json_lines": json_lines}
    found.globals["static"] = lambda name: f"/static/{name}?v={static_file(name).digest}"
    return found


def clean(text: str) -> str:
    """Return the text without control characters and without halves of characters, which UTF-8 cannot encode."""
    return printable(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def json_lines(value: Json) -> list[str]:
    """Return the lines of a value as JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False).split("\n")


# ----------------------------------------------------------------------------------------------------- texts of records


TITLE = 160
"""Characters of a title."""
_LONGEST_LINK = 2000
_SCHEMES = ("http://", "https://")


class SnippetPart(NamedTuple):
    """A stretch of text, matched or not."""

    text: str
    marked: bool = False


class WebLink(NamedTuple):
    """An address outside, and the server that it leads to."""

    url: str
    host: str


def parts(text: str, marks: Iterable[Sequence[int]]) -> list[SnippetPart]:
    """Return the text divided at its marks, which are pairs of offsets; overlapping marks are joined."""
    found: list[SnippetPart] = []
    done = 0
    for start, end in sorted((int(start), int(end)) for start, end in marks):
        if end <= done or start >= end or end > len(text):
            continue
        if start > done:
            found.append(SnippetPart(text[done:start]))
        found.append(SnippetPart(text[max(start, done) : end], marked=True))
        done = end
    return [*found, SnippetPart(text[done:])] if done < len(text) else found


def link(text: object) -> WebLink | None:
    """Return an address as a link if it leads to a web server; None for any other scheme or text."""
    if not isinstance(text, str) or len(text) > _LONGEST_LINK:
        return None
    stripped = text.strip()
    if not stripped.casefold().startswith(_SCHEMES) or printable(stripped) != stripped or " " in stripped:
        return None
    try:
        host = urlsplit(stripped).hostname
    except ValueError:
        return None
    return WebLink(address(stripped), host) if host else None


def cut(text: object, most: int = TITLE) -> str:
    """Return the text as one line of at most `most` characters."""
    line = " ".join(str(text)[: most * 4].split())
    return line if len(line) <= most and len(str(text)) <= most * 4 else line[: most - 1].rstrip() + "…"


def leaves(value: object, name: str = "", *, depth: int = 6) -> Iterator[tuple[str, list[object]]]:
    """Yield the values of nested data with their path: `supportingData.bodySite` and its list."""
    if isinstance(value, dict) and depth:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else str(key), depth=depth - 1)
    elif isinstance(value, list) and depth and any(isinstance(each, dict | list) for each in value):
        for each in value:
            yield from leaves(each, name, depth=depth - 1)
    elif value not in (None, "", [], {}):
        yield name, value if isinstance(value, list) else [value]
