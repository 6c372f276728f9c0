"""Documents survive the server: killed, restarted, with several workers, and beside another writer."""

import json
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog
from server.doors import Door
from servers import kill_all, started
from waiting import PATIENCE_S, until

from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.documents import Documents
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.bounds import seconds
from retrieve_cli.config.loading import load
from retrieve_cli.errors import NotYet, UsageError
from retrieve_cli.search.answer import Answer
from retrieve_cli.server.http.jobs import Jobs
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.tasks import Tasks


def jobs(index: Path) -> Jobs:
    documents = Documents(Store(index), load(None))
    return Jobs(Tasks(index), documents)


def test_a_document_that_was_acknowledged_outlives_kill_9_and_is_synced_by_the_next_server(index: Path) -> None:
    with started(index, cwd=index.parent) as server:
        told = server.post("/documents", {"id": "ears", "text": "Outlines ears."}).json()
        kill_all(server.process.pid)
    state = Documents(Store(index), load(None)).state("ears", tenant=None, index=None)
    assert state["document"] == {"id": "ears", "text": "Outlines ears."}
    with started(index, cwd=index.parent) as server:
        assert Door(server, "").search("outlines ears", at_least=told["sequence"])[0] == "ears"


def test_documents_of_a_killed_server_wait_for_the_next_sync_and_its_other_tasks_have_failed(
    index: Path, retrieve: Program
) -> None:
    with started(index, cwd=index.parent) as server:
        with Store(index).writer():  # another writer: the sync waits
            told = server.post("/documents", {"id": "ears", "text": "Outlines ears."}).json()
            until(lambda: server.get(f"/tasks/{told['task']}").json()["status"] == "processing", "the sync")
            state = server.get("/documents/ears").json()
            assert (state["status"], state["record"]) == ("processing", None) or state["status"] == "queued"
            late = server.post("/search", {"query": "ears", "at_least": told["sequence"], "deadline_ms": 100})
            assert (late.status, late.json()["error"]["kind"]) == (503, "not_yet")
            assert (late.headers["Retry-After"], late.json()["error"]["retryable"]) == ("1", True)
            synced = server.post("/index", {"action": "sync"}).json()["task"]
            kill_all(server.process.pid)
            server.process.wait(PATIENCE_S)
        task = jobs(index).one(told["task"], tenant=None)
        assert task["status"] == "queued"
        assert task["documents"] == [{"id": "ears", "status": "queued", "sequence": 1}]
    assert retrieve("sync").code == 0
    assert jobs(index).one(told["task"], tenant=None)["status"] == "succeeded"
    with started(index, cwd=index.parent) as server:
        failed = server.get(f"/tasks/{synced}").json()
        assert (failed["status"], failed["error"]["message"]) == ("failed", "the process that ran it has ended")


def test_every_worker_knows_every_task_and_one_of_them_syncs_by_the_clock(catalog: Path, index: Path) -> None:
    flags = ("--workers", "2", "--sync-every", "1s", "--jitter", "0.1s")
    with started(index, *flags, cwd=index.parent) as server:
        told = server.post("/documents", {"id": "ears", "text": "Outlines ears."}).json()
        for _ in range(20):
            assert Door(server, "").search("outlines ears", at_least=told["sequence"])[0] == "ears"
            assert server.get(f"/tasks/{told['task']}").status == 200
        assert Door(server, "").ended(told["task"])["status"] == "succeeded"
        write_catalog(catalog, [*TOOLS, {"id": "nose", "name": "Nose", "description": "Outlines noses."}])
        until(lambda: Door(server, "").search("outlines noses")[0] == "nose", "a sync by the clock")


def test_a_server_without_an_index_begins_one_with_the_first_document(tmp_path: Path) -> None:
    with started(tmp_path / "new", cwd=tmp_path) as server:
        assert server.post("/search", {"query": "ears"}).status == 503
        assert Door(server, "").add({"id": "ears", "text": "Outlines ears."})["status"] == "succeeded"
        assert Door(server, "").search("outlines ears") == ["ears"]


def test_a_document_needs_no_other_source_and_a_sync_that_fails_loses_nothing(catalog: Path, index: Path) -> None:
    with started(index, cwd=index.parent) as server:
        kept = catalog.read_bytes()
        catalog.unlink()
        added = Door(server, "").add({"id": "ears", "text": "Outlines ears."})
        assert (added["status"], added["documents"][0]["status"]) == ("succeeded", "processed")
        synced = Door(server, "").change("POST", "/index", {"action": "sync"})
        assert synced["status"] == "failed"
        assert server.get(f"/tasks/{synced['task']}").json()["error"]["kind"] == "source_failed"
        assert Door(server, "").search("outlines ears")[0] == "ears"
        catalog.write_bytes(kept)
        assert Door(server, "").change("POST", "/index", {"action": "sync"})["status"] == "succeeded"
        assert Door(server, "").search("outlines ears")[0] == "ears"


def test_a_document_that_only_a_sync_can_publish_waits_for_it_and_for_its_sources(catalog: Path, index: Path) -> None:
    (index.parent / "config.yaml").write_text("chunking: {size: 40}\n")
    with started(index, cwd=index.parent) as server:
        kept = catalog.read_bytes()
        catalog.unlink()
        told = Door(server, "").add({"id": "ears", "text": "Outlines ears."})
        assert (told["status"], told["documents"][0]["status"]) == ("failed", "queued")
        catalog.write_bytes(kept)
        assert Door(server, "").change("POST", "/index", {"action": "sync"})["status"] == "succeeded"
        assert Door(server, "").search("outlines ears")[0] == "ears"


def test_a_sync_reports_its_progress_as_lines_of_json(index: Path, retrieve: Program, catalog: Path) -> None:
    write_catalog(catalog, [*TOOLS, {"id": "nose", "name": "Nose", "description": "Outlines noses."}])
    done = retrieve("sync", "--json", "--progress")
    lines = [json.loads(line) for line in done.err.splitlines()]
    steps = [line["progress"] for line in lines if "progress" in line]
    assert done.json["status"] == "published"
    assert {"name", "unit", "done", "total", "rate"} == set(steps[0])
    assert "records" in {step["unit"] for step in steps}


def test_the_index_in_this_process_waits_for_a_change_and_answers_the_others_meanwhile(
    index: Path, retrieve: Program
) -> None:
    settings = load(None)
    live, documents = LiveIndex(Store(index), settings), Documents(Store(index), settings)
    (ears,) = documents.add([{"id": "ears", "text": "Outlines ears."}], tenant=None).documents
    requests = [{"query": "outlines ears", "deadline_ms": 50, "at_least": ears.sequence}, {"query": "brain"}]
    late, timely = live.answer([read_asked(request) for request in requests])
    assert (isinstance(late, NotYet), isinstance(timely, Answer)) == (True, True)
    assert retrieve("sync").code == 0
    (answer,) = live.answer([read_asked({"query": "outlines ears", "at_least": ears.sequence})])
    assert isinstance(answer, Answer)
    assert answer.results[0].doc_id == "ears"


def test_a_server_syncs_under_its_own_configuration(catalog: Path, index: Path, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    config = tmp_path / "conf" / "served.yaml"
    config.write_text(f"sources: [{{kind: catalog, path: {catalog}}}, {{kind: inbox, name: notes, id_prefix: n/}}]\n")
    with started(index, "--config", str(config), cwd=tmp_path) as server:
        added = Door(server, "").add({"id": "ears", "text": "Outlines ears."})
        assert added["documents"] == [{"id": "n/ears", "status": "processed", "sequence": 1}]
        for name in ("n/ears", "ears"):
            state = server.get(f"/documents/{name}").json()
            assert (state["id"], state["source"], state["record"]["id"]) == ("n/ears", "notes", "n/ears")
        source = server.get("/index").json()["sources"][1]
        assert source == {"name": "notes", "kind": "inbox", "records": 1, "rejected": 0}


@pytest.mark.parametrize("text", ["often", "-1m", "1y", "", "nan", "inf"])
def test_a_time_that_is_none_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="--sync-every takes a span of time"):
        seconds(text, "--sync-every")


def test_a_time_has_a_unit() -> None:
    read = [seconds(text, "--jitter") for text in ("0", "90", "90s", "15m", "1.5h", "1d")]
    assert read == [0, 90, 90, 900, 5400, 86400]
