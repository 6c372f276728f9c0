"""Configuration of engines and the commands `retrieve engines`."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines.injected import Servers
from samples import Program, fails, write_catalog
from sync.state import live, records

from retrieve_cli.config import loading
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.storage.store import SENT


def loaded(text: str, **environment: str) -> Settings:
    Path("config.yaml").write_text(text, "utf-8")
    return loading.load(None, environment)


def test_servers_may_be_written_within_engines() -> None:
    nested = loaded("engines: {dense: qdrant, lexical: opensearch, qdrant: {url: 'http://q:1', quantize: none}}")
    flat = loaded("engines: {dense: qdrant, lexical: opensearch}\nqdrant: {url: 'http://q:1', quantize: none}")
    assert nested == flat
    assert (nested.qdrant.url, nested.qdrant.quantize) == ("http://q:1", "none")
    assert nested.engines.in_use == ("qdrant", "opensearch")


def test_published_names_of_the_keys_are_accepted() -> None:
    wanted = loaded("engines: {dense: opensearch, lexical: opensearch}")
    assert loaded("vector_index: opensearch\nlexical_index: opensearch") == wanted
    assert loaded("engines: {vector_index: opensearch, lexical_index: opensearch}") == wanted


@pytest.mark.parametrize(
    ("text", "named", "near"),
    [
        ("engines: {dense: qdrnt}", "qdrnt", "qdrant"),
        ("engines: {lexcal: opensearch}", "lexcal", "lexical"),
        ("engines: {dense: qdrant, qdrant: {collecton: x}}", "collecton", "collection"),
        ("vector_index: pgvectr", "pgvectr", "pgvector"),
        ("pgvecto: {url: x}", "pgvecto", "pgvector"),
        ("pgvector: {index: hsnw}", "hsnw", "hnsw"),
    ],
)
def test_an_unknown_name_is_rejected_with_the_nearest(text: str, named: str, near: str) -> None:
    with pytest.raises(UsageError) as failed:
        loaded(text)
    said = f"{failed.value.message} {failed.value.hint}"
    assert named in said
    assert f"`{near}`" in said


@pytest.mark.parametrize("role", ["lexical", "sparse"])
def test_term_weights_in_postgresql_are_rejected_with_what_to_write(role: str) -> None:
    with pytest.raises(
        UsageError, match=rf"`engines\.{role}` in config\.yaml is pgvector, which holds vectors only"
    ) as failed:
        loaded(f"engines: {{{role}: pgvector}}")
    assert f"`engines.{role}` in config.yaml" in failed.value.message
    assert failed.value.hint == "write one of local, qdrant, opensearch"


# ------------------------------------------------------------------------------------------------------ commands


@pytest.fixture
def built(servers: Servers, tmp_path: Path, retrieve: Program) -> str:
    """The id of an index of two generations, of which the engines hold both."""
    source = write_catalog(tmp_path / "tools.jsonl", records(1, 10))
    assert retrieve("build", "--catalog", source).code == 0
    write_catalog(source, records(2, 10))
    assert retrieve("sync").code == 0
    return live(Path("artifacts"))


@pytest.mark.parametrize("command", [["push"], ["status"], ["drop", "abc"]])
def test_commands_without_a_configured_engine_give_an_example(
    index: Path, retrieve: Program, command: list[str]
) -> None:
    assert (
        fails(retrieve("engines", *command), 2, "no engine is configured", "RETRIEVE_ENGINES__DENSE=pgvector").out == ""
    )


def test_status_marks_the_current_generation_and_what_is_incomplete(
    servers: Servers, built: str, retrieve: Program
) -> None:
    with (Path("artifacts") / SENT).open("a") as sent:  # as if a push had been killed
        sent.write("qdrant 0123456789ab\n")
    servers.engine("qdrant").stage("0123456789ab", [])
    servers.engine("qdrant").stage("ba9876543210", [])
    lines = retrieve("engines", "status").out.splitlines()
    assert f"  {built}  current, live, complete" in lines
    assert "  0123456789ab  incomplete: the next push from its index removes it" in lines
    found = retrieve("engines", "status", "--json").json["engines"]
    assert {each["generation"]: each["current"] for each in found["opensearch"]["generations"]}[built]
    assert sum(each["live"] for each in found["qdrant"]["generations"]) == 1
    assert retrieve("sync").code == 0
    after = retrieve("engines", "status").out
    assert "0123456789ab" not in after
    assert "ba9876543210" in after  # another index may be at work on it


def test_the_current_generation_cannot_be_dropped_and_others_can_by_the_beginning_of_their_ids(
    servers: Servers, built: str, retrieve: Program
) -> None:
    assert fails(retrieve("engines", "drop", built), 2, f"{built} is the current generation").out == ""
    (older,) = [each.generation for each in servers.engine("qdrant").generations() if each.generation != built]
    assert retrieve("engines", "drop", older[:6], "qdrant").out == f"qdrant: removed generation {older}\n"
    done = retrieve("engines", "drop", older, "--json").json
    assert done["dropped"] == [{"engine": "opensearch", "generation": older}]
    fails(retrieve("engines", "drop", older), 2, "retrieve engines status")
    fails(retrieve("engines", "drop", older, "pgvector"), 2, "no index lives in pgvector")
    assert retrieve("query", "lungs", "--json").json["strategies_used"] == ["bm25", "dense"]
