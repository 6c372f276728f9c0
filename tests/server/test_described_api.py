"""The API description: each operation has typed answers, typed errors and an example that the application really gives.

RETRIEVE_WRITE_GOLDEN=1 writes the examples, retrieve_cli/server/http/examples.json, from the answers.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import orjson
import pytest
import web_answers as made
from golden.written import WRITE, differences, rounded
from jsonschema import Draft202012Validator
from pages import read_html
from samples import ROOT
from servers import sent, state_of
from starlette.types import ASGIApp

from retrieve_cli.contracts import TermWeights
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.model_parts import ModelParts
from retrieve_cli.server.http.models import Models
from retrieve_cli.server.http.pool import WebSearching
from retrieve_cli.server.http.state import State

EXAMPLES = ROOT / "retrieve_cli" / "server" / "http" / "examples.json"
VOLATILE = re.compile(r'"(task|created|ended|time|published|generation|current|added|model_sha|version|next)": "[^"]*"')
MOMENTS = re.compile(r'"(age_s|seconds)": [0-9.e-]+')
REQUESTS: dict[str, Any] = {
    "search": {"query": "segment lungs in CT", "limit": 1},
    "search_batch": {"requests": [{"query": "brain MRI", "limit": 1}, {"query": ""}]},
    "retrieve_passages": {"query": "brain MRI", "top_k": 1},
    "rag_retrieve": {"query": "brain MRI", "similarityTopK": 1},
    "search_web": {"query": "off-target", "k": 1, "kind": "literature"},
    "embed": {"texts": ["segment lungs"]},
    "embed_sparse": {"inputs": "segment lungs"},
    "create_embeddings": {"input": "segment lungs"},
    "rerank": {"query": "lungs", "documents": ["brain MRI", "CT of lungs"], "top_n": 1},
    "rerank_texts": {"query": "lungs", "texts": ["brain MRI", "CT of lungs"]},
    "add_documents": {"id": "mytool", "title": "My tool", "text": "Segments lungs."},
    "act_on_index": {"action": "verify"},
}
"""Bodies of examples, in the order in which they are sent."""
PARAMETERS = {"search_by_link": {"q": "brain MRI", "limit": 1}, "list_documents": {"limit": 1}}
AFTER = ("list_tasks", "get_task", "remove_document")
"""Operations on what the requests have made."""
NO_JSON = {"get_metrics", "get_file", "get_picture"}


class Words:
    """A reranker by the number of shared words, and a sparse encoder of two terms."""

    name = "toy-reranker"
    card: ClassVar = {"name": "toy-splade"}

    def score(self, query: str, texts: Any) -> Any:
        return np.array([len({*query.split()} & {*text.split()}) for text in texts], np.float32)

    def encode_passages(self, texts: Any) -> list[TermWeights]:
        return [TermWeights(np.array([2, 3], np.int32), np.array([0.5, 1.5], np.float32)) for _ in texts]


@pytest.fixture(scope="module")
def state(artifacts: Path) -> Iterator[State]:
    """A server in this process that has all parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        patch.chdir(artifacts.parent)
        found = state_of(artifacts)
        encoder = HashedEncoder(64)
        parts = ModelParts(encoder, encoder.card.name, scorer=Words(), sparse=Words)  # type: ignore[arg-type]
        found.models, found.web = (
            Models(lambda: parts),
            WebSearching(made.Canned(made.answer(made.row(1))), deadline_ms=1000),
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def app(state: State) -> ASGIApp:
    return server_app(state)


@pytest.fixture(scope="module")
def description(app: ASGIApp) -> Any:
    return sent(app, ("GET", "/openapi.json", {}))[0].json()


def operations(description: Any) -> dict[str, tuple[str, str, Any]]:
    """Method, path and description of each operation, by its name."""
    return {
        each["operationId"]: (method.upper(), path, each)
        for path, methods in description["paths"].items()
        for method, each in methods.items()
    }


@pytest.fixture(scope="module")
def answers(app: ASGIApp, description: Any) -> dict[str, httpx.Response]:
    """The answer to a good request of each operation."""
    known, found = operations(description), {}
    reading = [name for name in known if name not in REQUESTS and name not in AFTER]
    for name in (*reading, *REQUESTS, *AFTER):
        method, path, _ = known[name]
        id_ = {"get_task": lambda: found["add_documents"].json()["task"], "remove_document": lambda: "mytool"}
        path = path.replace("{id}", id_.get(name, lambda: "lungs")()).replace("{name}", "default")
        body = {"json": REQUESTS[name]} if name in REQUESTS else {}
        options = {"params": PARAMETERS.get(name), "headers": {"Prefer": "wait=30"}}  # tasks have ended
        (found[name],) = sent(app, (method, path, {**body, **options}))
    return found


def shortened(value: Any) -> Any:
    """An answer with the first numbers of long vectors."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    if isinstance(value, list):
        numbers = len(value) > 8 and all(isinstance(part, float) for part in value)
        return value[:4] if numbers else [shortened(part) for part in value]
    return value


def settled(value: Any) -> Any:
    """An answer without ids and times."""
    text = VOLATILE.sub(r'"\1": ""', json.dumps(value))
    return json.loads(MOMENTS.sub(r'"\1": 0', text))


def strict(schema: Any) -> Any:
    """A schema under which an object has no keys that are not described."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) and "type" in schema else {}
    return {**closed, **{key: strict(part) for key, part in schema.items()}}


def expect_valid(value: Any, schema: Any, components: Any) -> None:
    """Hold a value to a schema of the description."""
    whole = {**schema, "components": components}
    errors = [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(whole).iter_errors(value)]
    assert errors == []


def test_each_operation_types_its_answer_and_its_errors_and_names_its_scope(description: Any) -> None:
    found, schemas = operations(description), description["components"]["schemas"]
    assert len(found) == sum(len(methods) for methods in description["paths"].values()) >= 26
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    for name, (_, path, each) in found.items():
        good = {status: answer for status, answer in each["responses"].items() if status < "300"}
        bad = {status: answer for status, answer in each["responses"].items() if status >= "400"}
        assert good, name
        assert all(content["schema"] for one in good.values() for content in one["content"].values()), name
        body, identified = "requestBody" in each, "{" in path
        wanted = {"500"} | ({"400", "413", "422"} if body else set()) | ({"404"} if identified else set())
        wanted |= {"401", "403", "503"} if path not in ("/health", "/readyz") else set()
        assert wanted <= bad.keys(), name
        for one in bad.values():
            assert one["content"]["application/json"]["schema"], name
        scoped = re.search(r"Needs the scope `[a-z:]+`", each.get("description", ""))
        assert bool(scoped) == (path not in ("/health", "/readyz")), name
    text = json.dumps(description)
    assert {*re.findall(r'"#/components/schemas/(\w+)"', text)} <= schemas.keys()
    assert '"x-' not in text


def test_keys_are_security_schemes_once_there_are_keys(app: ASGIApp, description: Any, state: State) -> None:
    assert "securitySchemes" not in description["components"]
    inner = state_of(state.store.path, key="secret")
    try:
        secured = sent(server_app(inner), ("GET", "/openapi.json", {}))[0].json()
    finally:
        inner.close()
    schemes = secured["components"]["securitySchemes"]
    assert (schemes["bearer"]["scheme"], schemes["key"]["name"]) == ("bearer", "X-API-Key")
    for name, (_, path, each) in operations(secured).items():
        assert ("security" in each) == (path not in ("/health", "/readyz")), name


def test_each_answer_is_of_its_type_and_has_no_key_that_is_not_described(
    description: Any, answers: dict[str, httpx.Response]
) -> None:
    components = {"schemas": strict(description["components"]["schemas"])}
    for name, (_, _, each) in operations(description).items():
        answer = answers[name]
        described = each["responses"].get(str(answer.status_code))
        assert described, (name, answer.status_code, answer.text)
        if name not in NO_JSON:
            assert answer.status_code in (200, 202), (name, answer.text)
            expect_valid(answer.json(), described["content"]["application/json"]["schema"], components)


def test_each_example_is_what_the_application_answers(description: Any, answers: dict[str, httpx.Response]) -> None:
    examples = {
        name: {**({"request": REQUESTS[name]} if name in REQUESTS else {}), "answer": shortened(answer.json())}
        for name, answer in answers.items()
        if name not in NO_JSON
    }
    if os.environ.get(WRITE) == "1":
        in_order = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        EXAMPLES.write_bytes(orjson.dumps(rounded(dict(sorted(examples.items()))), option=in_order))
    written = orjson.loads(EXAMPLES.read_bytes())
    assert written.keys() == examples.keys()
    for name, example in examples.items():
        assert list(differences(settled(example), settled(written[name]))) == [], name
    components = description["components"]
    for name, (_, _, each) in operations(description).items():
        if "requestBody" in each:
            content = each["requestBody"]["content"]["application/json"]
            expect_valid(content["example"], content["schema"], components)
        if name not in NO_JSON:
            content = each["responses"]["200"]["content"]["application/json"]
            expect_valid(content["example"], content["schema"], components)


def test_docs_asks_for_the_key_as_other_pages_do(state: State) -> None:
    inner = state_of(state.store.path, key="secret")
    try:
        closed, opened = sent(
            server_app(inner), ("GET", "/docs", {}), ("GET", "/docs", {"headers": {"X-API-Key": "secret"}})
        )
    finally:
        inner.close()
    assert (closed.status_code, opened.status_code) == (401, 200)
    assert read_html(closed.content).one("input", name="key")
    assert "Authorization: Bearer" in read_html(opened.content).text
