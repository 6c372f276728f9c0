"""Failures of servers, as drivers report them; and values as servers store them."""

import base64
import json
import socket
import sys
from collections.abc import Callable
from importlib import import_module

import pytest
from engines.rows import NAMES, queries, row
from hypothesis import example, given, strategies as st
from told_servers import NONSENSE, Answer, Asked, serving

from retrieve_cli.config.index_settings import OpensearchSettings, QdrantSettings
from retrieve_cli.contracts.engines import Engine, Equal, Range, Schema
from retrieve_cli.engines import rows
from retrieve_cli.engines.opensearch import OpensearchEngine
from retrieve_cli.engines.qdrant import QdrantEngine
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError

NAME = NAMES[0]
SCHEMA = Schema({"dense": 8}, {"splade": False})
SECRET = "pä:ss\n1"
KINDS: dict[str, Callable[[str], Engine]] = {
    "Qdrant": lambda url: QdrantEngine(QdrantSettings(url=url, timeout_s=2), api_key="k3y-secret"),
    "OpenSearch": lambda url: OpensearchEngine(OpensearchSettings(url=url, timeout_s=2), user="ann", password=SECRET),
}
CALLS: dict[str, Callable[[Engine], object]] = {
    "create": lambda engine: engine.create(NAME, SCHEMA),
    "upsert": lambda engine: engine.upsert(NAME, [row(1, SCHEMA)]),
    "delete": lambda engine: engine.delete(NAME, ["a"]),
    "search": lambda engine: engine.search(NAME, queries(SCHEMA), Range("numbers", "year", 1), 3, contents=True),
    "count": lambda engine: engine.count(NAME, Equal("tenants", ["a"])),
    "drop": lambda engine: engine.drop(NAME),
    "snapshot": lambda engine: engine.snapshot(NAME),
    "published": lambda engine: engine.published(),
    "publish": lambda engine: engine.publish(NAME, "b" * 12),
    "describe": lambda engine: engine.describe(),
    "problems": lambda engine: engine.problems(),
}
engines = pytest.mark.parametrize("product", KINDS)


def failure(call: Callable[[], object]) -> RetrieveError | None:
    """Return the error of a call; None if it gives an answer."""
    try:
        call()
    except RetrieveError as error:
        return error
    return None


@engines
@pytest.mark.parametrize("status", [200, 404, 429, 500])
def test_nonsense_is_an_answer_or_an_error_that_names_the_server(product: str, status: int) -> None:
    body = [b""]
    kind = {"content-type": "application/json", "retry-after": "nonsense"}
    with serving(lambda _: Answer(body[0], status, kind)) as url:
        engine = KINDS[product](url)
        for body[0] in NONSENSE:
            for name, call in CALLS.items():
                error = failure(lambda call=call: call(engine))  # type: ignore[misc]
                if error is not None:
                    assert product in error.message or url in error.message, (name, body[0], error.message)
                    assert error.hint, name


@engines
@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [(400, Unavailable, "400"), (401, Unavailable, "401"), (404, IndexCorrupt, NAME), (503, Unavailable, "503")],
)
def test_a_rejected_search_is_an_error_in_the_words_of_the_server(
    product: str, status: int, kind: type[RetrieveError], message: str
) -> None:
    reasons: dict[str, object] = {
        "Qdrant": {"status": {"error": "on fire: k3y-secret"}},
        "OpenSearch": {"error": {"type": "x", "reason": f"on fire: {SECRET}", "root_cause": []}},
    }
    answer = Answer(json.dumps(reasons[product]).encode(), status, {"content-type": "application/json"})
    with serving(lambda _: answer) as url, pytest.raises(kind, match="on fire: ") as caught:
        CALLS["search"](KINDS[product](url))
    assert message in caught.value.message
    assert caught.value.hint
    for secret in ("k3y-secret", "ss\n1", "ss\\n1"):
        assert secret not in f"{caught.value} {caught.value.hint} {vars(caught.value)}"


@engines
def test_a_dropped_connection_is_opened_once_more(product: str) -> None:
    asked = list[Asked]()
    bodies = {"Qdrant": b'{"result": {"aliases": []}, "status": "ok", "time": 0}', "OpenSearch": b"{}"}

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return Answer(bodies[product], headers={"content-type": "application/json"}, drop=len(asked) == 1)

    with serving(answer) as url:
        assert KINDS[product](url).published() is None
    assert len(asked) == 2


@engines
def test_a_silent_server_is_not_waited_for(product: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = KINDS[product](f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unavailable, match="within 2 s") as caught:
            engine.published()
    assert f"{product.lower()}.timeout_s" in caught.value.hint


@engines
@pytest.mark.parametrize("url", ["ftp://localhost", "http://", "http://[", "http://ann:s3cret@localhost:1"])
def test_an_address_that_is_none_or_has_a_password_is_an_error_that_does_not_repeat_it(product: str, url: str) -> None:
    with pytest.raises(UsageError, match=rf"{product.lower()}\.url") as caught:
        KINDS[product](url)
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"


@engines
def test_a_missing_package_is_named_with_its_install_line(product: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = product.lower()
    monkeypatch.setitem(sys.modules, {"qdrant": "qdrant_client", "opensearch": "opensearchpy"}[name], None)
    monkeypatch.delitem(sys.modules, f"retrieve_cli.engines.{name}")
    with pytest.raises(Unavailable, match="is not installed") as caught:
        import_module(f"retrieve_cli.engines.{name}")
    assert caught.value.hint == f"pip install 'retrieve-cli[{name}]'"


def test_a_password_of_any_characters_is_sent() -> None:
    asked = list[Asked]()

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return Answer(b"{}", headers={"content-type": "application/json"})

    with serving(answer) as url:
        KINDS["OpenSearch"](url).published()
    assert base64.b64decode(asked[0].headers["authorization"].removeprefix("Basic ")) == f"ann:{SECRET}".encode()


@example([("a", "b=c"), ("a=b", "c")])
@example([("", "x"), ("#", "x")])
@example([("a", "x" * 40_000), ("a", "x" * 40_001)])
@example([("a", "\ud800"), ("a", "\\ud800")])
@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_different_values_have_different_keywords(pairs: list[tuple[str, str]]) -> None:
    first, second = (rows.keyword(*pair) for pair in pairs)
    assert first != second
    assert max(len(each.encode()) for each in (first, second)) <= rows.LONGEST
    fields = [pair[0] for pair in pairs]
    assert (rows.number_key(fields[0]) == rows.number_key(fields[1])) == (fields[0] == fields[1])
