"""The doors of the web search with the real search behind them, which asks fakes of the providers on loopback."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client
from mcp_clients import connected, text_of
from samples import Program
from servers import built, served, state_of
from tenant_asks import mcp
from websearch.fakes.server import Fakes, faking

from retrieve_cli.server.auth.keys import KeyFile, KeyRing
from retrieve_cli.server.http.callers import Callers

QUESTION = {"query": "crispr off-target", "k": 10, "since": "2024", "kind": "web"}
"""The question to which the fakes of the web have answers."""
KEYS = {"TAVILY_API_KEY": "quetzal-tavily", "SERPER_API_KEY": "quetzal-serper"}
SERPER = "https://google.serper.dev"


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    return built(tmp_path)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fakes of the providers, and a configuration that asks them."""
    environment = {**KEYS, "RETRIEVE_ENCODER__KIND": "hashed"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with faking() as made:
        made.any_question = True
        web = {"enabled": True, "providers": ["tavily", "serper", "arxiv"]}
        Path("config.yaml").write_text(yaml.safe_dump({"web": {**web, "endpoints": made.endpoints}}), "utf-8")
        yield made


def serving(artifacts: Path) -> AbstractAsyncContextManager[Any]:
    """Return a client of a server with the configuration of the current folder."""
    return served(state_of(artifacts))


@asynccontextmanager
async def agent_of(artifacts: Path) -> AsyncIterator[Client]:
    """Yield a client of the server's MCP tools, with its web search."""
    state = state_of(artifacts)
    async with connected(artifacts, texts="both", web=state.web.search) as client:
        yield client
    state.close()


@pytest.mark.anyio
async def test_the_route_and_the_command_give_the_same_results(
    artifacts: Path, fakes: Fakes, retrieve: Program
) -> None:
    async with serving(artifacts) as client:
        answer = await client.post("/web", json=QUESTION)
        assert answer.status_code == 200, answer.text
        sent = len(fakes.calls)
        again = (await client.post("/web", json=QUESTION)).json()
        assert len(fakes.calls) == sent
    assert fakes.unknown == []
    assert sent == 2
    results = answer.json()["results"]
    assert results
    assert {source["provider"] for result in results for source in result["found_by"]} == {"tavily", "serper"}
    assert not answer.json()["partial"]
    assert again["results"] == results
    words = ("web", QUESTION["query"], "-k", "10", "--since", "2024", "--kind", "web")
    command = retrieve(*words, "--artifacts", artifacts, "--json")
    assert command.json["results"] == results
    for secret in KEYS.values():
        assert secret not in answer.text


@pytest.mark.anyio
@pytest.mark.parametrize("asking", ["tenant acme", "key one"])
async def test_what_is_stored_for_one_caller_answers_no_other(artifacts: Path, fakes: Fakes, asking: str) -> None:
    state, keys = state_of(artifacts), KeyFile(artifacts)
    tenants = {"tenant acme": "acme", "tenant beta": "beta", "key one": None, "key two": None}
    texts = {name: keys.create(("search", "web"), tenant=tenant).text for name, tenant in tenants.items()}
    texts["another key of tenant acme"] = keys.create(("web",), tenant="acme").text
    state.callers = Callers(ring=KeyRing(keys))
    async with served(state) as client:

        async def sends(name: str) -> bool:
            """Return True if a search of a caller is sent to providers."""
            sent, headers = len(fakes.calls), {"Authorization": f"Bearer {texts[name]}"}
            assert (await client.post("/web", json=QUESTION, headers=headers)).json()["results"]
            return len(fakes.calls) > sent

        assert await sends(asking)
        same = {asking, "another key of tenant acme"} if asking == "tenant acme" else {asking}
        assert {name for name in texts if not await sends(name)} >= same
        others = [name for name in texts if name not in same]
        tool = mcp("tools/call", name="web_search", arguments=QUESTION)
        for name, is_sent in ((asking, False), (others[0], False)):
            sent, credential = len(fakes.calls), {"Authorization": f"Bearer {texts[name]}"}
            headers = {**tool.headers, **credential, "Content-Type": "application/json"}
            answered = await client.request("POST", tool.path, content=tool.content, headers=headers)
            assert answered.status_code == 200
            assert (len(fakes.calls) > sent) is is_sent


@pytest.mark.anyio
async def test_a_provider_that_permits_no_request_makes_the_answer_partial_at_every_door(
    artifacts: Path, fakes: Fakes
) -> None:
    fakes.misbehave(SERPER, "429 with Retry-After")
    async with serving(artifacts) as client:
        answer = await client.post("/web", json=QUESTION)
    assert answer.status_code == 200
    assert answer.json()["partial"] is True
    states = {status["provider"]: status["status"] for status in answer.json()["providers"]}
    assert states == {"tavily": "ok", "serper": "rate_limited"}
    async with agent_of(artifacts) as client:
        told = await client.call_tool("web_search", {key: QUESTION[key] for key in ("query", "kind", "since")})
    assert text_of(told).startswith("partial answer; failed: serper (rate_limited)")
    assert told.structured_content["results"]


@pytest.mark.anyio
async def test_a_provider_that_is_not_configured_is_an_error_with_a_hint_and_nothing_is_sent(
    artifacts: Path, fakes: Fakes
) -> None:
    async with serving(artifacts) as client:
        answer = await client.post("/web", json={**QUESTION, "providers": "pubmed"})
    assert answer.status_code == 422
    assert "web.providers" in answer.json()["error"]["hint"]
    assert fakes.calls == []
