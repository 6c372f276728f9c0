"""The program with its index in engines: what is sent, what is found, and what an interruption leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engines.injected import Servers, search_in
from samples import Program, fails, succeeds, write_catalog
from sync.state import live, records

import retrieve_cli
from retrieve_cli.storage import engine_record

QUERY = ("query", "segment lungs", "--json")


@pytest.fixture
def catalog(servers: Servers, tmp_path: Path, retrieve: Program) -> Path:
    """A catalog of 20 records that was built into two engines."""
    path = write_catalog(tmp_path / "tools.jsonl", records(1, 20))
    succeeds(retrieve("build", "--catalog", path))
    for name in ("qdrant", "opensearch"):
        servers.calls(name)
    return path


def collection(name: str) -> str:
    """Return the collection of the current generation in an engine."""
    held = engine_record.find(Path("artifacts/generations") / live(Path("artifacts")), name)
    assert held is not None
    return held.name


def edited(catalog: Path, number: int, text: str) -> None:
    """Change the description of a record."""
    rows = [json.loads(line) for line in catalog.read_text("utf-8").splitlines()]
    rows[number]["description"] = text
    catalog.write_text("".join(json.dumps(row) + "\n" for row in rows))


def names(answer: Any) -> list[str]:
    return [result["doc_id"] for result in answer.json["results"]]


def test_a_build_sends_all_rows_and_names_them_by_the_alias(servers: Servers, catalog: Path) -> None:
    assert catalog.exists()
    for name in ("qdrant", "opensearch"):
        engine = servers.engine(name)
        assert servers.collections(name) == {collection(name): live(Path("artifacts"))}
        assert engine.published() == collection(name)
        assert engine.count(collection(name)) == 20


def test_one_edited_record_is_one_row_and_few_bytes(servers: Servers, catalog: Path, retrieve: Program) -> None:
    before = collection("qdrant")
    edited(catalog, 7, "counts nuclei in histology")
    succeeds(retrieve("sync"))
    for name in ("qdrant", "opensearch"):
        calls = servers.calls(name, "create", "upsert", "delete", "publish")
        assert [call[0] for call in calls] == ["upsert", "publish"]
        assert len(calls[0]) == 2
    assert collection("qdrant") == before
    assert servers.collections("qdrant") == {before: live(Path("artifacts"))}
    assert names(succeeds(retrieve("query", "nuclei in histology", "--json")))[0] == calls[0][1].rpartition("#")[0]


def test_removed_records_are_deleted_by_their_ids(servers: Servers, catalog: Path, retrieve: Program) -> None:
    lines = catalog.read_text("utf-8").splitlines(keepends=True)
    gone = [json.loads(line) for line in lines[3:5]]
    catalog.write_text("".join(lines[:3] + lines[5:]))
    succeeds(retrieve("sync"))
    deleted = [call for call in servers.calls("qdrant") if call[0] == "delete"]
    assert [sorted(call[1:]) for call in deleted] == [sorted(f"{row['id']}#0" for row in gone)]
    assert servers.engine("qdrant").count(collection("qdrant")) == 18


def test_a_merge_of_segments_sends_nothing(servers: Servers, catalog: Path, retrieve: Program) -> None:
    edited(catalog, 7, "counts nuclei in histology")
    succeeds(retrieve("sync"))
    servers.calls("qdrant")
    succeeds(retrieve("sync", "--compact"))
    assert [call[0] for call in servers.calls("qdrant", "upsert", "delete", "create", "publish")] == ["publish"]


def test_a_rollback_sends_the_difference(servers: Servers, catalog: Path, retrieve: Program) -> None:
    before = live(Path("artifacts"))
    edited(catalog, 7, "counts nuclei in histology")
    succeeds(retrieve("sync"))
    servers.calls("qdrant")
    succeeds(retrieve("sync", "--rollback"))
    calls = servers.calls("qdrant", "create", "upsert", "delete", "publish")
    assert [call[0] for call in calls] == ["upsert", "publish"]
    assert len(calls[0]) == 2
    assert servers.collections("qdrant") == {collection("qdrant"): before}


def test_another_recipe_makes_a_collection_beside_the_old_one(
    servers: Servers, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = collection("opensearch")
    monkeypatch.setenv("RETRIEVE_BM25__STEMMING", "none")
    succeeds(retrieve("sync"))
    engine = servers.engine("opensearch")
    assert engine.published() == collection("opensearch") != before
    assert servers.collections("opensearch").keys() == {before, collection("opensearch")}
    monkeypatch.setenv("RETRIEVE_BM25__STEMMING", "english")
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    succeeds(retrieve("sync"))
    succeeds(retrieve("engines", "push"))
    assert servers.collections("opensearch").keys() == {collection("opensearch")}
    assert catalog.exists()


def test_results_are_shown_from_an_engine_without_local_texts(
    servers: Servers, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = succeeds(retrieve(*QUERY)).json
    searches = [*servers.calls("qdrant", "search"), *servers.calls("opensearch", "search")]
    assert [call[1] for call in searches] == [["dense"], ["bm25"], [""]]
    shown = {result["id"]: (result["name"], result["content"], result["metadata"]) for result in through["results"]}
    for table in Path("artifacts/generations").rglob("*s.jsonl"):
        table.unlink()
    again = succeeds(retrieve(*QUERY)).json
    assert {one["id"]: (one["name"], one["content"], one["metadata"]) for one in again["results"]} == shown
    monkeypatch.setenv("RETRIEVE_ENGINES__TEXTS", "local")
    fails(retrieve(*QUERY), 5, "is not in this copy")
    assert catalog.exists()


def test_texts_may_stay_in_local_files(
    servers: Servers, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = succeeds(retrieve(*QUERY)).json
    servers.calls("opensearch")
    monkeypatch.setenv("RETRIEVE_ENGINES__TEXTS", "local")
    local = succeeds(retrieve(*QUERY)).json
    assert [call[1] for call in servers.calls("opensearch", "search")] == [["bm25"]]
    assert [one["content"] for one in local["results"]] == [one["content"] for one in through["results"]]
    assert catalog.exists()


@pytest.mark.parametrize("place", ["qdrant", "opensearch"])
def test_both_retrievers_of_an_engine_are_asked_in_one_request(
    servers: Servers, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    search_in(place, monkeypatch)
    succeeds(retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", records(1, 20))))
    servers.calls(place)
    assert succeeds(retrieve(*QUERY)).json["results"]
    assert [call[1] for call in servers.calls(place, "search")] in (
        [["bm25", "dense"], [""]],
        [["dense", "bm25"], [""]],
    )


def test_lists_through_an_engine_are_those_of_local_files(
    catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = {mode: succeeds(retrieve(*QUERY, "--mode", mode)) for mode in ("dense", "bm25")}
    search_in("local", monkeypatch)
    assert names(succeeds(retrieve(*QUERY, "--mode", "dense"))) == names(through["dense"])
    local = names(succeeds(retrieve(*QUERY, "--mode", "bm25")))
    assert set(local) == set(names(through["bm25"]))
    assert catalog.exists()


def test_filters_and_tenants_hold_in_engines(
    servers: Servers, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {**row, "license": "MIT" if number % 3 else "GPL-3.0", "year": 2000 + number, "tenant": "ab"[number % 2]}
        for number, row in enumerate(records(1, 20))
    ]
    succeeds(retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", rows)))
    asked = (*QUERY, "-k", "20", "--tenant", "a")
    for filters in (
        (),
        ("license=mit",),
        ("!license=MIT",),
        ("year>=2010",),
        ("year<2005", "license=MIT"),
        ("year=20*",),
    ):
        flags = [part for text in filters for part in ("--filter", text)]
        through = succeeds(retrieve(*asked, *flags)).json
        with monkeypatch.context() as patch:
            search_in("local", patch)
            local = succeeds(retrieve(*asked, *flags)).json
        wanted = {one["id"] for one in local["results"]}
        assert {one["id"] for one in through["results"]} == wanted, filters
    searched = [call for name in ("qdrant", "opensearch") for call in servers.calls(name, "search")]
    assert searched
    assert all("tenants" in call[2] for call in searched if call[1] != [""])


def test_a_reader_says_that_an_engine_holds_another_generation(
    servers: Servers, catalog: Path, retrieve: Program
) -> None:
    servers.engine("qdrant").publish(collection("qdrant"), "ffffffffffff")
    answer = retrieve(*QUERY)
    assert "qdrant holds the rows of generation ffffffffffff" in answer.err + answer.out
    assert names(answer)
    assert catalog.exists()


def test_an_engine_that_cannot_be_reached_changes_nothing(servers: Servers, catalog: Path, retrieve: Program) -> None:
    before = live(Path("artifacts"))
    edited(catalog, 7, "counts nuclei in histology")
    servers.stop("opensearch")
    fails(retrieve("sync"), 6)
    assert live(Path("artifacts")) == before
    answer = succeeds(retrieve(*QUERY)).json
    assert answer["strategies_used"] == ["dense"]
    servers.start("opensearch")
    succeeds(retrieve("sync"))
    assert live(Path("artifacts")) != before


def test_rows_that_an_engine_lost_are_sent_again(servers: Servers, catalog: Path, retrieve: Program) -> None:
    engine = servers.engine("qdrant")
    engine.delete(collection("qdrant"), [*[f"t{number}#0" for number in range(4)]])
    (hits,) = engine.search(collection("qdrant"), [("", None)], None, 3).hits
    engine.delete(collection("qdrant"), [hit.id for hit in hits])
    succeeds(retrieve("engines", "push"))
    assert engine.count(collection("qdrant")) == 20
    servers.lose("qdrant")
    succeeds(retrieve("engines", "push"))
    assert engine.count(collection("qdrant")) == 20
    assert engine.published() == collection("qdrant")
    assert catalog.exists()


def test_the_commands_of_engines(servers: Servers, catalog: Path, retrieve: Program) -> None:
    status = succeeds(retrieve("engines", "status", "--json")).json["engines"]
    assert {name: one["fault"] for name, one in status.items()} == {"qdrant": "", "opensearch": ""}
    assert [one["rows"] for one in status["qdrant"]["collections"]] == [20]
    before = collection("qdrant")
    with retrieve_cli.open("artifacts") as index:
        assert index.search("segment lungs")
        pushed = succeeds(retrieve("engines", "push", "--again", "--json")).json
        assert pushed["engines"]["qdrant"]["rows"] == 20
        assert servers.collections("qdrant").keys() == {collection("qdrant")} != {before}
        assert index.search("segment lungs").strategies_used == ("bm25", "dense"), "a reader follows"
    fails(retrieve("engines", "snapshot", "qdrant"), 2, "keeps no copies")
    assert catalog.exists()


def test_phrases_and_sections_hold_in_engines(
    servers: Servers, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(6):
        words = "segment lungs in parallel" if number % 2 else "lungs are a segment"
        (folder / f"{number}.md").write_text(f"# Page {number}\n\n{words}\n\n## Setup\n\nsegment lungs {number}\n")
    monkeypatch.setenv("RETRIEVE_CHUNKING__SIZE", "16")
    succeeds(retrieve("build", "--docs-dir", folder))
    for words, flags in (('"lungs in parallel"', ()), ("segment lungs", ("--filter", "section=Setup"))):
        asked = ("query", words, "--json", "-k", "20", *flags)
        through = succeeds(retrieve(*asked)).json["results"]
        with monkeypatch.context() as patch:
            search_in("local", patch)
            local = succeeds(retrieve(*asked)).json["results"]
        assert through
        assert {result["id"] for result in through} == {result["id"] for result in local}
    assert servers.calls("qdrant", "search")


def test_eval_compares_an_engine_with_local_files(catalog: Path, tmp_path: Path, retrieve: Program) -> None:
    pytest.importorskip("ir_measures")
    gold = tmp_path / "gold.jsonl"
    gold.write_text("".join(f'{{"query": "tool {number}", "relevant": ["t{number}"]}}\n' for number in range(8)))
    arguments = ("eval", "--gold", gold, "--with", "engines.dense=local,engines.lexical=local", "--json")
    compared = succeeds(retrieve(*arguments)).json
    assert "engines.dense" in json.dumps(compared)
    assert catalog.exists()


def test_a_document_that_is_added_is_one_row_and_is_found(servers: Servers, catalog: Path) -> None:
    assert catalog.exists()
    with retrieve_cli.open("artifacts") as index:
        receipt = index.add([{"id": "new", "text": "# New\n\nregisters slides of histology\n"}])
        assert [document.status for document in receipt.documents] == ["processed"]
        upserts = servers.calls("qdrant", "upsert", "create")
        assert [len(call) - 1 for call in upserts] == [1]
        assert next(hit.doc_id for hit in index.search("registers slides of histology")).endswith("new")
        index.delete(["new"])
        assert [call[0] for call in servers.calls("qdrant", "upsert", "delete", "create")] == ["delete"]
