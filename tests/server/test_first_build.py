"""A server without an index builds one from its sources, and says so meanwhile.

Seed A: "Software tools are pre-embedded at startup (unless EMBED_CATALOG_ON_START=0)" from SOFTWARE_CATALOG; "The
auto-refresh background thread calls this automatically when SYNC_EVERY_HOURS > 0"."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from program.clones import untrusted
from samples import TOOLS, Program, write_catalog
from servers import served, started
from waiting import until

from retrieve_cli.api.documents import Documents
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.cli.serve import syncs_of
from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Json
from retrieve_cli.http.secrets import Secret
from retrieve_cli.server.http.callers import Callers
from retrieve_cli.server.http.pool import Pool
from retrieve_cli.server.http.state import State
from retrieve_cli.server.http.sync_command import STOPPED
from retrieve_cli.server.http.syncing import Syncing, SyncOptions
from retrieve_cli.storage.store import Store

HASHED = {"RETRIEVE_ENCODER__KIND": "hashed"}


def options(environment: Mapping[str, str]) -> SyncOptions:
    """The syncs of a server without flags, in this folder."""
    shared: Any = type("Flags", (), {"config": None})
    return syncs_of(shared, load(None, environment), None, "0s")


def state_with(syncs: SyncOptions, key: str | None = None) -> State:
    live = LiveIndex(Store(Path("artifacts")), load(None))
    return State(live, Pool(1, 8), Callers(None if key is None else Secret(key)), public_url="http://test", syncs=syncs)


async def health(state: State, *, key: str = "") -> dict[str, Json]:
    async with served(state, {"Authorization": f"Bearer {key}"}) as client:
        found: dict[str, Json] = (await client.get("/health")).json()
        return found


def test_a_catalog_of_the_environment_is_built_in_the_background(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "tools.jsonl", TOOLS)
    store = Store(tmp_path / "artifacts")
    lock = ExitStack()
    lock.enter_context(store.writer())
    with lock, started(store.path, cwd=tmp_path, SOFTWARE_CATALOG=str(catalog), **HASHED) as server:
        reply = server.get("/health")
        assert (reply.status, reply.json()["status"]) == (200, "building")
        assert set(reply.json()) == {"status", "started", "progress"}
        assert server.get("/readyz").json()["checks"]["index"]["message"] == "the index is being built"
        assert server.get("/readyz").status == 503
        answer = server.post("/search", {"query": "lungs"})
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json()["error"]["message"] == "the index is being built"
        lock.close()
        until(lambda: server.get("/health").json() == {"status": "ok"}, "the first index", progress=store.live)
        assert server.search(query="lungs")["results"]
        assert server.get("/readyz").status == 200


def test_the_default_is_on_and_zero_is_off(tmp_path: Path) -> None:
    catalog = {"SOFTWARE_CATALOG": "tools.jsonl"}
    assert options(catalog).first
    assert options({**catalog, "EMBED_CATALOG_ON_START": "1"}).first
    assert not options({**catalog, "EMBED_CATALOG_ON_START": "0"}).first
    assert not options({}).first
    assert not load(None, catalog).syncs_each_time


def test_a_query_on_the_command_line_builds_nothing(tmp_path: Path, retrieve: Program, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOFTWARE_CATALOG", str(write_catalog(tmp_path / "tools.jsonl", TOOLS)))
    done = retrieve("query", "lungs", "--artifacts", "fresh")
    assert done.code == 4
    assert "retrieve build" in done.err


def test_a_build_that_fails_says_why_and_is_tried_again_when_asked(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOFTWARE_CATALOG", str(tmp_path / "tools.jsonl"))
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
    state = state_with(options({"SOFTWARE_CATALOG": "tools.jsonl"}))

    async def asked() -> None:
        async with served(state) as client:
            state.start()
            assert (await client.get("/health")).json()["status"] == "building"
            await asyncio.to_thread(until, lambda: state.syncing.state()["status"] == "build_failed", "its end")
            reply = (await client.get("/health")).json()
            assert "tools.jsonl" in reply["error"]["message"]
            assert "POST /index" in reply["hint"]
            answer = await client.post("/search", json={"query": "lungs"})
            assert answer.status_code == 503
            assert answer.json()["error"]["message"].endswith("its build failed")
            write_catalog(tmp_path / "tools.jsonl", TOOLS)
            await client.post("/index", json={"action": "sync"}, headers={"Prefer": "wait=60"})
            await asyncio.to_thread(until, lambda: state.live.opened, "the index")
            assert (await client.get("/health")).json() == {"status": "ok"}
            assert (await client.post("/search", json={"query": "lungs"})).json()["results"]

    asyncio.run(asked())


def test_sources_out_of_a_cloned_folder_wait_for_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_catalog(tmp_path / "private.jsonl", TOOLS)
    clone = tmp_path / "clone"
    clone.mkdir()
    untrusted(monkeypatch, clone)
    (clone / "tools.jsonl").symlink_to("../private.jsonl")
    (clone / "config.yaml").write_text("sources: [{kind: catalog, path: tools.jsonl}]\n")
    state = state_with(options({}), key="kkkkkkkkkkkkkkkk")
    state.syncing.start()
    until(lambda: state.syncing.state()["status"] == "build_failed", "the end of the build")
    found = state.syncing.state()
    assert "you did not agree" in found["error"]["message"]
    assert "retrieve trust" in found["error"]["hint"]
    assert state.store.live() is None
    reply = asyncio.run(health(state))
    assert set(reply) == {"status", "started", "hint"}  # no words on paths without a key


def test_every_job_that_waits_when_a_server_stops_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback is a command of its own: behind a sync it stayed queued."""
    store = Store(tmp_path / "artifacts")
    syncing = Syncing(store, Documents(store, load(None)))
    with monkeypatch.context() as patch:
        patch.setattr(syncing, "_begin", lambda: None)
        jobs = [syncing.submit("sync"), syncing.submit("rollback"), syncing.submit("verify")]
    syncing.close()
    syncing._begin()
    until(lambda: all(job.over.is_set() for job in jobs))
    assert [(job.error or {})["message"] for job in jobs] == [STOPPED] * 3
