"""`retrieve doctor` on engines: what is wrong with each, and the command or edit that fixes it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engines.pgvector_server import PostgresServer
from engines.sqlite_engine import SqliteEngine, create_database
from samples import TOOLS, Program, write_catalog

from retrieve_cli.assemble import engines
from retrieve_cli.contracts.engines import Part
from retrieve_cli.errors import Unavailable

OTHER = "0123456789ab"


class Small(SqliteEngine):
    """The engine of the tests, under a name that the configuration knows."""

    name = "pgvector"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """The engine, configured for keywords and vectors."""
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "pgvector")
    monkeypatch.setenv("RETRIEVE_ENGINES__LEXICAL", "pgvector")
    create_database(tmp_path / "server.db")
    engine = Small(tmp_path / "server.db")
    monkeypatch.setattr(engines, "_made", lambda *_: engine)
    return engine


@pytest.fixture
def built(small: Small, index: Path) -> str:
    """The id of the generation that was sent to it."""
    assert index.is_dir()
    return str(small.live())


Look = Callable[[], dict[str, str]]


@pytest.fixture
def look(retrieve: Program) -> Look:
    """The finding about the engine."""

    def found() -> dict[str, str]:
        checks = {check["name"]: check for check in json.loads(retrieve("doctor", "--json").out)["checks"]}
        check: dict[str, str] = checks["pgvector"]
        return check

    return found


def test_a_generation_that_is_as_it_was_sent_is_fine(built: str, look: Look) -> None:
    check = look()
    assert (check["status"], check["fix"]) == ("ok", "")
    assert check["message"].startswith(f"holds {built}: version 3.")


def test_before_the_first_build_an_engine_is_only_reached(small: Small, look: Look) -> None:
    assert small.live() is None
    assert look()["message"].startswith("reachable, and there is no index yet")


def test_an_index_that_was_built_before_the_engine_was_configured_has_to_be_pushed(
    index: Path, look: Look, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("small")
    check = look()
    assert (check["status"], check["fix"]) == ("fail", "retrieve engines push")
    assert "was not sent to it" in check["message"]


def test_an_index_of_which_a_part_was_sent_is_named(
    small: Small, catalog: Path, look: Look, monkeypatch: pytest.MonkeyPatch, retrieve: Program
) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "local")
    assert retrieve("build", "--catalog", catalog).code == 0
    assert look()["status"] == "ok"
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "pgvector")
    check = look()
    assert (check["status"], check["fix"]) == ("fail", "retrieve engines push")
    assert "the index of dense was not sent to it" in check["message"]
    assert small.live() is not None


def test_a_generation_that_the_engine_lost_has_to_be_pushed(small: Small, built: str, look: Look) -> None:
    small.drop(built)
    check = look()
    assert (check["status"], check["fix"]) == ("fail", "retrieve engines push")
    assert f"it no longer holds generation {built}" in check["message"]


def test_an_incomplete_current_generation_has_to_be_pushed(small: Small, built: str, look: Look) -> None:
    with small.opened() as database:
        database.execute("UPDATE generations SET census = NULL")
    check = look()
    assert (check["status"], check["fix"]) == ("fail", "retrieve engines push")
    assert f"generation {built} is not complete" in check["message"]


def test_other_counts_and_contents_than_were_sent_are_found(small: Small, built: str, look: Look) -> None:
    with small.opened() as database:
        (text,) = database.execute("SELECT census FROM generations").fetchone()
        rows, _, *others = json.loads(text)
        changed = json.dumps([{**rows, "dense": 4}, "0" * 40, *others])
        database.execute("UPDATE generations SET census = ?", (changed,))
    check = look()
    assert check["status"] == "fail"
    assert "it has 4 rows of dense, and the index has 5" in check["message"]
    assert f"it holds other rows under {built} than were sent to it" in check["message"]


def test_parameters_that_changed_since_are_a_warning(
    small: Small, built: str, look: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert small.live() == built
    monkeypatch.setattr(engines, "_made", lambda *_: Small(tmp_path / "server.db", seed=1))
    check = look()
    assert (check["status"], check["fix"]) == ("warn", "retrieve engines push")
    assert "other parameters than are configured (seed)" in check["message"]


def test_an_alias_that_names_another_generation_is_a_warning(small: Small, built: str, look: Look) -> None:
    with small.opened() as database:
        database.execute("DELETE FROM alias")
    check = look()
    assert (check["status"], check["fix"]) == ("warn", "retrieve engines push")
    assert f"its alias names nothing, and {built} is current" in check["message"]


def test_what_a_crash_left_is_named_with_the_command_that_removes_it(
    small: Small, built: str, look: Look, retrieve: Program
) -> None:
    small.stage(OTHER, [Part("dense", "chunk", 3, 2)]).close()
    check = look()
    assert (check["status"], check["fix"]) == ("warn", f"retrieve engines drop {OTHER}")
    assert f"1 incomplete generation ({OTHER})" in check["message"]
    assert retrieve(*check["fix"].split()[1:]).code == 0
    assert look()["status"] == "ok"
    assert small.live() == built


def test_complete_generations_of_another_index_are_not_simply_dropped(small: Small, built: str, look: Look) -> None:
    small.stage(OTHER, []).finish()
    check = look()
    assert check["status"] == "warn"
    assert f"1 generation that this index does not know ({OTHER})" in check["message"]
    assert check["fix"].startswith("give each index its own `engines.pgvector.schema`, or remove it: ")
    assert small.live() == built


def test_an_engine_that_cannot_be_reached_fails(
    small: Small, built: str, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable() -> None:
        raise Unavailable("the server does not answer", hint="start it")

    monkeypatch.setattr(small, "live", unreachable)
    assert look() == {"name": "pgvector", "status": "fail", "message": "the server does not answer", "fix": "start it"}
    assert built


@pytest.mark.parametrize(("lost", "status"), [(False, "warn"), (True, "fail")])
def test_problems_of_the_server_weigh_as_much_as_they_do_harm(
    small: Small, built: str, look: Look, monkeypatch: pytest.MonkeyPatch, *, lost: bool, status: str
) -> None:
    monkeypatch.setattr(small, "problems", lambda: [("the extension is old", "ALTER EXTENSION vector UPDATE;")])
    if lost:
        small.drop(built)
    check = look()
    assert check["status"] == status
    assert check["message"].startswith("the extension is old")
    assert check["fix"].startswith("ALTER EXTENSION vector UPDATE;")


def test_a_secret_that_is_not_set_is_named_by_its_variable(
    index: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__LEXICAL", "pgvector")
    monkeypatch.setenv("RETRIEVE_PGVECTOR__PASSWORD_ENV", "NOT_SET_ANYWHERE")
    check = look()
    assert (check["status"], check["fix"]) == ("fail", "export NOT_SET_ANYWHERE=...")


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://search.example.org:9200", True),
        ("http://user@192.0.2.7/", True),
        ("http://[2001:db8::7]:9200", True),
        ("https://search.example.org:9200", False),
        ("http://127.0.0.1:9200", False),
        ("http://[::1]:9200", False),
        ("http://localhost", False),
    ],
)
def test_a_secret_over_plain_http_to_another_host_is_a_warning(
    built: str, look: Look, monkeypatch: pytest.MonkeyPatch, url: str, *, exposed: bool
) -> None:
    monkeypatch.setenv("RETRIEVE_PGVECTOR__URL", url)
    assert look()["status"] == "ok", "without a secret nothing is exposed"
    monkeypatch.setenv("SECRET", "hidden-value")
    monkeypatch.setenv("RETRIEVE_PGVECTOR__PASSWORD_ENV", "SECRET")
    check = look()
    assert (check["status"] == "warn") is exposed
    if exposed:
        assert "without encryption" in check["message"]
        assert check["fix"] == "set `engines.pgvector.url` to https://…"
    assert "hidden-value" not in json.dumps(check)
    assert built


def test_without_engines_there_is_no_check_and_nothing_of_them_is_imported(tmp_path: Path) -> None:
    write_catalog(tmp_path / "tools.jsonl", TOOLS)
    program = """
import sys
from retrieve_cli.cli.main import main
assert main(["build", "--catalog", "tools.jsonl", "-q"]) == 0
main(["doctor", "--json"])
print(sorted(name for name in sys.modules if name.startswith("retrieve_cli.engines") or "assemble.engines" in name))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    *_, shown, imported = done.stdout.strip().splitlines()
    assert imported == "[]", done.stderr
    names = {check["name"] for check in json.loads(shown)["checks"]}
    assert not names & {"pgvector", "qdrant", "milvus", "opensearch"}


def test_pgvector_is_checked_by_the_same_rules(
    postgres: PostgresServer,
    database: str,
    catalog: Path,
    look: Look,
    retrieve: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__LEXICAL", "pgvector")
    postgres.run("DROP ROLE IF EXISTS guest")
    postgres.run("CREATE ROLE guest LOGIN")
    monkeypatch.setenv("RETRIEVE_PGVECTOR__URL", postgres.url(database, "guest"))
    check = look()
    assert check["status"] == "warn"
    assert f'GRANT CREATE ON DATABASE "{database}" TO "guest"' in check["fix"]
    monkeypatch.setenv("RETRIEVE_PGVECTOR__URL", postgres.url(database))
    built: Any = retrieve("build", "--catalog", catalog)
    assert built.code == 0, built.err
    assert look()["status"] == "ok"
