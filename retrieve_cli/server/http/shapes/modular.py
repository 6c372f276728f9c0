"""The answer of `/search` in design E of docs/seeds.md: `Accept: application/vnd.retrieve.e+json`, or `?shape=e`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.output.places import known_keys
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.server.http.description import parameter

if TYPE_CHECKING:
    from starlette.requests import Request

MEDIA_TYPE = "application/vnd.retrieve.e+json"
SHAPE = "shape"
"""The parameter of an address that names a shape."""


def render(answer: Answer) -> dict[str, Json]:
    """Return an answer; `total_results` is the number of matches, of which `results` are the best."""
    return {
        "query": answer.query.text,
        "results": [_result(result, answer) for result in answer.results],
        "fusion_method": answer.fusion_method.partition("(")[0],
        "reranked": answer.reranked,
        "total_results": answer.total_matches,
    }


def _result(result: Result, answer: Answer) -> dict[str, Json]:
    text = result.text
    return {
        "doc_id": result.doc_id,
        "chunk_id": result.id,
        "text": text,
        "score": result.score,
        "highlights": list(dict.fromkeys(text[start:end] for start, end in answer.matches(text))) or None,
        "source": {"title": result.name, "section": result.chunk["section"], **known_keys(result.place)},
        "strategies_used": answer.strategies_of(result),
    }


class Shape(NamedTuple):
    """A shape of the answer that a client may choose."""

    media_type: str
    render: Callable[[Answer], Json]


SHAPES: Mapping[str, Shape] = {"e": Shape(MEDIA_TYPE, render)}

_DESCRIPTION = f"Shape of the answer; the same as an Accept header, such as {MEDIA_TYPE}."
PARAMETER: Json = parameter(SHAPE, "query", {"type": "string", "enum": list(SHAPES)}, _DESCRIPTION)
"""The same as OpenAPI describes it."""


def shape_of(request: Request) -> Shape | None:
    """Return the shape that a request chooses by `?shape=` or by its Accept header; None for the plain answer.

    Raises:
        UsageError: there is no shape of that name.
    """
    name = request.query_params.get(SHAPE)
    if name is not None:
        if name not in SHAPES:
            raise UsageError(f"there is no shape {quoted(name)}", hint=f"shapes: {', '.join(SHAPES)}")
        return SHAPES[name]
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("Accept", "").split(",")]
    return next((shape for shape in SHAPES.values() if shape.media_type in accepted), None)
