"""Every address of the configuration that a command asks, behind which a server answers nonsense."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bad_input.speech import RAW_CONTROLS, unforeseen
from program.clones import reaching_keys
from samples import TOOLS, Program, write_catalog
from told_servers import NONSENSE, Answer, serving

from retrieve_cli.assemble.websearch import provider
from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.query_settings import PROVIDERS
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.config.trust import way_of
from retrieve_cli.errors import Exit
from retrieve_cli.server.auth.web_tokens import KeySet, UrlOrigin

_ONCE = {"timeout_s": 2, "retries": 0}
BUILD = ("build", "--catalog", "tools.jsonl")
ELSEWHERE = {
    "engines.dense": "qdrant.url and others, which are here",
    "engines.lexical": "the same",
    "engines.sparse": "the same",
    "models.auto_download": "tests/program/test_downloads.py",
    "web.enabled": "web.endpoints",
    "serve.picture_hosts": "tests/server/test_page.py: browsers load these pictures, the program never",
    "jwt.jwks_url": "below: the key set of a server, which no command reads",
}
"""Keys by which a server is asked that are tested under another name."""


class Client(NamedTuple):
    """A command that asks a server."""

    words: tuple[str, ...]
    settings: Callable[[str], Mapping[str, Any]]
    """The configuration for an address."""


def model(section: str, **settings: Any) -> Callable[[str], Mapping[str, Any]]:
    return lambda url: {section: {"model": "m", "base_url": f"{url}/v1", **_ONCE, **settings}}


def engine(name: str, **settings: Any) -> Callable[[str], Mapping[str, Any]]:
    return lambda url: {name: {"url": url, "timeout_s": 2, **settings}, "engines": {"dense": name}}


def source(kind: str, key: str, **settings: Any) -> Callable[[str], Mapping[str, Any]]:
    return lambda url: {"sources": [{"kind": kind, "name": "far", key: f"{url}/a.jsonl", **_ONCE, **settings}]}


CLIENTS: Mapping[str, Client] = {
    "encoder.base_url": Client(BUILD, model("encoder", kind="remote", build_timeout_s=2)),
    "facets.base_url": Client(BUILD, lambda url: {"facets": {"model": "m", "base_url": f"{url}/v1", "retries": 0}}),
    "rerank.base_url": Client(("query", "brain"), model("rerank", backend="remote")),
    "rerank.base_url of a chat model": Client(("query", "brain"), model("rerank", backend="llm")),
    "llm.base_url": Client(("query", "brain", "--mode", "llm"), model("llm")),
    "query.server": Client(("query", "brain"), lambda url: {"query": {"server": url}}),
    "qdrant.url": Client(("engines", "status"), engine("qdrant")),
    "opensearch.url": Client(("engines", "status"), engine("opensearch")),
    "sources.url": Client(("build",), source("http", "url")),
    "sources.url of mcp": Client(("build",), source("mcp", "url")),
    "sources.endpoint": Client(("build",), source("sparql", "endpoint", query="all.rq")),
    **{
        f"web.endpoints of {name}": Client(
            ("web", "crispr", "--provider", name, "--max-age", "off"),
            lambda url, name=name: {  # type: ignore[misc]
                "web": {
                    "enabled": True,
                    "providers": [name],
                    "endpoints": dict.fromkeys(provider(name, Settings()).servers, url),
                }
            },
        )
        for name in PROVIDERS
    },
}
WAITING = ("web",)
"""Clients that wait between requests: fewer bodies."""
SILENT = {
    "executors.executor": "no HTTP: the cluster of a package",
    "pgvector.url": "no HTTP: a server of another protocol, once",
}


def test_every_address_of_the_configuration_is_one_of_these() -> None:
    asked = ("address", "download")
    keys = {f"{key.section}.{key.name}" for key in reaching_keys() if key.way in asked}
    keys |= {f"sources.{field.name}" for field in keys_of(SourceSetting) if way_of(field) in asked}
    assert keys == {name.partition(" ")[0] for name in CLIENTS} | ELSEWHERE.keys() | SILENT.keys()


@pytest.fixture
def folder(retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with an index."""
    for name in ("TAVILY_API_KEY", "SERPER_API_KEY", "SERPAPI_API_KEY"):
        monkeypatch.setenv(name, "sesame")
    write_catalog(Path("tools.jsonl"), TOOLS)
    Path("all.rq").write_text("SELECT ?id WHERE { ?id ?p ?o } ORDER BY ?id")
    assert retrieve(*BUILD).code == 0
    return Path()


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("name", CLIENTS)
def test_nonsense_ends_in_an_answer_or_in_an_error_that_names_the_server(
    folder: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, name: str, status: int
) -> None:
    client, said = CLIENTS[name], [b""]
    bodies = NONSENSE[:: 6 if name.startswith(WAITING) else 1]
    headers = {"Content-Type": "application/json", "Retry-After": "-1e400", "ETag": "\x9b31m"}
    asked = 0

    def answer(_: object) -> Answer:
        nonlocal asked
        asked += 1
        return Answer(said[0], status, headers)

    with serving(answer) as url:
        settings = dict(client.settings(url))
        called = (url.partition("//")[2], "far:", f"{name.rpartition(' ')[2]}:")
        Path("config.yaml").write_text(json.dumps(settings))
        if "encoder" in settings:
            monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
        for body in bodies:
            said[0] = body
            done = retrieve(*client.words)
            assert done.code in set(Exit), (body[:60], done)
            assert not unforeseen(done.err), (body[:60], done.err)
            assert not RAW_CONTROLS & set((done.out + done.err).replace("\r\n", "\n")), (body[:60], done)
            if done.code:
                assert any(each in done.err + done.out for each in called), (body[:60], done)
    assert asked >= len(bodies), "nobody asked the server"


@pytest.mark.parametrize("status", [200, 400])
def test_a_key_set_that_is_nonsense_is_said_and_holds_no_key(status: int) -> None:
    said: list[str] = []
    body = [b""]
    with serving(lambda _: Answer(body[0], status)) as url:
        for body[0] in NONSENSE:
            said.clear()
            keys = KeySet(UrlOrigin(url), say=said.append)
            keys.reload()
            assert not keys.knows(None)
            assert url.partition("//")[2] in "".join(said), body[0][:60]


def test_a_server_of_another_protocol_is_named(folder: Path, retrieve: Program) -> None:
    with serving(lambda _: Answer(b"x" * 1000)) as url:
        host = url.partition("//")[2]
        Path("config.yaml").write_text(json.dumps(engine("pgvector")(f"postgresql://me@{host}/postgres")))
        done = retrieve("engines", "status")
        assert not unforeseen(done.err)
        assert host in done.err + done.out
