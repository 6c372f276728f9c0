"""Files over HTTP: stored before the answer, parsed by the sync as those of a folder, and each tenant's own."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from server.doors import Door, Doors, opened
from servers import kill_all, started

from retrieve_cli.api.documents import file_name
from retrieve_cli.storage import database

GUIDE = b"---\nlicense: MIT\n---\n# Guide to ears\n\nOutlines ears.\n\n## Lobes\n\nMeasures earlobes with callipers.\n"


@pytest.fixture(scope="module")
def doors(artifacts: Path) -> Iterator[Doors]:
    with opened(artifacts, RETRIEVE_PARSING__MAX_MB="1", RETRIEVE_DOCS__MAX_MB="0.5") as doors:
        yield doors


def stored(artifacts: Path) -> list[str]:
    """Return the SHA-1 of the files in the inbox."""
    with database.writing(artifacts / database.FILE) as connection:
        return [name for (name,) in connection.execute("SELECT sha1 FROM files ORDER BY sha1")]


def test_a_file_is_a_document_with_sections_once_its_task_has_ended(doors: Doors) -> None:
    door = doors["operator"]
    told = door.add_files(("guide.md", GUIDE), metadata='{"group": "ears", "author": "Ada"}')
    assert told["documents"] == [{"id": "guide.md", "status": "processed", "sequence": 1}]
    hit = door.results("callipers earlobes", chunks=True)[0]
    assert (hit["doc_id"], hit["name"], hit["section"]) == ("guide.md", "Guide to ears", "Guide to ears > Lobes")
    state = door.get("/documents/guide.md")
    assert state["document"] == {"metadata": {"group": "ears", "author": "Ada"}}
    assert (state["file"]["name"], state["file"]["size"]) == ("guide.md", len(GUIDE))
    record = state["record"]
    assert (record["kind"], record["license"], record["group"]) == ("markdown", "MIT", "ears")
    assert record["metadata"] == {"author": "Ada", "file": state["file"]}


def test_several_files_at_once_and_bad_ones_do_not_lose_the_others(doors: Doors) -> None:
    files = [("a.md", b"# Knees\n\nBends knees."), ("b.exe", b"MZ\0\0"), ("c.txt", b""), ("d.txt", b"\xff\0\xff")]
    told = doors["operator"].add_files(*files, ("x/a.md", b"# Other"), ("e.txt", b"x" * 600_000))
    good, strange, empty, damaged, same, large = told["documents"]
    assert (good["id"], good["status"]) == ("a.md", "processed")
    assert (strange["status"], "is not a document" in strange["reason"]) == ("rejected", True)
    assert empty["reason"] == "it is empty"
    assert (damaged["status"], "it is not a text" in damaged["reason"]) == ("rejected", True)
    assert "not a text" in doors["operator"].get("/documents/d.txt")["reason"]
    assert "same name" in same["reason"]
    assert "the limit is" in large["reason"]


def test_a_file_can_have_an_id_and_is_replaced_and_removed_under_it(doors: Doors, artifacts: Path) -> None:
    door = doors["operator"]
    door.add_files(("one.txt", b"A pump for water."), id="pump")
    first = door.get("/documents/pump")["file"]["sha1"]
    door.add_files(("two.txt", b"A pump for oil, of bronze."), id="pump")
    second = door.get("/documents/pump")
    assert (second["file"]["name"], "bronze" in second["record"]["text"]) == ("two.txt", True)
    again = door.add_files(("two.txt", b"A pump for oil, of bronze."), id="pump")
    assert again["sequence"] == second["sequence"], "the same again is no change"
    assert door.change("DELETE", "/documents/pump")["status"] == "succeeded"
    assert door.send("GET", "/documents/pump").status == 404
    door.add_files(("more.txt", b"More words."))
    assert not {first, second["file"]["sha1"]} & set(stored(artifacts))


def test_tenants_see_their_own_files_only(doors: Doors) -> None:
    acme, globex = doors["acme"], doors["globex"]
    assert acme.add_files(("plan.txt", b"The secret plan: anvils."))["documents"][0]["id"] == "acme:plan.txt"
    assert globex.add_files(("plan.txt", b"Plan for rockets."))["documents"][0]["id"] == "globex:plan.txt"
    assert [hit["doc_id"] for hit in globex.results("secret plan anvils")] == ["globex:plan.txt"]
    assert "anvils" in acme.get("/documents/plan.txt")["record"]["text"]
    unknown = globex.send("GET", "/documents/nothing").json()["error"]["message"].replace("nothing", "ID")
    foreign, original = (globex.send("GET", f"/{door}/acme:plan.txt") for door in ("documents", "files"))
    assert (foreign.status, original.status) == (404, 404)
    assert foreign.json()["error"]["message"].replace("acme:plan.txt", "ID") == unknown
    trap = globex.upload(("trap.txt", b"A trap."), metadata='{"tenant": "acme"}')
    assert (trap.status, "'acme'" in trap.json()["error"]["message"]) == (422, True)


def test_the_original_is_given_back_as_a_download(doors: Doors) -> None:
    door = doors["acme"]
    door.add_files(('a b\u00e4";.md', GUIDE))
    records = door.get("/documents?limit=1000")["records"]
    (entry,) = [record for record in records if record["metadata"]["file"]["name"].startswith("a b")]
    answer = door.send("GET", "/files/" + quote(entry["id"], safe=""))
    assert (answer.status, answer.data) == (200, GUIDE)
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    other = door.send("GET", "/files/nothing").json()["error"]["message"].replace("nothing", "ID")
    missing = doors["globex"].send("GET", "/files/acme:x.md").json()["error"]["message"]
    assert missing.replace("acme:x.md", "ID") == other


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metadata": "{"}, "`metadata` is not JSON"),
        ({"metadata": "[1]"}, "must be an object"),
        ({"metadata": '{"a":' + "[" * 40 + "]" * 40 + "}"}, "nested deeper"),
        ({"metadata": '{"file": 1}'}, "may not have the key `file`"),
        ({"titel": "x"}, "'titel' is unknown"),
        ({"id": " "}, "`id` must have 1 to"),
    ],
)
def test_a_wrong_field_is_named(doors: Doors, fields: dict[str, str], said: str) -> None:
    answer = doors["operator"].upload(("g.md", GUIDE), **fields)
    assert (answer.status, said in answer.json()["error"]["message"]) == (422, True), answer.data


FORM = "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"x", 400),
        (FORM, b"nothing of that kind", 400),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nha', 400),
        (FORM, b"--x\r\n" + b"A" * 10_000 + b": b\r\n\r\n\r\n--x--\r\n", 400),
        (FORM, b"--x--\r\n", 422),
    ],
)
def test_a_body_that_is_no_form_is_rejected_and_leaves_no_file(
    doors: Doors, artifacts: Path, kind: str, body: bytes, status: int
) -> None:
    before = stored(artifacts)
    assert doors["operator"].send("POST", "/documents", body, **{"Content-Type": kind}).status == status
    assert stored(artifacts) == before


def test_the_files_of_a_request_have_a_limit(doors: Doors, artifacts: Path) -> None:
    before = stored(artifacts)
    answer = doors["operator"].upload(("a.txt", b"a" * 700_000), ("b.txt", b"b" * 700_000))
    assert (answer.status, answer.json()["error"]["kind"]) == (413, "too_large")
    assert stored(artifacts) == before


def test_a_file_that_was_acknowledged_outlives_kill_9_and_a_half_one_leaves_nothing(index: Path) -> None:
    with started(index, cwd=index.parent) as server:
        door = Door(server, "")
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as half:
            head = b"POST /documents HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n"
            part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="h.md"\r\n\r\n# Half'
            half.sendall(head + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + part + b"a" * 5000)
            told = door.upload(("guide.md", GUIDE), headers={}).json()
            assert told["documents"][0]["status"] == "queued"
            kill_all(server.process.pid)
    assert len(stored(index)) == 1
    with started(index, cwd=index.parent) as server:
        door = Door(server, "")
        assert door.results("callipers earlobes", at_least=told["sequence"])[0]["doc_id"] == "guide.md"
        assert door.change("DELETE", "/documents/guide.md")["status"] == "succeeded"
    assert stored(index) == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("paper.pdf", "paper.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\paper.pdf", "paper.pdf"),
        ("a/", ""),
        ("..", ""),
        ("\u202epdf.exe\n", "\ufffdpdf.exe\ufffd"),
        ("x" * 300 + ".pdf", "x" * 200 + ".pdf"),
    ],
)
def test_a_name_is_never_a_path(given: str, name: str) -> None:
    assert file_name(given) == name
