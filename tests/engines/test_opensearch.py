"""The promises of engines on servers that speak OpenSearch's API."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engines.opensearch_server import Noida, noida_process
from engines.rows import NAMES, queries, row
from engines.suite import EngineSuite
from told_servers import Answer, Asked, free_port, serving

from retrieve_cli.config.index_settings import OpensearchSettings
from retrieve_cli.contracts.engines import Schema
from retrieve_cli.engines.opensearch import OpensearchEngine
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError

__all__ = ["noida_process"]
NAME = NAMES[0]
SCHEMA = Schema({"dense": 8}, {"splade": False}, ("bm25",))


class TestOpensearch(EngineSuite):
    """On a server with requests held against the published API description."""

    server: Noida

    @pytest.fixture
    def new_engine(self, noida_process: Noida) -> Callable[[], OpensearchEngine]:
        type(self).server = noida_process
        noida_process.start()
        for collection in NAMES:
            OpensearchEngine(OpensearchSettings(url=noida_process.url)).drop(collection)
        return lambda: OpensearchEngine(OpensearchSettings(url=noida_process.url))

    def kill_server(self) -> None:
        self.server.kill()

    def unreachable(self) -> OpensearchEngine:
        return OpensearchEngine(OpensearchSettings(url=f"http://127.0.0.1:{free_port()}"))


@contextmanager
def answered(*answers: object) -> Iterator[tuple[OpensearchEngine, list[Asked]]]:
    """Yield an engine on a server of prepared answers, of which the last is repeated, and the requests that it got."""
    asked = list[Asked]()

    def answer(request: Asked) -> Answer:
        asked.append(request)
        value = answers[min(len(asked), len(answers)) - 1]
        return Answer(json.dumps(value).encode(), headers={"content-type": "application/json"})

    with serving(answer) as url:
        engine = OpensearchEngine(OpensearchSettings(url=url))
        yield engine, asked


def bulk(*statuses: int) -> object:
    """Return the answer to a bulk request."""
    error = {"error": {"type": "mapper_parsing_exception", "reason": "the disk is on fire"}}
    return {"items": [{"index": {"status": each, **(error if each >= 400 else {})}} for each in statuses]}


MAPPED = {"chunks-000000000001": {"mappings": {"properties": {}}}}
DOCUMENTS = [row(number, SCHEMA)._replace(numbers={}, dates={}) for number in range(2)]


def test_documents_are_as_the_mapping_of_the_seed_has_them() -> None:
    version = {"version": {"distribution": "opensearch", "number": "2.16.0"}}
    with answered(version, {}, {}, MAPPED, bulk(201)) as (engine, asked):
        engine.create(NAME, SCHEMA)
        engine.upsert(NAME, DOCUMENTS[:1])
    mapping = asked[2].json["mappings"]["properties"]
    for name in ("doc_id", "chunk_id", "tenant_id", "section"):
        assert mapping[name]["type"] == "keyword"
    for name in ("content", "title"):
        assert (mapping[name]["type"], mapping[name]["analyzer"]) == ("text", "english")
    assert mapping["splade_features"] == {"type": "rank_features"}
    assert mapping["dense_vector"]["type"] == "knn_vector"
    document = json.loads(asked[4].body.splitlines()[1])
    assert document.keys() >= mapping.keys() - {"numbers", "dates"}


def test_a_search_is_one_request() -> None:
    empty = {"hits": {"hits": []}}
    with answered({"responses": [empty] * 4}) as (engine, asked):
        found = engine.search(NAME, queries(SCHEMA), None, 10)
    assert ([list(hits) for hits in found.hits], found.marker) == ([[], [], []], "")
    assert [request.path.partition("?")[0] for request in asked] == [f"/chunks-{NAME}/_msearch"]


@pytest.mark.parametrize(
    "lost", [{"timed_out": True}, {"_shards": {"failed": 1}}, {"error": {"type": "x", "reason": "too many clauses"}}]
)
def test_an_answer_without_some_shards_is_no_short_list(lost: dict[str, object]) -> None:
    empty = {"hits": {"hits": []}}
    failed, reason = {"responses": [empty, {**empty, **lost}, empty, empty]}, f"fails a search in chunks-{NAME}"
    with answered(failed) as (engine, _), pytest.raises(Unavailable, match=reason):
        engine.search(NAME, queries(SCHEMA), None, 10)


def test_a_document_that_the_server_rejects_is_an_error() -> None:
    reason = f"a document of chunks-{NAME}: the disk is on fire"
    with answered(MAPPED, bulk(201, 400)) as (engine, _), pytest.raises(Unavailable, match=reason):
        engine.upsert(NAME, DOCUMENTS)


def test_documents_that_a_busy_server_rejects_are_sent_again_alone() -> None:
    with answered(MAPPED, bulk(201, 429), bulk(429), bulk(201)) as (engine, asked):
        engine.upsert(NAME, DOCUMENTS)
    assert [request.body.count(b'"index"') for request in asked] == [0, 2, 1, 1]
    assert DOCUMENTS[1].id.encode() in asked[3].body


@pytest.mark.parametrize(("distribution", "number"), [("opensearch", "2.9.0"), ("elasticsearch", "8.15.0")])
def test_an_older_server_is_named_with_its_version(distribution: str, number: str) -> None:
    version, reason = {"distribution": distribution, "number": number}, f"{distribution} {number}, not OpenSearch 2.16"
    with answered({"version": version}) as (engine, _), pytest.raises(Unavailable, match=reason):
        engine.create(NAME, SCHEMA)


def test_a_snapshot_needs_a_repository_with_the_name_of_the_alias(noida_process: Noida, tmp_path: Path) -> None:
    noida_process.start()
    engine = OpensearchEngine(OpensearchSettings(url=noida_process.url, index="copied"))
    engine.create(NAME, SCHEMA)
    with pytest.raises(UsageError) as caught:
        engine.snapshot(NAME)
    assert caught.value.hint == "register it: PUT /_snapshot/copied"
    engine._ask("PUT", "/_snapshot/copied", {"type": "fs", "settings": {"location": str(tmp_path)}})
    name = engine.snapshot(NAME)
    assert name.startswith(f"copied/copied-{NAME}-")
    for change in (lambda: engine.publish(NAMES[1], "b" * 12), lambda: engine.delete(NAMES[1], ["a"])):
        with pytest.raises(IndexCorrupt):
            change()
    engine.drop(NAME)


def test_a_name_that_no_index_can_have_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"opensearch\.index"):
        OpensearchEngine(OpensearchSettings(index="Chunks"))
