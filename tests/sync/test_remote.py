"""Sources that are kept elsewhere: what reaches the index, and what does not touch it."""

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_servers import Conversation, serving
from samples import Done, Program
from sources.servers import Endpoint, Site, running, stop

from retrieve_cli.storage.manifest import sha1

QUERY = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"
ARTIFACTS = Path("artifacts")
FETCHED = ARTIFACTS / "sources"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly, whatever the machine's proxies."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server with a catalog of four tools."""
    for place in running(Site()):
        serve(place, range(4))
        yield place


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A SPARQL endpoint that knows four others."""
    for place in running(Endpoint()):
        load(place, range(4))
        yield place


def serve(site: Site, numbers: Any, *, text: str = "Segments lungs", **how: Any) -> None:
    """The catalog has these tools from now on."""
    lines = [json.dumps({"id": f"t{at}", "name": f"Tool {at}", "description": f"{text} {at}."}) for at in numbers]
    site.replace("/tools.jsonl", "".join(line + "\n" for line in lines), **how)


def load(endpoint: Endpoint, numbers: Any, *, text: str = "Counts cells") -> None:
    """The endpoint knows these tools from now on."""
    endpoint.store.clear()
    for at in numbers:
        endpoint.load(f'x:s{at} a s:SoftwareSourceCode ; s:name "Service {at}" ; s:description "{text} {at}." .')


def configure(*sources: dict[str, Any], **sections: Any) -> None:
    """Writes a config.yaml; a server that fails is asked only once."""
    quick = {"retries": 0, "timeout_s": 5}
    listed = [{**source, **(quick if "url" in source or "endpoint" in source else {})} for source in sources]
    Path("config.yaml").write_text(json.dumps({"sources": listed, **sections}))
    Path("hub.rq").write_text(QUERY)


def tools(site: Site, **keys: Any) -> dict[str, Any]:
    return {"kind": "http", "name": "tools", "url": site.url + "/tools.jsonl", **keys}


def hub(endpoint: Endpoint, **keys: Any) -> dict[str, Any]:
    return {"kind": "sparql", "name": "hub", "endpoint": endpoint.url, "query": "hub.rq", "id_prefix": "hub/", **keys}


@pytest.fixture
def both(site: Site, endpoint: Endpoint, retrieve: Program) -> Done:
    """The first sync of an index of both, in the folder `artifacts`."""
    configure(tools(site), hub(endpoint))
    done = retrieve("sync", "--json")
    assert done.code == 0, done.err
    return done


def ids(retrieve: Program) -> set[str]:
    """Of all records of the index."""
    return {record["id"] for record in retrieve("inspect", "records", "--limit", 0, "--json").json["records"]}


def answer(retrieve: Program, question: str = "cells in lungs") -> Any:
    """What the index says, without how long it took."""
    done = retrieve("query", question, "--json")
    assert done.code == 0, done.err
    return done.json["generation"], done.json["results"]


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ------------------------------------------------------------------------------------------- what arrives


def test_a_first_sync_builds_from_a_web_server_and_an_endpoint(both: Done, retrieve: Program) -> None:
    assert (both.json["status"], both.json["records"], both.json["added"]) == ("published", 8, 8)
    graph = {f"hub/https://x.org/s{at}" for at in range(4)}
    assert ids(retrieve) == {"t0", "t1", "t2", "t3"} | graph
    assert answer(retrieve, "counts cells")[1][0]["doc_id"] in graph


def test_what_has_not_changed_is_not_sent_again_and_publishes_nothing(
    site: Site, endpoint: Endpoint, retrieve: Program
) -> None:
    serve(site, range(4), headers={"ETag": '"v1"'})
    configure(tools(site), hub(endpoint))
    first = retrieve("sync", "--json").json
    before = content(ARTIFACTS)
    again = retrieve("sync", "--json")
    assert site.last.headers["If-None-Match"] == '"v1"'
    assert (again.code, again.json["status"], again.json["generation"]) == (0, "unchanged", first["generation"])
    assert (again.json["kept"], again.json["added"], again.json["changed"], again.json["removed"]) == (8, 0, 0, 0)
    assert content(ARTIFACTS) == before


def test_records_that_changed_came_and_went_arrive(
    both: Done, site: Site, endpoint: Endpoint, retrieve: Program
) -> None:
    serve(site, [0, 1, 2, 4], text="Registers brains")
    endpoint.load('x:s9 a s:SoftwareSourceCode ; s:name "Stitcher" .')
    done = retrieve("sync", "--json")
    assert done.code == 0, done.err
    counts = [done.json[key] for key in ("status", "added", "changed", "removed", "kept")]
    assert counts == ["published", 2, 3, 1, 4]
    assert answer(retrieve, "registers brains")[1][0]["doc_id"] in {"t0", "t1", "t2", "t4"}
    assert answer(retrieve, "stitcher")[1][0]["doc_id"] == "hub/https://x.org/s9"
    assert retrieve("sync", "--verify").code == 0


def test_a_sync_knows_its_sources_without_a_configuration(
    both: Done, site: Site, endpoint: Endpoint, retrieve: Program
) -> None:
    Path("config.yaml").unlink()
    serve(site, range(5))
    load(endpoint, range(6))
    done = retrieve("sync", "--json")
    assert done.code == 0, done.err
    assert (done.json["added"], done.json["kept"]) == (3, 8)
    stop(site)
    done = retrieve("sync")
    assert done.code == 1
    assert "tools" in done.err


# ------------------------------------------------------------------------------------- what touches nothing


def refused_query(_: Site, endpoint: Endpoint) -> None:
    endpoint.refused = ("POST", "GET")


def stopped_endpoint(site: Site, endpoint: Endpoint) -> None:
    serve(site, range(5))
    stop(endpoint)


PAGE = "<!DOCTYPE html><title>Down for maintenance</title>"
TROUBLES: dict[str, tuple[str, Callable[[Site, Endpoint], object]]] = {
    "html": ("tools: ", lambda site, _: site.replace("/tools.jsonl", PAGE)),
    "internal_error": ("tools: ", lambda site, _: site.replace("/tools.jsonl", "oops", status=500)),
    "refused_connection": ("tools: ", lambda site, _: stop(site)),
    "wrong_digest": ("tools: ", lambda site, _: serve(site, range(5), headers={"X-Checksum-Sha1": "0" * 40})),
    "truncated": ("tools: ", lambda site, _: serve(site, range(5), sent=100)),
    "lost_records": ("tools has 1 record now", lambda site, _: serve(site, [0])),
    "refused_query": ("hub: ", refused_query),
    "stopped_endpoint": ("hub: ", stopped_endpoint),
    "empty_graph": ("hub: ", lambda _, endpoint: endpoint.store.clear()),
    "lost_graph": ("hub has 1 record now", lambda _, endpoint: load(endpoint, [0])),
}
"""By name of a trouble: how the sentence begins that tells of it, and what brings it about."""


def bring(trouble: str, site: Site, endpoint: Endpoint) -> str:
    """Bring a trouble about, and return how its sentence begins."""
    sentence, happen = TROUBLES[trouble]
    happen(site, endpoint)
    return sentence


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_source_that_cannot_be_believed_publishes_nothing(
    both: Done, site: Site, endpoint: Endpoint, retrieve: Program, trouble: str
) -> None:
    before, generations = answer(retrieve), content(ARTIFACTS / "generations")
    sentence = bring(trouble, site, endpoint)
    for _ in range(2):
        done = retrieve("sync")
        assert (done.code, done.out) == (1, "")
        assert re.search(rf"^error: {sentence}", done.err, re.MULTILINE), done.err
        assert re.search(r"^hint: .", done.err, re.MULTILINE), done.err
    done = retrieve("sync", "--json")
    assert (done.code, done.json["status"], done.json["generation"]) == (1, "failed", both.json["generation"])
    assert sentence in done.json["error"]["message"]
    after = answer(retrieve)
    assert [hit["id"] for hit in after[1]] == [hit["id"] for hit in before[1]]
    assert (after[0], content(ARTIFACTS / "generations")) == (before[0], generations)
    assert retrieve("inspect", "verify").code == 0
    assert list(FETCHED.glob(".*")) == []


def test_a_first_sync_that_fails_leaves_no_index(site: Site, endpoint: Endpoint, retrieve: Program) -> None:
    configure(tools(site), hub(endpoint))
    sentence = bring("refused_query", site, endpoint)
    done = retrieve("sync", "--json")
    assert (done.code, done.json["status"], done.json["generation"]) == (1, "failed", None)
    assert sentence in done.json["error"]["message"]
    assert retrieve("query", "lungs").code == 4


@pytest.mark.parametrize("name", ["../escaped", "a/b", "a\0b", "a\x1b[31mb"])
def test_a_name_that_leads_elsewhere_is_refused(site: Site, retrieve: Program, name: str) -> None:
    configure(tools(site, name=name))
    done = retrieve("sync")
    assert done.code == 2
    assert "cannot be called" in done.err or "holds a NUL" in done.err
    assert {path.name for path in Path().rglob("*.jsonl")} == set()


def test_a_dry_run_fetches_and_leaves_the_folder_as_it_was(
    both: Done, site: Site, endpoint: Endpoint, retrieve: Program
) -> None:
    serve(site, range(5))
    load(endpoint, [1, 2, 3])
    before = content(ARTIFACTS)
    plan = retrieve("sync", "--dry-run", "--json")
    assert (plan.code, plan.json["status"]) == (0, "planned")
    assert plan.json["ids"]["added"] == ["t4"]
    assert plan.json["ids"]["removed"] == ["hub/https://x.org/s0"]
    assert content(ARTIFACTS) == before
    bring("html", site, endpoint)
    assert retrieve("sync", "--dry-run").code == 1
    assert content(ARTIFACTS) == before


# ----------------------------------------------------------------------------------------- on the way to an answer


@pytest.mark.parametrize("trouble", ["html", "lost_graph"])
def test_a_query_answers_with_a_note_where_a_source_fails(
    both: Done, site: Site, endpoint: Endpoint, retrieve: Program, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    before = answer(retrieve)
    monkeypatch.setenv("RETRIEVE_SOURCES__AUTO_SYNC", "true")
    sentence = bring(trouble, site, endpoint)
    done = retrieve("query", "cells in lungs")
    assert done.code == 0
    assert re.search(rf"^note: .*{sentence}", done.err, re.MULTILINE), done.err
    after = answer(retrieve)
    assert (after[0], [hit["id"] for hit in after[1]]) == (before[0], [hit["id"] for hit in before[1]])


# ------------------------------------------------------------------------------------------------ credentials

SECRETS = ["open-sesame", "swordfish", base64.b64encode(b"zoe:swordfish").decode()]


@pytest.fixture
def guarded(site: Site, endpoint: Endpoint, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Done:
    """A sync with a token for the one and a password for the other."""
    monkeypatch.setenv("TOOLS_TOKEN", SECRETS[0])
    monkeypatch.setenv("HUB_USER", "zoe")
    monkeypatch.setenv("HUB_PASSWORD", SECRETS[1])
    endpoint.login = f"zoe:{SECRETS[1]}"
    login = {"user_env": "HUB_USER", "password_env": "HUB_PASSWORD"}
    configure(tools(site, token_env="TOOLS_TOKEN"), hub(endpoint, **login))
    done = retrieve("sync", "--verbose")
    assert done.code == 0, done.err
    return done


def shows_a_secret(text: str | bytes) -> bool:
    raw = text if isinstance(text, bytes) else text.encode()
    return any(secret.encode() in raw for secret in SECRETS)


def test_credentials_reach_their_server_and_are_kept_nowhere(
    guarded: Done, site: Site, endpoint: Endpoint, retrieve: Program
) -> None:
    assert site.asked[0].headers["Authorization"] == "Bearer open-sesame"
    assert endpoint.asked[0].headers["Authorization"] == f"Basic {SECRETS[2]}"
    status = retrieve("inspect", "status", "--json")
    assert "TOOLS_TOKEN" not in "".join(map(str, content(ARTIFACTS).values()))
    said = [guarded.out, guarded.err, status.out, status.err, retrieve("query", "cells", "--json").out]
    assert not any(map(shows_a_secret, [*said, *content(ARTIFACTS).values()]))


def test_credentials_are_not_shown_where_a_server_refuses_and_repeats_them(
    guarded: Done, site: Site, retrieve: Program
) -> None:
    site.replace("/tools.jsonl", f"you sent {SECRETS[0]}", status=403)
    done = retrieve("sync", "--json", "--verbose")
    assert done.code == 1
    assert "you sent ***" in done.json["error"]["message"]
    assert "$TOOLS_TOKEN" in done.err
    site.replace("/tools.jsonl", f"<html>{SECRETS[0]}</html>")
    again = retrieve("sync", "--verbose")
    assert again.code == 1
    assert not any(map(shows_a_secret, [done.out, done.err, again.out, again.err, *content(ARTIFACTS).values()]))


def test_a_sync_without_a_configuration_asks_without_credentials_and_says_so(
    guarded: Done, site: Site, endpoint: Endpoint, retrieve: Program
) -> None:
    Path("config.yaml").unlink()
    endpoint.login = ""
    asked = len(site.asked), len(endpoint.asked)
    done = retrieve("sync", "--verbose")
    assert done.code == 0, done.err
    for request in [*site.asked[asked[0] :], *endpoint.asked[asked[1] :]]:
        assert request.headers["Authorization"] is None
    assert f"note: tools ({site.url}/tools.jsonl) is read without credentials" in done.err
    endpoint.login = "zoe:swordfish"
    done = retrieve("sync")
    assert done.code == 1
    assert "hub: " in done.err
    assert "list it under `sources:` in config.yaml with token_env" in done.err


def test_a_manifest_cannot_name_a_variable_that_is_sent(
    both: Done, site: Site, endpoint: Endpoint, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest from somebody else may name any variable, and any server."""
    monkeypatch.setenv("AWS_SECRET", "open-sesame")
    monkeypatch.setenv("ME", "zoe")
    Path("config.yaml").unlink()
    place = ARTIFACTS / "generations" / both.json["generation"] / "manifest.json"
    manifest = json.loads(place.read_text())
    first, second = (source["origin"] for source in manifest["built"]["sources"])
    first["token_env"] = "AWS_SECRET"
    second |= {"user_env": "ME", "password_env": "AWS_SECRET"}
    manifest["built_sha1"] = sha1(manifest["built"])
    place.write_text(json.dumps(manifest))
    asked = len(site.asked), len(endpoint.asked)
    for command in (["doctor"], ["sync", "--dry-run"], ["sync"]):
        done = retrieve(*command)
        assert "open-sesame" not in done.out + done.err
    assert len(site.asked) > asked[0]
    assert len(endpoint.asked) > asked[1]
    for request in [*site.asked, *endpoint.asked]:
        assert request.headers["Authorization"] is None
        assert b"sesame" not in request.body
    assert "AWS_SECRET" not in place.read_text()


def test_an_index_survives_the_loss_of_what_was_fetched(both: Done, retrieve: Program) -> None:
    shutil.rmtree(FETCHED)
    before = answer(retrieve)[0]
    done = retrieve("sync", "--json")
    assert (done.code, done.json["status"], done.json["generation"]) == (0, "unchanged", before)
    assert (FETCHED / "hub.jsonl").is_file()


DRIPPING: dict[str, tuple[bytes, bytes]] = {
    "its body": (b"HTTP/1.1 200 OK\r\n\r\n", b'{"id": "a", "name": "b"}\n'),
    "answers that pass": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
}


@pytest.mark.parametrize(("before", "again"), DRIPPING.values(), ids=DRIPPING)
def test_a_server_that_drips_holds_a_sync_and_its_lock_no_longer_than_the_deadline(
    both: Done, site: Site, retrieve: Program, before: bytes, again: bytes
) -> None:
    def say(talk: Conversation) -> None:
        talk.send(before)
        talk.drip(again)

    with serving(say) as server:
        configure(tools(site, url=f"{server.url}/tools.jsonl", deadline_s=1, retries=9))
        done = retrieve("sync")
        assert done.code == 1
        assert "no complete answer within 1 s" in done.err
        assert "deadline_s" in done.err
    configure(tools(site))
    assert retrieve("sync", "--no-wait", "--max-shrink", 1).code == 0
