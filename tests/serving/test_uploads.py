"""Files over HTTP: stored before the answer, parsed by the sync as those of a folder, and each tenant's own."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from samples import TOOLS, write_catalog
from servers import Server, started
from urllib3.filepost import encode_multipart_formdata

from retrieve_cli.api.document_files import file_name
from retrieve_cli.serving.credentials.keys import KeyFile

GUIDE = b"---\nlicense: MIT\n---\n# Guide to ears\n\nOutlines ears.\n\n## Lobes\n\nMeasures earlobes with callipers.\n"
WAIT = {"Prefer": "wait=60"}


class Door:
    """A server as one caller sees it."""

    def __init__(self, server: Server, key: str) -> None:
        self.server, self.key = server, key

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> urllib3.BaseHTTPResponse:
        sent = {"Authorization": f"Bearer {self.key}", **headers}
        return urllib3.request(method, self.server.url + path, body=body, headers=sent, timeout=90, retries=False)

    def upload(self, *files: tuple[str, bytes], headers: Any = WAIT, **fields: str) -> urllib3.BaseHTTPResponse:
        parts: list[Any] = [("file", (name, content, "application/octet-stream")) for name, content in files]
        body, kind = encode_multipart_formdata([*parts, *fields.items()])
        return self.send("POST", "/documents", body, **{"Content-Type": kind, **headers})

    def get(self, path: str) -> Any:
        answer = self.send("GET", path)
        assert answer.status == 200, answer.data
        return answer.json()

    def search(self, query: str, **more: Any) -> list[dict[str, Any]]:
        body = json.dumps({"query": query, "expand": False, **more})
        answer = self.send("POST", "/search", body, **{"Content-Type": "application/json"})
        assert answer.status == 200, answer.data
        results: list[dict[str, Any]] = answer.json()["results"]
        return results


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from retrieve_cli.cli.main import main

    folder = tmp_path_factory.mktemp("index")
    catalog = write_catalog(folder / "tools.jsonl", TOOLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        assert main(["build", str(catalog), "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    return folder / "artifacts"


@pytest.fixture(scope="module")
def doors(artifacts: Path) -> Iterator[dict[str, Door]]:
    """A server of a catalog, as an operator without a tenant, two tenants and a reader see it."""
    file, writing = KeyFile(artifacts), ["search", "documents:write"]
    keys = {
        "operator": file.create([*writing, "index:admin"]).text,
        "acme": file.create(writing, tenant="acme").text,
        "globex": file.create(writing, tenant="globex").text,
        "reader": file.create(["search"]).text,
    }
    small = {"RETRIEVE_PARSING__MAX_MB": "1", "RETRIEVE_DOCS__MAX_MB": "0.5"}
    with started(artifacts, cwd=artifacts.parent, RETRIEVE_ENCODER__KIND="hashed", **small) as server:
        yield {name: Door(server, key) for name, key in keys.items()}


def stored(artifacts: Path) -> list[str]:
    folder = artifacts / "inbox" / "files"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_file_is_a_document_with_sections_once_its_task_has_ended(doors: dict[str, Door]) -> None:
    door = doors["operator"]
    answer = door.upload(("guide.md", GUIDE), metadata='{"group": "ears", "author": "Ada"}')
    assert answer.status == 200, answer.data
    assert answer.json()["documents"] == [{"id": "guide.md", "status": "processed", "sequence": 1}]
    hit = door.search("callipers earlobes", chunks=True)[0]
    assert (hit["doc_id"], hit["name"], hit["section"]) == ("guide.md", "Guide to ears", "Guide to ears > Lobes")
    state = door.get("/documents/guide.md")
    assert state["document"] == {"metadata": {"group": "ears", "author": "Ada"}}
    assert (state["file"]["name"], state["file"]["size"]) == ("guide.md", len(GUIDE))
    record = state["record"]
    assert (record["kind"], record["license"], record["group"]) == ("markdown", "MIT", "ears")
    assert record["metadata"] == {"author": "Ada", "file": state["file"]}


def test_the_index_with_files_equals_a_build(doors: dict[str, Door]) -> None:
    body = json.dumps({"action": "verify"})
    answer = doors["operator"].send("POST", "/index", body, **WAIT, **{"Content-Type": "application/json"})
    assert answer.json()["report"]["verified"] is True


def test_several_files_at_once_and_bad_ones_do_not_lose_the_others(doors: dict[str, Door]) -> None:
    files = [("a.md", b"# Knees\n\nBends knees."), ("b.exe", b"MZ\0\0"), ("c.txt", b""), ("d.txt", b"\xff\xfe\xff")]
    answer = doors["operator"].upload(*files, ("x/a.md", b"# Other"), ("e.txt", b"x" * 600_000))
    assert answer.status == 200, answer.data
    good, strange, empty, damaged, same, large = answer.json()["documents"]
    assert (good["id"], good["status"]) == ("a.md", "processed")
    assert (strange["status"], "is not a document" in strange["reason"]) == ("rejected", True)
    assert empty["reason"] == "it is empty"
    assert (damaged["status"], "it is not UTF-8" in damaged["reason"]) == ("rejected", True)
    assert "not UTF-8" in doors["operator"].get("/documents/d.txt")["reason"]
    assert "same name" in same["reason"]
    assert "the limit is" in large["reason"]


def test_a_file_can_have_an_id_and_is_replaced_and_removed_under_it(doors: dict[str, Door], artifacts: Path) -> None:
    door = doors["operator"]
    door.upload(("one.txt", b"A pump for water."), id="pump")
    first = door.get("/documents/pump")["file"]["sha1"]
    door.upload(("two.txt", b"A pump for oil, of bronze."), id="pump")
    second = door.get("/documents/pump")
    assert (second["file"]["name"], "bronze" in second["record"]["text"]) == ("two.txt", True)
    again = door.upload(("two.txt", b"A pump for oil, of bronze."), id="pump").json()
    assert again["sequence"] == second["sequence"], "the same again is no change"
    assert door.send("DELETE", "/documents/pump", **WAIT).status == 200
    assert door.send("GET", "/documents/pump").status == 404
    assert first in stored(artifacts), "a generation that is kept was built from it"
    for number in range(4):
        door.upload((f"more{number}.txt", b"More words, number %d." % number))
    assert not {first, second["file"]["sha1"]} & set(stored(artifacts))


def test_tenants_see_their_own_files_only(doors: dict[str, Door]) -> None:
    acme, globex = doors["acme"], doors["globex"]
    assert acme.upload(("plan.txt", b"The secret plan: anvils.")).json()["documents"][0]["id"] == "acme:plan.txt"
    assert globex.upload(("plan.txt", b"Plan for rockets.")).json()["documents"][0]["id"] == "globex:plan.txt"
    assert [hit["doc_id"] for hit in globex.search("secret plan anvils")] == ["globex:plan.txt"]
    assert "anvils" in acme.get("/documents/plan.txt")["record"]["text"]
    unknown = globex.send("GET", "/documents/nothing").json()["error"]["message"].replace("nothing", "ID")
    for path in ("/documents/acme:plan.txt", "/files/acme:plan.txt"):
        answer = globex.send("GET", path)
        assert answer.status == 404
    assert (
        globex.send("GET", "/documents/acme:plan.txt").json()["error"]["message"].replace("acme:plan.txt", "ID")
        == unknown
    )
    trap = globex.upload(("trap.txt", b"A trap."), metadata='{"tenant": "acme"}')
    assert (trap.status, "'acme'" in trap.json()["error"]["message"]) == (422, True)


def test_the_original_is_given_back_as_a_download(doors: dict[str, Door]) -> None:
    door = doors["acme"]
    door.upload(('a b\u00e4";.md', GUIDE))
    (entry,) = [
        r for r in door.get("/documents?limit=1000")["records"] if r["metadata"]["file"]["name"].startswith("a b")
    ]
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
def test_a_wrong_field_is_named(doors: dict[str, Door], fields: dict[str, str], said: str) -> None:
    answer = doors["operator"].upload(("g.md", GUIDE), **fields)
    assert (answer.status, said in answer.json()["error"]["message"]) == (422, True), answer.data


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"x", 400),
        ("multipart/form-data; boundary=x", b"nothing of that kind", 400),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nha',
            400,
        ),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"A" * 10_000 + b": b\r\n\r\n\r\n--x--\r\n", 400),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 422),
    ],
)
def test_a_body_that_is_no_form_is_rejected_and_leaves_no_file(
    doors: dict[str, Door], artifacts: Path, kind: str, body: bytes, status: int
) -> None:
    before = stored(artifacts)
    assert doors["operator"].send("POST", "/documents", body, **{"Content-Type": kind}).status == status
    assert stored(artifacts) == before


def test_the_files_of_a_request_have_a_limit(doors: dict[str, Door], artifacts: Path) -> None:
    before = stored(artifacts)
    answer = doors["operator"].upload(("a.txt", b"a" * 700_000), ("b.txt", b"b" * 700_000))
    assert (answer.status, answer.json()["error"]["kind"]) == (413, "too_large")
    assert stored(artifacts) == before


def test_uploading_needs_the_scope(doors: dict[str, Door]) -> None:
    assert doors["reader"].upload(("g.md", GUIDE)).status == 403
    assert Door(doors["reader"].server, "wrong").upload(("g.md", GUIDE)).status == 401


def test_a_file_that_was_acknowledged_outlives_kill_9_and_a_half_one_leaves_nothing(index: Path) -> None:
    artifacts = index
    with started(artifacts, cwd=index.parent) as server:
        door = Door(server, "")
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as half:
            head = b"POST /documents HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n"
            part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="h.md"\r\n\r\n# Half'
            half.sendall(head + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + part + b"a" * 5000)
            end = time.monotonic() + 20
            while not stored(artifacts):
                assert time.monotonic() < end
                time.sleep(0.05)
            told = door.upload(("guide.md", GUIDE), headers={}).json()
            assert told["documents"][0]["status"] == "queued"
            children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
            for process in (server.process.pid, *map(int, children)):
                os.kill(process, signal.SIGKILL)
    assert len(stored(artifacts)) == 2
    with started(artifacts, cwd=index.parent) as server:
        door = Door(server, "")
        assert door.search("callipers earlobes", at_least=told["sequence"])[0]["doc_id"] == "guide.md"
        assert door.send("DELETE", "/documents/guide.md", **WAIT).status == 200
        assert len(stored(artifacts)) <= 2
    assert not [name for name in stored(artifacts) if name.endswith(".part")]


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
