"""`retrieve doctor` on engines: what is wrong with each, and the command or edit that fixes it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from engines import injected
from engines.injected import Servers
from samples import TOOLS, Program, write_catalog
from sync.state import live

from retrieve_cli.assemble import engines
from retrieve_cli.contracts.engines import Engine, Schema


@pytest.fixture
def built(servers: Servers, index: Path) -> str:
    """The id of the generation that was sent to the engines."""
    assert servers
    return live(index)


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
    assert index
    request.getfixturevalue("servers")
    assert_finding(look(), "fail", PUSH, "was not sent to it")


def test_rows_that_are_lost_or_of_another_generation_have_to_be_pushed(
    servers: Servers, built: str, look: Look
) -> None:
    engine = servers.engine("opensearch")
    (collection,) = servers.collections("opensearch")
    engine.publish(collection, "ffffffffffff")
    assert_finding(look(), "fail", PUSH, f"it holds generation ffffffffffff of {collection}: {built} is current")
    engine.publish(collection, built)
    engine.delete(collection, [hit.id for hit in engine.search(collection, [("", None)], None, 1).hits[0]])
    assert_finding(look(), "fail", PUSH, "it has 4 rows, and 5 were sent to it")
    engine.drop(collection)
    assert_finding(look(), "fail", PUSH, f"it lost the rows of {collection}")


def test_an_alias_to_other_rows_is_a_warning(servers: Servers, built: str, look: Look) -> None:
    assert built
    servers.engine("opensearch").create("0123456789ab", Schema())
    servers.engine("opensearch").publish("0123456789ab", "")
    assert_finding(look(), "warn", PUSH, "its alias names 0123456789ab")


def test_an_engine_that_cannot_be_reached_fails(servers: Servers, built: str, look: Look) -> None:
    servers.stop("opensearch")
    assert look()["status"] == "fail"
    assert "does not answer" in look()["message"]
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
    servers: Servers, built: str, look: Look, monkeypatch: pytest.MonkeyPatch, url: str, *, exposed: bool
) -> None:
    engines_by_name = {name: getattr(injected, name.capitalize()) for name in ("qdrant", "opensearch")}

    def made(name: str, *_: object) -> Engine:
        return engines_by_name[name](SimpleNamespace(url=str(servers.path(name))))  # type: ignore[no-any-return]

    monkeypatch.setattr(engines, "_made", made)
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
