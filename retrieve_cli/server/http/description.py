"""The description of the API, /openapi.json, derived from the operations that routers declare.

schemas.yaml has the schemas of answers, examples.json a request and an answer of each operation by its name; requests
have the schemas by which they are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.output.formats import answer_json
from retrieve_cli.output.web_results import web_json
from retrieve_cli.server.http.answers import KINDS, OPENAI, PROBLEM, STATUS
from retrieve_cli.server.http.shapes.passages import passages_json

if TYPE_CHECKING:
    from fastapi import FastAPI

JSON = "application/json"
BINARY: Json = {"type": "string", "format": "binary"}
TEXT: Json = {"type": "string"}
_KEY = "x-operation"
_EXPLAINED: Mapping[str, Callable[..., Json]] = {
    "SearchAnswer": answer_json,
    "PassagesAnswer": passages_json,
    "WebResults": web_json,
}
"""Functions whose documentation explains a schema."""
_SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of the server, or a signed token."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


class Operation(NamedTuple):
    """Body, answers and errors of an operation."""

    statuses: Sequence[int]
    answers: Mapping[str, Json]
    """Schema of each media type."""
    body: Mapping[str, Json]
    """Schemas of the body by media type."""
    errors: Sequence[int]
    """Statuses of errors in addition to those that follow from its parts."""
    scope: str
    """Scope of the credential that it needs, if it needs one."""


def operation(
    name: str,
    answer: str | Mapping[str, Json] = "",
    *,
    statuses: Sequence[int] = (200,),
    body: Mapping[str, Json] | None = None,
    bodies: Mapping[str, Json] | None = None,
    other: Mapping[str, Json] | None = None,
    parameters: Sequence[Mapping[str, Json]] = (),
    errors: Sequence[int] = (),
    scope: str = "search",
    method: str = "",
) -> dict[str, Any]:
    """Return the arguments of `add_api_route` for an operation; its method is POST if it has a body, else GET.

    `answer` is its schema or the name of one in schemas.yaml, under each of the `statuses`; `other` has the media types
    of further forms. `body` is the schema of a body of JSON, `bodies` has the schemas of several types.
    """
    content = {**({JSON: schema_of(answer)} if answer else {}), **(other or {})}
    given = bodies or ({} if body is None else {JSON: body})
    extra: dict[str, Any] = {_KEY: Operation(statuses, content, given, errors, scope)._asdict()}
    if parameters:
        extra["parameters"] = list(parameters)
    return {"operation_id": name, "openapi_extra": extra, "methods": [method or ("POST" if given else "GET")]}


def schema_of(name: str | Mapping[str, Json]) -> Json:
    """Return a schema, or a reference to it by its name in schemas.yaml."""
    return {"$ref": f"#/components/schemas/{name}"} if isinstance(name, str) else name


def parameter(name: str, place: str, schema: Mapping[str, Json], description: str) -> dict[str, Json]:
    """Return the description of a parameter of an address."""
    return {"name": name, "in": place, "required": place == "path", "schema": dict(schema), "description": description}


def described_api(app: FastAPI, *, secured: bool) -> dict[str, Any]:
    """Return the OpenAPI description of an application; `secured` if clients need a key."""
    from fastapi.openapi.utils import get_openapi

    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas |= deepcopy(_schemas())
    for path, methods in found["paths"].items():
        for described in methods.values():
            if (declared := described.pop(_KEY, None)) is not None:
                _fill(described, Operation(**declared), path, schemas, secured=secured)
    if secured:
        found["components"]["securitySchemes"] = _SECURITY
    return found


def _fill(described: dict[str, Any], op: Operation, path: str, schemas: dict[str, Json], *, secured: bool) -> None:
    """Add requests, answers, errors and examples to the description of an operation."""
    name, parameters = described["operationId"], described.get("parameters", ())
    example = _examples().get(name, {})
    if op.body:
        content = {kind: {"schema": schema} for kind, schema in op.body.items()}
        if JSON in content:
            title = "".join(word.title() for word in name.split("_")) + "Request"
            schemas[title] = {"title": title, **content[JSON]["schema"]}
            content[JSON] = {"schema": schema_of(title), "example": example.get("request")}
        described["requestBody"] = {"required": True, "content": content}
    responses: dict[str, Any] = {}
    for status in op.statuses:
        content = {kind: {"schema": schema} for kind, schema in op.answers.items() if status != 304}
        if "answer" in example and JSON in content:
            content[JSON]["example"] = example["answer"]
        said = {202: "Stored or begun; a task goes on with it.", 304: "The client has it."}.get(status, "The answer.")
        responses[str(status)] = {"description": said, **({"content": content} if content else {})}
    failure = schema_of("OpenAiError" if path.startswith(OPENAI) else "ErrorAnswer")
    content = {JSON: {"schema": failure}, PROBLEM: {"schema": schema_of("Problem")}}
    callers, body = (401, 403, 503) if op.scope else (), (400, 413, 422) if op.body else ()
    given = ({"path": 404, "query": 422}.get(each["in"], 400) for each in parameters)
    kinds = {**{kind: code for code, kind in KINDS.items()}, **STATUS}
    for status in sorted({400, 403, 421, 500, *callers, *body, *given, *op.errors} - {*op.statuses}):
        named = ", ".join(kind for kind, code in kinds.items() if code == status)
        said = f"An error: {named}." if named else "An error."
        responses[str(status)] = {"description": said, "content": content}
    described["responses"] = responses
    said = described.get("description", "")
    described["summary"] = said.partition("\n")[0].rstrip(".") or described["summary"]
    if op.scope:
        described["description"] = f"{said}\n\nNeeds the scope `{op.scope}` if the server has keys.".strip()
        if secured:
            described["security"] = [{"bearer": []}, {"key": []}]


@cache
def _schemas() -> dict[str, Any]:
    """Return the schemas of answers. A paragraph of a docstring is a line of a description."""
    from inspect import cleandoc

    from retrieve_cli.untrusted import yaml_text

    text = files("retrieve_cli.server.http").joinpath("schemas.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml_text.load(text, values=100_000)
    for name, function in _EXPLAINED.items():
        paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
        found[name]["description"] = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    return {name: {"title": name, **schema} for name, schema in found.items()}


@cache
def _examples() -> dict[str, Any]:
    import orjson

    found: dict[str, Any] = orjson.loads(files("retrieve_cli.server.http").joinpath("examples.json").read_bytes())
    return found
