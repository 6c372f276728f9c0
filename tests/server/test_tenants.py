"""Two tenants over HTTP: the records of others change no word of an answer, whichever door it comes through."""

import asyncio
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from profiles import examples
from servers import state_of
from tenant_asks import FIXED, IDS, OF_FILES, PLAIN, UNASKED, Ask, bodies, of_id, of_request, post
from tenant_samples import EDGES, FOREIGN, ROWS, TEXT, Row, foreign_words, own, words_of, write_sources

from retrieve_cli.cli.main import main
from retrieve_cli.cli.server_access import warn_without_tenants
from retrieve_cli.contracts.websearch import Page, WebQuery
from retrieve_cli.server.auth.keys import FILE, KeyFile, KeyRing
from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.callers import Callers
from retrieve_cli.websearch.cache import FILE as WEB, PageCache
from retrieve_cli.websearch.items import made

SCOPES = ("search", "documents:write", "web")
"""Scopes that a tenant's key may have without figures of the whole index."""
WEB_QUESTION: dict[str, Any] = {"query": TEXT, "k": 30, "kind": "web"}
ON_THE_WEB = {
    "enabled": True,
    "providers": ["serper"],
    "endpoints": {"https://google.serper.dev": "http://127.0.0.1:9"},
}
VARIES = {"etag", "server-timing", "x-request-id", "date", "content-length", "traceresponse"}
"""Headers that depend on the generation's id, on time, or on the request."""
_NAME = b"G" * 12
"""Stands for the id of the generation, which is another one without the records of others."""
NOISE = re.compile(
    rb"""("(?:request_id|total_ms|age_s|published)": ?|<time datetime=)(?:"[^"]*"(?:>[^<]*)?|null|[0-9.e-]+)"""
)


def routes_of(router: Any) -> Iterator[tuple[str, str]]:
    """Methods and templates of the routes of an application, those of routers that it includes too."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_of(inner)
        else:
            yield from ((method, route.path) for method in getattr(route, "methods", None) or () if method != "HEAD")


class Door:
    """A server of one index in this process, asked by one tenant."""

    def __init__(self, folder: Path, key: str) -> None:
        self.artifacts = artifacts = folder / "artifacts"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            self.state = state_of(artifacts)
            self.state.callers = Callers(ring=KeyRing(KeyFile(artifacts)))
            self._app = server_app(self.state)
        self._generation = (artifacts / "current").read_text().strip().encode()
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        application: Any = self._app
        while not hasattr(application, "routes"):
            application = application._app
        self.routes = set(routes_of(application))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()
        self.state.close()

    def knows(self, ask: Ask) -> bool:
        return (ask.method, ask.route) in self.routes

    def answer(self, ask: Ask, key: str | None = None) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return status, headers and body, without the generation's id and what depends on time."""
        headers = {**self._headers, **ask.headers, **({} if key is None else {"Authorization": f"Bearer {key}"})}
        path = ask.path.replace(_NAME.decode(), self._generation.decode())  # a cursor of an answer names it
        request = self._client.request(ask.method, path, content=ask.content, headers=headers)
        response = self._loop.run_until_complete(request)
        assert response.headers.get_list("x-content-type-options") == ["nosniff"], ask
        kept = sorted((name, value) for name, value in response.headers.items() if name not in VARIES)
        return response.status_code, kept, NOISE.sub(rb"\1null", response.content.replace(self._generation, _NAME))


def build(folder: Path, rows: Sequence[Row], *, foreign: bool, keys: Path | None = None) -> str:
    """Build an index of all rows, or of those of acme, and return a key of acme; none if there are `keys`."""
    write_sources(folder, rows, EDGES, foreign=foreign, web=ON_THE_WEB)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("RETRIEVE_ENCODER__KIND", raising=False)
        assert main(["build", "--catalog", "tools.jsonl", "-q"]) == 0
    if keys is not None:
        shutil.copy(keys / "artifacts" / FILE, folder / "artifacts" / FILE)
        return ""
    return KeyFile(folder / "artifacts").create(SCOPES, tenant="acme").text


def stored_for_others(folder: Path) -> None:
    """Store an answer from the web to the tenant's question for everybody but the tenant."""
    item = made(type="web", title="Cells", ids_=(), url="https://example.org/cells")
    cache = PageCache(folder / "artifacts" / WEB, keep_s=3600)
    for owner in ("", "tenant beta", "key acme"):
        cache.put(owner, "serper", WebQuery(WEB_QUESTION["query"], WEB_QUESTION["k"]), Page((item,), "q"))


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterable[tuple[Door, Door]]:
    """Servers of an index of all records, and of one of the tenant's own."""
    folder = tmp_path_factory.mktemp("tenants")
    patch = pytest.MonkeyPatch()
    patch.setenv("SERPER_API_KEY", "x")
    key = build(folder / "all", ROWS, foreign=True)
    build(folder / "own", ROWS, foreign=False, keys=folder / "all")
    both = Door(folder / "all", key), Door(folder / "own", key)
    stored_for_others(folder / "all")
    yield both
    for door in both:
        door.close()
    patch.undo()


def compare(
    doors: tuple[Door, Door], asks: Iterable[Ask], *, cut: bool = False
) -> list[tuple[int, list[tuple[str, str]], bytes]]:
    """Return the answers, which have the same words with and without the records of others, and tell nothing of them.
    If scores `cut` the answers, words may differ."""
    answers = []
    for ask in asks:
        if doors[0].knows(ask):
            with_others, without = (door.answer(ask) for door in doors)
            assert with_others[0] == without[0], ask
            assert cut or _in_words(with_others) == _in_words(without), ask
            assert with_others[0] < 500, (ask, with_others)
            answers.append(with_others)
            words = foreign_words(str(ask) + httpx.URL(ask.path).path + str(ask.body))
            beginnings = {word[:size] for word in words for size in range(len(word) + 1)}  # the page cuts long texts
            assert told(with_others[2]) <= beginnings, ask
    return answers


def _in_words(answer: tuple[int, list[tuple[str, str]], bytes]) -> tuple[int, list[tuple[str, str]], list[str]]:
    status, headers, body = answer
    return status, headers, words_of(body.decode("utf-8", "replace"))


def told(body: bytes) -> set[str]:
    """Names of others in a body, besides those that the tenant's own records contain."""
    text = body.decode("utf-8", "replace")
    with suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False)
    owned = foreign_words(json.dumps([row for row in ROWS if row["id"].startswith("a")]))
    return foreign_words(text) - owned


@pytest.mark.parametrize("body", FIXED, ids=json.dumps)
def test_a_search_for_what_others_have_is_answered_as_if_they_were_not_there(doors, body) -> None:
    assert compare(doors, of_request(body))


def test_every_door_that_takes_an_id_knows_no_foreign_one(doors: tuple[Door, Door]) -> None:
    compare(doors, [ask for name in IDS for ask in of_id(name) if ask.method == "GET" or FOREIGN in name])


def test_lists_hold_the_tenants_own_records_alone(doors: tuple[Door, Door]) -> None:
    compare(doors, PLAIN)


def test_what_others_have_asked_on_the_web_is_not_there(doors: tuple[Door, Door]) -> None:
    ((status, _, body),) = compare(doors, [post("/web", WEB_QUESTION)])
    answer = json.loads(body)
    assert (status, [each["status"] for each in answer["providers"]], answer["results"]) == (200, ["unreachable"], [])
    beta = KeyFile(doors[0].artifacts).create(SCOPES, tenant="beta").text
    status, _, body = doors[0].answer(post("/web", WEB_QUESTION), beta)
    assert [each["title"] for each in json.loads(body)["results"]] == ["Cells"]


@settings(max_examples=examples(0.5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies())
def test_any_search_is_answered_as_if_others_were_not_there(doors: tuple[Door, Door], body: dict[str, Any]) -> None:
    compare(doors, of_request(body), cut=True)


def test_a_foreign_id_gets_the_answer_of_an_unknown_one(doors: tuple[Door, Door]) -> None:
    for ask in of_id("zq0"):
        for status, _, _ in compare(doors, [ask]):
            assert status == 404 or ask.route == "/mcp", ask  # of MCP, errors of tools have status 200


def test_a_list_is_read_to_its_end_page_by_page(doors: tuple[Door, Door]) -> None:
    first = Ask("GET", "/documents", "/documents?limit=2")
    if not doors[0].knows(first):
        pytest.skip("there is no such door")
    path, ids = first.path, []
    while path:
        ((_, _, body),) = compare(doors, [first._replace(path=path)])
        page = json.loads(body)
        names = [record["id"] for record in next(value for value in page.values() if isinstance(value, list))]
        ids += names
        cursor = page.get("next")
        path = f"/documents?limit=2&cursor={cursor}" if cursor else ""
    assert ids == sorted(row["id"] for row in ROWS if row["id"].startswith("a"))


def test_another_tenant_is_named_in_vain(doors: tuple[Door, Door]) -> None:
    for tenant in ("beta", "nobody", "ACME", "acme ", ""):
        status, _, body = doors[0].answer(Ask("POST", "/search", "/search", {"query": TEXT, "tenant": tenant}))
        assert (status, json.loads(body)["error"]["kind"]) == (403, "forbidden")
    assert doors[0].answer(Ask("POST", "/search", "/search", {"query": TEXT, "tenant": "acme"}))[0] == 200


def test_every_door_takes_the_requests_that_it_is_asked(doors: tuple[Door, Door]) -> None:
    of_records = (ask for ask in of_id("a0") if ask.route not in OF_FILES)
    asks = [*of_request({"query": TEXT, "filters": ["license=MIT"]}), *of_records]
    answers = {str(ask): doors[0].answer(ask) for ask in asks if doors[0].knows(ask) and ask.method != "DELETE"}
    assert [
        (ask, answer) for ask, answer in answers.items() if answer[0] != 200 or b'"isError":true' in answer[2]
    ] == []


def test_every_route_is_asked_or_has_a_reason(doors: tuple[Door, Door]) -> None:
    asks = [*of_request({"query": TEXT}), *of_id("a0"), *PLAIN]
    asked = {(ask.method, ask.route) for ask in asks}
    assert doors[0].routes - asked - UNASKED.keys() == set()


def test_on_an_index_without_tenants_a_tenant_finds_nothing_as_on_one_that_has_none_of_it(tmp_path: Path) -> None:
    rows = [own(at, text, tenant="beta") for at, text in enumerate(("Opens single cell matrices.", "Stores tables."))]
    key = build(tmp_path / "others", rows, foreign=True)
    nobodys = [{name: value for name, value in row.items() if name != "tenant"} for row in rows]
    build(tmp_path / "none", nobodys, foreign=True, keys=tmp_path / "others")
    both = Door(tmp_path / "others", key), Door(tmp_path / "none", key)
    warnings: list[str] = []
    for door in both:
        warn_without_tenants(door.state.callers, door.state.live.index, warnings.append)
    assert ["no record has" in warning for warning in warnings] == [True]
    asks = [ask for body in FIXED for ask in of_request(body)] + [ask for name in IDS[:4] for ask in of_id(name)]
    try:
        answers = [[door.answer(ask) for door in both] for ask in asks if both[0].knows(ask)]
    finally:
        for door in both:
            door.close()
    for with_others, without in answers:
        assert with_others == without
        assert b"single cell matrices." not in with_others[2]
        assert b"give the records a field" not in with_others[2]  # the operator's business
