"""Generations on their way into engines: what is sent, kept, dropped and refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from engines.injected import Servers, said, search_in
from samples import Done, Program, fails, succeeds, write_catalog
from sync.state import live, records

SIZE = 24


@pytest.fixture(autouse=True)
def _fused_by_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "tools.jsonl", records(1, SIZE))


@pytest.fixture
def built(servers: Servers, source: Path, retrieve: Program) -> str:
    """The id of an index that was built into the engines."""
    succeeds(retrieve("build", "--catalog", source))
    return live(Path("artifacts"))


def next_version(source: Path, retrieve: Program, version: int, changed: int = SIZE) -> Done:
    """Sync after some records were changed."""
    rows = [*records(version, SIZE)[:changed], *records(1, SIZE)[changed:]]
    write_catalog(source, rows)
    return succeeds(retrieve("sync", "--verbose"))


def sent(servers: Servers, name: str) -> Counter[tuple[str, str]]:
    """The rows that an engine was sent, by part."""
    count: Counter[tuple[str, str]] = Counter()
    for call, *facts in servers.calls(name):
        if call == "put":
            count[call, facts[0]] += facts[1]
    return count


def held(servers: Servers, name: str) -> list[str]:
    return [each.generation for each in servers.engine(name).generations()]


def test_each_engine_gets_its_share_and_the_alias(servers: Servers, built: str, retrieve: Program) -> None:
    assert sent(servers, "qdrant") == {("put", "dense"): SIZE}
    assert sent(servers, "opensearch") == {("put", "bm25"): SIZE}
    for name in ("qdrant", "opensearch"):
        assert [tuple(each) for each in servers.engine(name).generations()] == [(built, True, True)]
    assert held(servers, "pgvector") == []


def test_the_id_is_that_of_an_index_without_engines(
    servers: Servers, built: str, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_in("local", monkeypatch)
    assert retrieve("build", "--catalog", source, "--artifacts", "other").code == 0
    assert live(Path("other")) == built


def test_a_sync_sends_all_rows_as_one_segment(servers: Servers, built: str, source: Path, retrieve: Program) -> None:
    for name in ("qdrant", "opensearch"):
        servers.calls(name)
    done = next_version(source, retrieve, 2, changed=5)
    assert sent(servers, "qdrant") == {("put", "dense"): SIZE}
    assert sent(servers, "opensearch") == {("put", "bm25"): SIZE}
    assert f"qdrant: sending {SIZE} rows of dense" in done.err
    assert len(list(Path("artifacts/generations").joinpath(live(Path("artifacts"))).glob("records.jsonl"))) == 1


def test_an_index_of_several_segments_is_merged_by_the_next_sync(
    servers: Servers, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as local:
        search_in("local", local)
        succeeds(retrieve("build", "--catalog", source))
        next_version(source, retrieve, 2, changed=2)
    fails(retrieve("engines", "push"), 2, "an index of one segment", "retrieve sync --compact")
    succeeds(retrieve("sync"))
    assert servers.engine("qdrant").live() == live(Path("artifacts"))
    assert succeeds(retrieve("query", "lungs", "--json")).json["strategies_used"] == ["bm25", "dense"]


def test_engines_keep_two_generations(servers: Servers, built: str, source: Path, retrieve: Program) -> None:
    ids = [built]
    for version in (2, 3):
        next_version(source, retrieve, version)
        ids.append(live(Path("artifacts")))
    assert held(servers, "qdrant") == held(servers, "opensearch") == sorted(ids[-2:])


def test_generations_that_another_index_sent_stay(
    servers: Servers, source: Path, built: str, retrieve: Program
) -> None:
    other = write_catalog(source.parent / "other.jsonl", records(5, SIZE))
    assert retrieve("build", "--catalog", other, "--artifacts", "elsewhere").code == 0
    theirs = live(Path("elsewhere"))
    for version in range(2, 6):
        next_version(source, retrieve, version)
    assert theirs in held(servers, "qdrant")
    assert built not in held(servers, "qdrant")
    assert retrieve("query", "record 3", "--artifacts", "elsewhere").code == 0


def test_a_sync_without_changes_sends_nothing_and_calls_no_alias(
    servers: Servers, built: str, retrieve: Program
) -> None:
    servers.calls("qdrant")
    assert retrieve("sync").code == 0
    assert {call for call, *_ in servers.calls("qdrant")} <= {"live", "generations"}


def test_a_sync_without_changes_sends_it_again_to_an_engine_that_lost_everything(
    servers: Servers, built: str, retrieve: Program
) -> None:
    servers.lose("qdrant")
    servers.calls("opensearch")
    assert retrieve("query", "lungs", "--mode", "dense").code == 5
    succeeds(retrieve("sync"))
    assert sent(servers, "qdrant") == {("put", "dense"): SIZE}
    assert sent(servers, "opensearch") == {}
    assert servers.engine("qdrant").live() == built
    assert retrieve("query", "lungs", "--mode", "dense").code == 0


def test_an_alias_that_names_something_else_is_set_again_by_the_next_run(
    servers: Servers, built: str, source: Path, retrieve: Program
) -> None:
    next_version(source, retrieve, 2)
    now = live(Path("artifacts"))
    servers.engine("qdrant").publish(built)
    answer = retrieve("query", "lungs", "--json")
    assert (answer.code, answer.json["generation"]) == (0, now)  # readers never ask for the alias
    assert answer.json["strategies_used"] == ["bm25", "dense"]
    assert retrieve("sync").code == 0
    assert servers.engine("qdrant").live() == now


def test_a_rollback_sends_a_generation_that_the_engines_dropped(
    servers: Servers, built: str, source: Path, retrieve: Program
) -> None:
    for version in (2, 3):
        next_version(source, retrieve, version)
    assert built not in held(servers, "qdrant")
    succeeds(retrieve("sync", "--rollback", built))
    assert live(Path("artifacts")) == built == servers.engine("qdrant").live() == servers.engine("opensearch").live()
    assert retrieve("query", "version1", "--json").json["generation"] == built


def test_a_rollback_changes_nothing_if_an_engine_cannot_be_reached(
    servers: Servers, built: str, source: Path, retrieve: Program
) -> None:
    next_version(source, retrieve, 2)
    now = live(Path("artifacts"))
    servers.stop("opensearch")
    done = retrieve("sync", "--rollback")
    assert (done.code, live(Path("artifacts"))) == (6, now)
    servers.start("opensearch")
    assert servers.engine("opensearch").live() == now
    assert retrieve("query", "version2", "--json").json["generation"] == now


def test_an_existing_index_is_sent_by_push(
    servers: Servers, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as local:
        search_in("local", local)
        assert retrieve("build", "--catalog", source).code == 0
        wanted = said(retrieve("query", "segment lungs", "--json").json)
    fails(retrieve("query", "segment lungs", "--mode", "dense"), 5, "was not sent to qdrant", "retrieve engines push")
    assert retrieve("engines", "push").code == 0
    assert said(retrieve("query", "segment lungs", "--json").json) == wanted


@pytest.mark.parametrize("command", ["build", "sync"])
def test_nothing_is_published_if_an_engine_cannot_be_reached(
    servers: Servers, built: str, source: Path, retrieve: Program, command: str
) -> None:
    write_catalog(source, records(2, SIZE))
    servers.stop("opensearch")
    before = servers.calls("qdrant") and sorted(path.name for path in Path("artifacts/generations").iterdir())
    fails(retrieve(*(("build", "--catalog", source) if command == "build" else ("sync",))), 6, "does not answer")
    assert live(Path("artifacts")) == built
    assert sorted(path.name for path in Path("artifacts/generations").iterdir()) == before
    assert sent(servers, "qdrant") == {}  # it is known before anything is sent
    answer = retrieve("query", "lungs", "--json")
    assert (answer.code, answer.json["generation"], answer.json["strategies_used"]) == (0, built, ["dense"])
    servers.start("opensearch")
    assert retrieve("query", "lungs", "--json").json["strategies_used"] == ["bm25", "dense"]


def test_an_engine_without_term_weights_is_refused_with_the_key(
    servers: Servers, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAS_NO_TERMS", "opensearch")
    fails(retrieve("build", "--catalog", source), 2, "opensearch cannot hold term weights", "engines.lexical")
    assert not Path("artifacts/current").exists()
