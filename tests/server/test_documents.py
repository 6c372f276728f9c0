"""Documents over HTTP: stored before the answer, in the index after the sync, and each tenant's own."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from samples import TOOLS
from server.doors import Door, Doors, opened
from servers import built
from waiting import until

from retrieve_cli.storage.store import Store


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = {"id": "own", "name": "Own tool of acme", "description": "Grinds axes.", "tenant": "acme"}
    return built(tmp_path_factory.mktemp("index"), [*TOOLS, own])


@pytest.fixture(scope="module")
def doors(artifacts: Path) -> Iterator[Doors]:
    with opened(artifacts) as doors:
        yield doors


def document(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "title": f"The {name}", "text": text, **more}


def test_a_document_is_found_once_its_task_has_ended(doors: Doors) -> None:
    door = doors["operator"]
    answer = door.send("POST", "/documents", document("ears", "Outlines ears in photographs."))
    told = answer.json()
    assert (answer.status, answer.headers["Location"]) == (202, f"/tasks/{told['task']}")
    assert told["documents"] == [{"id": "ears", "status": "queued", "sequence": told["sequence"]}]
    assert door.search("outlines ears", at_least=told["sequence"])[0] == "ears"
    task = door.ended(told["task"])
    assert task["status"] == "succeeded"
    assert task["documents"] == [{"id": "ears", "status": "processed", "sequence": told["sequence"]}]
    assert door.get("/documents/ears")["record"]["chunks"][0]["id"] == "ears#0"


def test_a_bad_document_does_not_lose_the_others(doors: Doors) -> None:
    door = doors["operator"]
    good, taken = b'{"id": "nose", "text": "Outlines noses."}', b'{"id": "lungs", "text": "Mine."}'
    lines = b"\n".join([good, b"[1]", b'{"id": "x"', b"", taken])
    told = door.change("POST", "/documents", lines, **{"Content-Type": "application/x-ndjson"})
    nose, listed, torn, taken = told["documents"]
    assert nose["status"] == "processed"
    assert listed == {"id": None, "status": "rejected", "reason": "it is a JSON list, not an object"}
    assert torn["reason"].startswith("it is not JSON (")
    assert (taken["status"], "duplicate id 'lungs'" in taken["reason"]) == ("rejected", True)
    assert door.search("outlines noses")[0] == "nose"
    assert door.get("/documents/lungs")["status"] == "rejected"
    assert door.change("DELETE", "/documents/lungs")["status"] == "succeeded"
    assert door.get("/documents/lungs")["source"] == "tools.jsonl"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is not JSON"),
        (b"[]", "0 documents were sent"),
        (b'{"documents": {}}', "`documents` must be a list"),
        (b'{"id": "x"}', "it has no text"),
        (b'"text"', "it is a JSON str"),
        (b"[" * 2000, "the body is not JSON"),
        (b'{"id": "x", "text": "y", "a": ' + b"[" * 300 + b"]" * 300 + b"}", "nested too deeply"),
        (b'{"id": "x", "text": "y", "a": ' + b"[" * 99 + b"]" * 99 + b"}", "nested deeper than 64"),
    ],
)
def test_a_body_that_is_none_is_rejected_with_the_reason(doors: Doors, body: bytes, said: str) -> None:
    answer = doors["operator"].send("POST", "/documents", body)
    assert answer.status == 422
    assert said in answer.json()["error"]["message"]


def test_a_document_can_be_replaced_and_removed(doors: Doors) -> None:
    door = doors["operator"]
    door.add(document("pump", "A pump for water."))
    door.add(document("pump", "A pump for oil, of bronze."))
    assert "bronze" in door.get("/documents/pump")["record"]["text"]
    assert door.change("DELETE", "/documents/pump")["status"] == "succeeded"
    assert "pump" not in door.search("bronze pump")
    for method in ("GET", "DELETE"):
        answer = door.send(method, "/documents/pump")
        assert (answer.status, answer.json()["error"]["kind"]) == (404, "not_found")


def test_a_record_of_another_source_cannot_be_removed(doors: Doors) -> None:
    answer = doors["operator"].send("DELETE", "/documents/cells")
    assert (answer.status, answer.json()["error"]["kind"]) == (409, "conflict")
    assert "'tools.jsonl'" in answer.json()["error"]["message"]


def test_the_same_document_again_is_no_change(doors: Doors) -> None:
    door = doors["operator"]
    first, generation = door.add(document("rope", "A rope.")), door.get("/index")["generation"]
    again = door.send("POST", "/documents", document("rope", "A rope."), Prefer="respond-async, wait=99999")
    assert (again.status, again.json()["sequence"]) == (200, first["sequence"])
    assert door.get("/index")["generation"] == generation


def test_tenants_may_use_the_same_ids_and_see_their_own_documents_only(doors: Doors) -> None:
    acme, globex = doors["acme"], doors["globex"]
    first = acme.add(document("plan", "The secret plan of acme: anvils."))["documents"][0]
    assert first["id"] == "acme:plan"
    assert globex.add(document("plan", "Plan for rockets."))["documents"][0]["id"] == "globex:plan"
    assert acme.search("secret plan anvils rockets") == ["acme:plan", "own"]
    assert globex.search("secret plan anvils rockets") == ["globex:plan"]
    assert "rockets" in globex.get("/documents/plan")["record"]["text"]
    assert globex.get("/documents?limit=1000")["total"] == 1
    unknown = globex.send("GET", "/documents/nothing").json()["error"]["message"].replace("nothing", "ID")
    for method in ("GET", "DELETE"):
        for name in ("acme:plan", "own", "cells"):
            answer = globex.send(method, f"/documents/{quote(name)}")
            assert answer.status == 404
            assert answer.json()["error"]["message"].replace(name, "ID") == unknown
    assert globex.add(document("acme:plan", "A trap."))["documents"][0]["id"] == "globex:acme:plan"
    assert "anvils" in acme.get("/documents/plan")["record"]["text"]
    assert acme.send("DELETE", "/documents/own").status == 409, "its own, of a catalog"


def test_a_tenant_cannot_write_for_another(doors: Doors) -> None:
    answer = doors["globex"].send("POST", "/documents", document("x", "A trap.", tenant="acme"))
    assert answer.status == 422
    assert "'acme'" in answer.json()["error"]["message"]


def test_a_tenant_sees_its_own_tasks_only_and_no_numbers_of_others(doors: Doors) -> None:
    acme, globex = doors["acme"], doors["globex"]
    task = acme.add(document("memo", "A memo."))["task"]
    assert globex.send("GET", f"/tasks/{task}").status == 404
    assert task not in {entry["task"] for entry in globex.get("/tasks?limit=200")["tasks"]}
    own = acme.get(f"/tasks/{task}")
    assert own["report"].keys() == {"status", "generation"}
    view = acme.get("/index")
    assert view["records"] == acme.get("/documents")["total"]
    assert not {"chunks", "sources", "syncs", "queued"} & view.keys()


def test_every_route_needs_its_scope(doors: Doors) -> None:
    reader = doors["reader"]
    assert reader.get("/index")["records"] >= 6
    for method, path, body in (
        ("POST", "/documents", document("x", "y")),
        ("DELETE", "/documents/cells", None),
        ("POST", "/index", {"action": "sync"}),
    ):
        assert reader.send(method, path, body).status == 403
        assert Door(reader.server, "wrong").send(method, path, body).status == 401
    assert doors["acme"].send("POST", "/index", {"action": "sync"}).status == 403


def test_pages_are_of_one_generation_while_documents_are_added(doors: Doors) -> None:
    door = doors["operator"]
    first = door.get("/documents?limit=4")
    door.add(document("between", "Added between two pages."))
    seen, page = first["records"], first
    while page["next"]:
        page = door.get(f"/documents?limit=4&cursor={page['next']}")
        seen += page["records"]
    assert page["generation"] == first["generation"]
    assert len({record["id"] for record in seen}) == len(seen) == first["total"]
    assert [record["id"] for record in door.get("/documents?filters=license%3DMIT")["records"]] == ["lungs", "brain"]


def test_of_a_batch_only_the_request_that_asks_too_much_fails(doors: Doors) -> None:
    known = doors["operator"].add(document("ears", "Outlines ears in photographs."))["sequence"]
    requests = [{"query": "ears", "at_least": known}, {"query": "ears", "at_least": 10**6}, {"query": "ears"}]
    answers = doors["operator"].send("POST", "/search/batch", {"requests": requests}).json()["answers"]
    assert ["error" in answer for answer in answers] == [False, True, False]


def test_the_index_can_be_synced_verified_and_rolled_back(doors: Doors) -> None:
    door = doors["operator"]
    door.add(document("first", "The first."))
    before = door.get("/index")
    door.add(document("second", "The second."))
    assert door.change("POST", "/index", {"action": "verify"})["report"]["verified"] is True
    rolled = door.change("POST", "/index", {"action": "rollback"})
    assert (rolled["status"], rolled["report"]["generation"]) == ("succeeded", before["generation"])
    assert door.get("/index")["sequence"] == before["sequence"]
    assert door.get("/documents/second")["status"] == "queued"
    synced = door.change("POST", "/index", {"action": "sync"})
    assert synced["report"]["status"] == "published"
    assert door.get("/documents/second")["status"] == "processed"
    assert [sync["action"] for sync in door.get("/index")["syncs"]][:3] == ["sync", "rollback", "verify"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "snyc"},
        {"action": "sync", "generation": "abc"},
        {"action": "rollback", "generation": "--dry-run"},
        {"action": "sync", "x": 1},
    ],
)
def test_an_action_that_is_none_is_rejected(doors: Doors, body: dict[str, str]) -> None:
    assert doors["operator"].send("POST", "/index", body).status == 422


def test_an_unknown_task_is_not_found(doors: Doors) -> None:
    for name in ("0" * 24, "running", "..%2Fkeys", "x"):
        assert doors["operator"].send("GET", f"/tasks/{name}").status == 404


def test_changes_that_arrive_while_a_sync_runs_share_the_next_one(doors: Doors, artifacts: Path) -> None:
    door, told = doors["operator"], []
    with Store(artifacts).writer():  # another writer: the first sync waits, and runs until all have arrived
        for n in range(30):
            told.append(door.send("POST", "/documents", document(f"many{n}", f"Number {n}.")).json())
            until(lambda: door.get(f"/tasks/{told[0]['task']}")["status"] == "processing", "the first sync")
    assert door.search("number", at_least=told[-1]["sequence"])
    reports = [door.ended(each["task"]).get("report") for each in told]
    assert len({report["generation"] for report in reports if report is not None}) <= 2


def test_the_body_has_a_limit(doors: Doors) -> None:
    body = b'{"id": "x", "text": "' + b"y" * (33 << 20) + b'"}'
    with suppress(urllib3.exceptions.HTTPError):  # the server may close the connection before all is sent
        assert doors["operator"].send("POST", "/documents", body).status == 413


def test_the_artifacts_hold_a_bounded_number_of_tasks(tmp_path: Path) -> None:
    from retrieve_cli.storage.tasks import Tasks

    tasks = Tasks(tmp_path)
    names = [tasks.new_id() for _ in range(30)]
    for name in names:
        tasks.save({"task": name}, most=10)
    assert [task["task"] for task in tasks.latest()] == sorted(names)[:-11:-1]
