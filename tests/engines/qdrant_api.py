"""The requests that the substitute for a Qdrant server accepts: endpoint, parameters, and form of the body.

The forms are a part of Qdrant's OpenAPI file, by hand. A key that is not in
a form is an error, where Qdrant itself would ignore it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Object:
    """An object with these keys; one whose name begins with `?` may be absent."""

    keys: Mapping[str, Any]

    def named(self) -> dict[str, Any]:
        return {name.removeprefix("?"): form for name, form in self.keys.items()}

    def required(self) -> set[str]:
        return {name for name in self.keys if not name.startswith("?")}


@dataclass(frozen=True)
class List:
    """A list of values of one form."""

    of: Any


@dataclass(frozen=True)
class Either:
    """A value of one of several forms."""

    forms: tuple[Any, ...]


@dataclass(frozen=True)
class Named:
    """An object with any keys and values of one form."""

    of: Any


@dataclass(frozen=True)
class Endpoint:
    """Name of the body's schema in the published file, its form, and the parameters of the query."""

    schema: str | None = None
    form: Any = None
    parameters: set[str] = field(default_factory=set)


INTEGER, NUMBER, TEXT, BOOLEAN, ANYTHING = "integer", "number", "string", "boolean", "object"
ID = Either((INTEGER, TEXT))
SPARSE = Object({"indices": List(INTEGER), "values": List(NUMBER)})
CONDITION = Either(
    (
        Object({"key": TEXT, "match": Object({"any": Either((List(TEXT), List(INTEGER)))})}),
        Object({"has_id": List(ID)}),
    )
)
FILTER = Object({"?must": List(CONDITION), "?must_not": List(CONDITION)})
OPTIMIZERS = Object({"?indexing_threshold": INTEGER})
PARAMS = Object(
    {
        "?hnsw_ef": INTEGER,
        "?quantization": Object({"?rescore": BOOLEAN, "?oversampling": NUMBER}),
    }
)
CREATE = Object(
    {
        "?vectors": Named(Object({"size": INTEGER, "distance": TEXT})),
        "?sparse_vectors": Named(Object({"?index": Object({"?datatype": TEXT})})),
        "?hnsw_config": Object({"?m": INTEGER, "?ef_construct": INTEGER}),
        "?optimizers_config": OPTIMIZERS,
        "?quantization_config": Object(
            {"scalar": Object({"type": TEXT, "?quantile": NUMBER, "?always_ram": BOOLEAN})},
        ),
    }
)
POINT = Object({"id": ID, "vector": Named(Either((List(NUMBER), SPARSE))), "?payload": ANYTHING})
ALIAS = Either(
    (
        Object({"create_alias": Object({"collection_name": TEXT, "alias_name": TEXT})}),
        Object({"delete_alias": Object({"alias_name": TEXT})}),
    )
)
SHOWN = {"?with_payload": Either((BOOLEAN, List(TEXT))), "?with_vector": Either((BOOLEAN, List(TEXT)))}
QUERY = Object(
    {"?query": Either((List(NUMBER), SPARSE)), "?using": TEXT, "?filter": FILTER, "?params": PARAMS, "?limit": INTEGER}
    | SHOWN
)
COLLECTION = "/collections/{collection_name}"
ENDPOINTS = {
    ("GET", "/"): Endpoint(),
    ("GET", "/aliases"): Endpoint(),
    ("GET", "/collections"): Endpoint(),
    ("POST", "/collections/aliases"): Endpoint("ChangeAliasesOperation", Object({"actions": List(ALIAS)})),
    ("GET", COLLECTION): Endpoint(),
    ("DELETE", COLLECTION): Endpoint(),
    ("PUT", COLLECTION): Endpoint("CreateCollection", CREATE),
    ("PATCH", COLLECTION): Endpoint("UpdateCollection", Object({"?optimizers_config": OPTIMIZERS})),
    ("PUT", COLLECTION + "/index"): Endpoint(
        "CreateFieldIndex", Object({"field_name": TEXT, "?field_schema": TEXT}), {"wait"}
    ),
    ("PUT", COLLECTION + "/points"): Endpoint("PointInsertOperations", Object({"points": List(POINT)}), {"wait"}),
    ("POST", COLLECTION + "/points"): Endpoint("PointRequest", Object({"ids": List(ID)} | SHOWN)),
    ("POST", COLLECTION + "/points/delete"): Endpoint("PointsSelector", Object({"filter": FILTER}), {"wait"}),
    ("POST", COLLECTION + "/points/count"): Endpoint("CountRequest", Object({"?filter": FILTER, "?exact": BOOLEAN})),
    ("POST", COLLECTION + "/points/query"): Endpoint("QueryRequest", QUERY),
}

_TYPES: Mapping[str, Any] = {INTEGER: int, NUMBER: (int, float), TEXT: str, BOOLEAN: bool, ANYTHING: dict}


def faults(form: Any, value: Any, where: str = "body") -> Iterator[str]:
    """Yield what is wrong with a value."""
    if isinstance(form, str):
        if not isinstance(value, _TYPES[form]) or (isinstance(value, bool) and form != BOOLEAN):
            yield f"{where} is not of type {form}"
    elif isinstance(form, Either):
        if all(any(faults(each, value, where)) for each in form.forms):
            yield f"{where} has none of the forms it may have"
    elif not isinstance(value, list if isinstance(form, List) else dict):
        yield f"{where} is not {'a list' if isinstance(form, List) else 'an object'}"
    else:
        yield from _inner_faults(form, value, where)


def _inner_faults(form: List | Named | Object, value: Any, where: str) -> Iterator[str]:
    if isinstance(form, Object):
        named = form.named()
        yield from (f"{where}.{name} is missing" for name in sorted(form.required() - value.keys()))
        yield from (f"{where}.{name} is not known" for name in sorted(value.keys() - named.keys()))
        inner = [(named[name], value[name], f"{where}.{name}") for name in value.keys() & named.keys()]
    elif isinstance(form, Named):
        inner = [(form.of, each, f"{where}.{name}") for name, each in value.items()]
    elif form.of == NUMBER and set(map(type, value)) <= {int, float}:
        inner = []  # vectors are long
    else:
        inner = [(form.of, each, f"{where}[]") for each in value]
    for each in inner:
        yield from faults(*each)
