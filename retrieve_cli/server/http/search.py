"""Search: `POST /search`, `GET /search?q=`, `POST /search/batch`. The answer is the JSON of
`retrieve query --json`, or another format of `retrieve query`: `POST /search?format=text&width=100`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.api.asked import Asked, Outcome, of_text, read_asked
from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.live import arrival
from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.output import formats
from retrieve_cli.output.styled_lines import LineRenderer
from retrieve_cli.search.answer import Answer
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import dumped, hint_of, rejection
from retrieve_cli.server.http.description import JSON, TEXT, operation, parameter, schema_of
from retrieve_cli.server.http.observing import observed
from retrieve_cli.server.http.requests import RejectedRequest, read_object
from retrieve_cli.server.http.shapes.modular import PARAMETER, SHAPE, SHAPES, shape_of
from retrieve_cli.server.http.state import State

_REQUEST = SEARCH.body([*SEARCH.of_json])
_MOST = 256
"""Requests of one batch."""


def router(state: State) -> APIRouter:
    """Return the routes of the search."""

    async def search(request: Request) -> Response:
        """Search the index."""
        tenant = state.callers.of(request, "search").tenant
        expect_form_alone(request)
        rendering = rendering_of(request)
        asked = _asked(read_object(await read_body(request, state.limits)), tenant)
        return await _answered(state, request, asked, rendering)

    async def search_by_link(request: Request) -> Response:
        """Search the index by a link."""
        tenant = state.callers.of(request, "search").tenant
        asked = _asked(from_parameters(request), tenant)
        return await _answered(state, request, asked, rendering_of(request))

    async def search_batch(request: Request) -> Response:
        """Answer several requests as one batch."""
        tenant = state.callers.of(request, "search").tenant
        items = read_object(await read_body(request, state.limits)).get("requests")
        if not isinstance(items, list) or not items or len(items) > _MOST:
            said = f"`requests` must be a list of 1 to {_MOST} requests"
            raise RejectedRequest(422, said, param="requests", code="usage", hint='{"requests": [{"query": "…"}]}')
        arrived = await _arrived(state, [_read(item, place, tenant) for place, item in enumerate(items)])
        sound = [one for one in arrived if isinstance(one, Asked)]
        answered = await state.pool.run(request, state.live.answer, sound)
        observed(request).answers = [outcome for outcome in answered if isinstance(outcome, Answer)]
        outcomes = iter(answered)
        answers = [_json(next(outcomes) if isinstance(one, Asked) else one) for one in arrived]
        return Response(dumped({"answers": answers}), media_type=JSON)

    routes = APIRouter(tags=["search"])
    forms = {SHAPES["e"].media_type: schema_of("ModularAnswer"), **dict.fromkeys(_KINDS.values(), TEXT)}
    described = partial(operation, answer="SearchAnswer", statuses=(200, 304), other=forms, errors=(404, 502))
    shown = [PARAMETER, *PARAMETERS]
    routes.add_api_route("/search", search, **described("search", body=_REQUEST, parameters=shown))
    linked = described("search_by_link", parameters=[*_parameters(), *shown])
    routes.add_api_route("/search", search_by_link, **linked)
    requests = {"type": "array", "items": _REQUEST, "minItems": 1, "maxItems": _MOST}
    several = {"type": "object", "properties": {"requests": requests}, "required": ["requests"]}
    routes.add_api_route("/search/batch", search_batch, **operation("search_batch", "BatchAnswer", body=several))
    return routes


def _asked(item: Mapping[str, Json], tenant: str | None, where: str = "the request") -> Asked:
    """Return a request; related records are brief unless it chooses otherwise: in full, they are most of an answer."""
    asked = read_asked(item, where=where, tenant=tenant)
    return asked._replace(choices={"related": "brief", **asked.choices})


async def _answered(state: State, request: Request, asked: Asked, rendering: Rendering | None = None) -> Response:
    """Return the answer to one request, or 304 if the client has it already."""
    shape, deadline = shape_of(request), asked.choices.get("deadline_ms")
    await arrival(state.live, asked.at_least or 0, deadline and time.monotonic() + deadline / 1000)
    (outcome,) = await state.pool.run(request, state.live.answer, [asked], deadline_ms=deadline)
    if isinstance(outcome, RetrieveError):
        raise rejection(outcome)
    observed(request).answers = [outcome]
    if rendering is not None:
        text, marked = await state.pool.run(request, rendering.of, outcome), {"X-Retrieve-Format": rendering.form}
        return Response(text, headers=marked, media_type=_KINDS[rendering.form])
    body = formats.answer_bytes(outcome) if shape is None else dumped(shape.render(outcome))
    headers = {"ETag": f'"{sha256(body).hexdigest()[:32]}"', "Vary": "Accept"}
    if headers["ETag"] in request.headers.get("If-None-Match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON if shape is None else shape.media_type)


async def _arrived(state: State, asked: Sequence[Asked | RetrieveError]) -> list[Asked | RetrieveError]:
    """Wait for the changes that requests ask for; return each, or the error of one whose change is not there."""
    with suppress(RetrieveError):
        await arrival(state.live, max((one.at_least or 0 for one in asked if isinstance(one, Asked)), default=0))
    arrived: list[Asked | RetrieveError] = []
    for one in asked:
        try:
            if isinstance(one, Asked):
                await arrival(state.live, one.at_least or 0, deadline=0.0)
            arrived.append(one)
        except RetrieveError as error:
            arrived.append(error)
    return arrived


def from_parameters(request: Request) -> dict[str, Json]:
    """Return the request that the parameters of a link are.

    Raises:
        UsageError: a parameter is given twice, or its value is not of its kind.
    """
    item: dict[str, Json] = {}
    for key, text in request.query_params.multi_items():
        if key in FORM:
            continue
        row = SEARCH.of_json.get(SEARCH.aliases.get(key, key))
        value = text if row is None else of_text(row, key, text)
        if row is not None and row.several:
            item.setdefault(key, []).append(value)
        elif key in item:
            raise UsageError(f"the parameter {quoted(key)} is given twice", hint="give it once")
        else:
            item[key] = value
    return item


def _parameters() -> list[dict[str, Json]]:
    """Return the parameters of a link as OpenAPI describes them."""
    rows = SEARCH.of_json.items()
    return [parameter("q" if key == "query" else key, "query", row.schema, row.description) for key, row in rows]


def _read(item: Json, place: int, tenant: str | None) -> Asked | UsageError:
    """Return a request of a batch, or its error; without an id it has its number."""
    where = f"request {place + 1}"
    try:
        if not isinstance(item, dict):
            raise UsageError(f"{where} is not an object", hint='for example: {"query": "…"}')
        return _asked(item if "id" in item or "_id" in item else {**item, "id": str(place + 1)}, tenant, where)
    except UsageError as error:
        return error


def _json(outcome: Outcome) -> Json:
    if isinstance(outcome, Answer):
        value = formats.answer_json(outcome)
        del value["timings_ms"]
        return value
    said = {"code": int(outcome.code), "kind": outcome.kind, "message": outcome.message}
    return {"error": {**said, "hint": hint_of(rejection(outcome))}}


# -------------------------------------------------------------------------------------------------------- other formats


_KINDS = {
    "text": "text/plain",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "md": "text/markdown",
    "trec": "text/plain",
}
_NARROWEST, _WIDEST, _USUAL = 40, 120, 100
FORM = ("format", "width", "color", SHAPE)
"""Parameters on the form of the answer: they are no part of the request."""
PARAMETERS: Sequence[Mapping[str, Json]] = (
    {"name": "format", "in": "query", "schema": {"type": "string", "enum": ["json", *_KINDS]},
     "description": "Format of the answer, as `retrieve query --format` has it."},
    {"name": "width", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 99_999},
     "description": "Columns of `format=text`."},
    {"name": "color", "in": "query", "schema": {"type": "string", "enum": ["true", "false"]},
     "description": "Colours in `format=text`."},
)  # fmt: skip
"""The same as OpenAPI describes them."""
_BESIDE_A_BODY = (*FORM, "explain")


class Rendering(NamedTuple):
    """A format, and its options."""

    form: str
    page: LineRenderer
    explain: bool

    def of(self, answer: Answer) -> bytes:
        """Return an answer in the format."""
        if self.form == "text":
            from retrieve_cli.output.text import as_text

            return as_text(answer, self.page, explain=self.explain).encode()
        written = formats.as_trec if self.form == "trec" else formats.FORMATS[self.form]
        return written([answer]).encode()


def expect_form_alone(request: Request) -> None:
    """Raises: UsageError: a request with a body has parameters other than the ones of its format."""
    for name in request.query_params:
        if name not in _BESIDE_A_BODY:
            hint = f"parameters: {', '.join(_BESIDE_A_BODY)}; the query belongs into the body"
            raise UsageError(f"the parameter {quoted(name)} is unknown", hint=hint)


def rendering_of(request: Request) -> Rendering | None:
    """Return the format that the parameters of a request choose; None for JSON.

    Raises:
        UsageError: the value of a parameter is invalid.
    """
    given = dict(request.query_params)
    form = given.get("format", "json")
    if form == "json":
        return None
    if form not in _KINDS:
        raise UsageError(f"the format {quoted(form)} is unknown", hint=f"formats: json, {', '.join(_KINDS)}")
    width = given.get("width", str(_USUAL))
    if not (width.isascii() and width.isdecimal() and len(width) < 6):
        raise UsageError(f"the width {quoted(width)} is not a number of columns", hint="width=100")
    page = LineRenderer(min(max(int(width), _NARROWEST), _WIDEST), styled=given.get("color") == "true", linked=False)
    return Rendering(form, page, given.get("explain") == "true")
