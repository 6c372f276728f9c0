"""`POST /web`: reading of requests, scopes and failures."""

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import web_answers as made
from jsonschema import Draft202012Validator
from server.doors import web_client
from servers import served, state_of
from waiting import PATIENCE_S

from retrieve_cli.api.web import read_web
from retrieve_cli.api.web_choices import WEB
from retrieve_cli.errors import UsageError
from retrieve_cli.search.web_answer import WebAnswer, WebOptions
from retrieve_cli.server.http import pool

# ---------------------------------------------------------------------------------------------- requests


def test_a_request_has_all_choices_in_all_spellings() -> None:
    chosen = {"kind": "literature", "first": True, "deadline_ms": 1500}
    spelt = {"provider": "pubmed, arxiv", "category": ["q-bio", "cs.AI"], "since": 2024, "max_age": "2h"}
    asked = read_web({"q": " off-target ", "max_results": 5, **chosen, **spelt})
    several: Any = {"providers": ("pubmed", "arxiv"), "categories": ("q-bio", "cs.AI")}
    assert asked == WebOptions(text="off-target", k=5, since="2024", max_age_s=7200.0, **chosen, **several)
    for spelling, name in WEB.aliases.items():
        assert WEB.of_json[name]
        values: dict[str, Any] = {"query": "x", "k": 3, "providers": "arxiv", "categories": "q-bio"}
        plain = {"query": "x", name: values[name]}
        aliased = {**{key: value for key, value in plain.items() if key != name}, spelling: values[name]}
        assert read_web(aliased) == read_web(plain), spelling


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        ({"query": "x", "kinds": "web"}, "unknown key 'kinds'", "did you mean `kind`?"),
        ({"query": "  "}, "has no query", "for example"),
        ({"query": "x", "k": 0}, "`k` of the request must be from 1 to 100", "Number of results"),
        ({"query": "x", "since": "2024-13"}, "`since` of the request is not a date", "2024-03"),
        ({"query": "x", "k": 3, "limit": 4}, "`k` and `limit`, which mean the same", "remove one"),
        ({"query": "x" * 2001}, "`query` of the request has 2,001 characters", "query"),
    ],
)
def test_a_wrong_request_is_an_error_that_names_the_key(item: Any, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_web(item)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_schema_accepts_what_is_read() -> None:
    Draft202012Validator.check_schema(WEB.schema())
    check = Draft202012Validator(WEB.schema())
    assert check.is_valid({"q": "x", "since": "2024-03", "providers": ["s2"], "max_age": 60})
    assert not check.is_valid({"q": "x", "since": "March"})
    assert not check.is_valid({"k": 3})


# -------------------------------------------------------------------------------------------------- door


@pytest.mark.anyio
async def test_a_partial_answer_has_status_200_and_equal_requests_give_equal_bytes(artifacts: Path) -> None:
    search = made.Canned(made.answer(made.row(), made.PREPRINT, statuses=(made.OK, made.FAILED)))
    async with web_client(artifacts, search) as client:
        first = await client.post("/web", json={"query": "off-target", "k": 2})
        second = await client.post("/web", json={"k": 2, "q": "off-target"})
    assert first.status_code == 200, first.text
    assert first.json()["partial"] is True
    assert [result["id"] for result in first.json()["results"]] == ["doi:10.1000/w1", "doi:10.1000/pre"]
    states = {status["provider"]: status["status"] for status in first.json()["providers"]}
    assert states == {"pubmed": "ok", "s2": "rate_limited"}
    assert first.content == second.content
    assert search.asked[0] == search.asked[1]


@pytest.mark.anyio
async def test_a_search_needs_the_scope_web_which_search_does_not_imply(artifacts: Path) -> None:
    search = made.Canned(made.answer(made.row()))
    async with web_client(artifacts, search, "search,documents:write,index:admin,metrics") as client:
        answer = await client.post("/web", json={"query": "x"})
        assert answer.status_code == 403
        assert "does not have the scope web" in answer.text
    assert search.asked == []
    async with web_client(artifacts, search, "web", tenant="acme") as client:
        assert (await client.post("/web", json={"query": "x"})).status_code == 200
        assert (await client.post("/search", json={"query": "x"})).status_code == 403
    assert len(search.asked) == 1, "nothing was sent for requests that are not permitted"


@pytest.mark.anyio
async def test_a_server_without_web_search_says_how_to_enable_it(artifacts: Path) -> None:
    state = state_of(artifacts)
    assert not state.web.enabled
    async with served(state) as client:
        answer = await client.post("/web", json={"query": "x"})
        assert answer.status_code == 422
        assert answer.json()["error"]["hint"].endswith("set web.enabled: true in config.yaml")
        wrong = await client.post("/web", json={"query": "x", "quary": "y"})
        assert (wrong.status_code, wrong.json()["error"]["hint"]) == (422, "did you mean `query`?")


@pytest.mark.anyio
async def test_searches_beyond_the_queue_get_503_and_local_ones_are_answered_meanwhile(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_AT_ONCE", 1)
    monkeypatch.setattr(pool, "_WAITING", 0)
    begun, released = Event(), Event()

    def slowly(options: WebOptions) -> WebAnswer:
        begun.set()
        assert released.wait(PATIENCE_S)
        return made.answer(made.row(), options=options)

    async with web_client(artifacts, made.Canned(slowly)) as client:
        waiting = asyncio.ensure_future(client.post("/web", json={"query": "x"}))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        rejected = await client.post("/web", json={"query": "y"})
        local = await client.post("/search", json={"query": "lungs"})
        released.set()
        assert rejected.status_code == 503
        assert rejected.headers["Retry-After"]
        assert local.status_code == 200
        assert (await waiting).status_code == 200
