"""`retrieve doctor` on engines: what is wrong with each, and the command or edit that fixes it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from engines.injected import Small, use
from engines.sqlite_engine import create_database
from samples import TOOLS, Program, write_catalog

from retrieve_cli.errors import Unavailable


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """The engine, configured for keywords and vectors."""
    create_database(tmp_path / "server.db")
    engine = Small(tmp_path / "server.db")
    use(engine, monkeypatch)
    return engine


@pytest.fixture
def built(small: Small, index: Path) -> str:
    """The id of the generation that was sent to it."""
    assert index.is_dir()
    return str(small.live())


Look = Callable[..., dict[str, str]]


@pytest.fixture
def look(retrieve: Program) -> Look:
    """The finding about the engine."""

    def found(name: str = "opensearch") -> dict[str, str]:
        checks = {check["name"]: check for check in json.loads(retrieve("doctor", "--json").out)["checks"]}
        check: dict[str, str] = checks[name]
        return check

    return found


PUSH = "retrieve engines push"


def assert_finding(check: dict[str, str], status: str, fix: str, message: str) -> None:
    """Check the finding about the engine; of the message, a part."""
    assert (check["status"], check["fix"]) == (status, fix)
    assert message in check["message"]


def test_a_generation_that_is_as_it_was_sent_is_fine(built: str, look: Look) -> None:
    assert_finding(look(), "ok", "", f"holds {built}: version 3.")


def test_an_index_that_was_built_before_the_engine_was_configured_has_to_be_pushed(
    index: Path, look: Look, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("small")
    assert_finding(look(), "fail", PUSH, "was not sent to it")


@pytest.mark.parametrize(
    ("statement", "status", "message"),
    [
        pytest.param("DELETE FROM generations", "fail", "it no longer holds generation {}", id="lost"),
        pytest.param("UPDATE generations SET complete = 0", "fail", "generation {} is not complete", id="incomplete"),
        pytest.param("DELETE FROM alias", "warn", "its alias names nothing, and {} is current", id="alias"),
    ],
)
def test_a_current_generation_that_the_engine_does_not_have_whole_has_to_be_pushed(
    small: Small, built: str, look: Look, statement: str, status: str, message: str
) -> None:
    with small.opened() as database:
        database.execute(statement)
    assert_finding(look(), status, PUSH, message.format(built))


def test_parameters_that_changed_since_are_a_warning(
    small: Small, built: str, look: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert small.live() == built
    use(Small(tmp_path / "server.db", pages=1), monkeypatch)
    assert_finding(look(), "warn", PUSH, "other parameters than are configured (pages)")


def test_an_engine_that_cannot_be_reached_fails(
    small: Small, built: str, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable() -> None:
        raise Unavailable("the server does not answer", hint="start it")

    monkeypatch.setattr(small, "live", unreachable)
    assert look() == {
        "name": "opensearch",
        "status": "fail",
        "message": "the server does not answer",
        "fix": "start it",
    }
    assert built


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://search.example.org:9200", True),
        ("https://search.example.org:9200", False),
        ("http://127.0.0.1:9200", False),
    ],
)
def test_a_secret_over_plain_http_to_another_host_is_a_warning(
    built: str, look: Look, monkeypatch: pytest.MonkeyPatch, url: str, *, exposed: bool
) -> None:
    monkeypatch.setenv("RETRIEVE_OPENSEARCH__URL", url)
    assert look()["status"] == "ok", "without a secret nothing is exposed"
    monkeypatch.setenv("SECRET", "hidden-value")
    monkeypatch.setenv("RETRIEVE_OPENSEARCH__PASSWORD_ENV", "SECRET")
    check = look()
    assert (check["status"] == "warn") is exposed
    if exposed:
        assert "without encryption" in check["message"]
        assert check["fix"] == "set `engines.opensearch.url` to https://…"
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
    assert not names & {"pgvector", "qdrant", "opensearch"}
