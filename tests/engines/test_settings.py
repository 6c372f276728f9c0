"""Configuration of engines and the commands `retrieve engines`."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines.injected import Servers
from samples import Program, fails, write_catalog
from sync.state import records

from retrieve_cli.config import loading
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.engines import Schema
from retrieve_cli.errors import UsageError
from retrieve_cli.storage import engine_record
from retrieve_cli.storage.engine_record import EngineCollection


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
        ("engines: {texts: lokal}", "lokal", "local"),
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


@pytest.mark.parametrize("command", [["push"], ["status"], ["snapshot"]])
def test_commands_without_a_configured_engine_give_an_example(
    index: Path, retrieve: Program, command: list[str]
) -> None:
    hint = "RETRIEVE_ENGINES__DENSE=pgvector"
    assert fails(retrieve("engines", *command), 2, "no engine is configured", hint).out == ""


def test_collections_of_others_stay_and_those_of_an_interrupted_push_are_removed(
    servers: Servers, tmp_path: Path, retrieve: Program
) -> None:
    source = write_catalog(tmp_path / "tools.jsonl", records(1, 10))
    assert retrieve("build", "--catalog", source).code == 0
    names = ("0123456789ab", "ba9876543210")
    for name in names:
        servers.engine("qdrant").create(name, Schema())
    noted = engine_record.read(Path("artifacts"))  # as if a push had been killed
    interrupted = [EngineCollection("qdrant", name, "", ("dense",)) for name in (names[0], "f" * 12)]
    engine_record.write(Path("artifacts"), [*interrupted, *noted])
    assert "0 rows of an incomplete push (not in use)" in retrieve("engines", "status").out
    assert retrieve("engines", "push", "--again").code == 0
    assert set(names) & servers.collections("qdrant").keys() == {names[1]}
