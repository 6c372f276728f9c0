"""`retrieve sync --json` prints one line whatever happens, with the time, the changes and the error inside."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from samples import ROOT, Program, write_catalog
from sync.forks import Fault, Forks
from sync.state import live, records

from retrieve_cli.ingest.sync import Sync
from retrieve_cli.storage.store import Store

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def logged(*flags: str, folder: Path) -> list[dict[str, Any]]:
    """The lines of a log to which `retrieve sync --json` wrote both of its streams, each of them JSON."""
    log = folder / "sync.log"
    with log.open("a") as file:
        command = [sys.executable, "-m", "retrieve_cli", "sync", "--json", *flags]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, check=False, env=environment)
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_log_of_both_streams_has_one_line_of_each_sync(artifacts: Path, source: Path, tmp_path: Path) -> None:
    assert [line["status"] for line in logged(folder=tmp_path)] == ["unchanged"]
    write_catalog(source, [*records(0), {"id": "new", "name": "new"}])
    last = logged(folder=tmp_path)[-1]
    assert (last["status"], last["added"], last["kept"]) == ("published", 1, 60)
    assert {"generation", "changed", "removed", "quarantined", "seconds"} <= last.keys()
    (tmp_path / "config.yaml").write_text("sync: {wiat: 3}\n")
    last = logged(folder=tmp_path)[-1]
    assert (last["status"], last["error"]["code"], last["error"]["kind"]) == ("failed", 2, "usage")
    assert "wait" in last["error"]["hint"]
    (tmp_path / "config.yaml").unlink()
    last = logged("--no-such-flag", folder=tmp_path)[-1]
    assert (last["status"], last["error"]["code"]) == ("failed", 2)
    with Store(artifacts).writer():
        last = logged("--no-wait", folder=tmp_path)[-1]
    assert (last["status"], last["error"]["kind"], last["error"]["code"]) == ("failed", "locked", 7)
    source.unlink()
    lines = logged(folder=tmp_path)
    assert (lines[-1]["status"], lines[-1]["error"]["kind"]) == ("failed", "source_failed")
    assert lines[-1]["generation"] == live(artifacts)
    assert len(lines) == 6
    assert all(TIME.fullmatch(line["time"]) for line in lines)


def test_streams_that_go_apart_both_have_the_error(artifacts: Path, source: Path, retrieve: Program) -> None:
    source.unlink()
    done = retrieve("sync", "--json")
    assert done.out.count("\n") == 1
    assert done.json["error"] == json.loads(done.err)["error"]
    assert set(done.json["error"]) == {"code", "kind", "message", "hint"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_an_interrupted_sync_has_its_line(
    artifacts: Path, source: Path, forks: Forks, number: signal.Signals, code: int
) -> None:
    write_catalog(source, records(1))
    asked = forks.start("sync", "--json", fault=Fault(step=4, within=".scratch-", number=number))
    assert asked.wait() == code
    assert asked.out.count("\n") == 1
    assert (asked.json["status"], asked.json["error"]["code"]) == ("failed", code)


def test_a_verification_that_fails_and_a_bug_are_in_the_line_of_their_sync(
    artifacts: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: Sync) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(Sync, "verify", lambda _: {"bm25.pkl": "differs"})
    unlike = retrieve("sync", "--verify", "--json")
    assert (unlike.code, unlike.json["verified"], unlike.json["error"]["code"]) == (5, False, 5)
    monkeypatch.setattr(Sync, "run", crash)
    crashed = retrieve("sync", "--json")
    assert (crashed.code, crashed.json["error"]["kind"]) == (1, "internal")
    assert unlike.out.count("\n") == crashed.out.count("\n") == 1


# ------------------------------------------------------------------------------------------- missing sources


@pytest.mark.parametrize("listed", [False, True], ids=["of the index", "of the configuration"])
def test_a_folder_that_is_gone_fails_the_sync_with_1_and_says_what_to_do(
    tmp_path: Path, retrieve: Program, listed: bool
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\nLungs.")
    if listed:
        Path("config.yaml").write_text("sources: [{kind: docs, path: docs}]\n")
    assert retrieve("build", *([] if listed else [docs])).code == 0
    (docs / "a.md").unlink()
    docs.rmdir()
    gone = retrieve("sync")
    assert (gone.code, gone.out) == (1, "")
    assert f"cannot read the folder {docs}" in gone.err
    assert ("`sources:`" if listed else "retrieve build DIR") in gone.err
    assert retrieve("query", "lungs", "--mode", "bm25", "-l").out == "a.md\n"
    docs.mkdir()  # its disk is not mounted
    empty = retrieve("sync")
    assert empty.code == 1
    assert "docs is empty now (was 1 document); refusing to publish a loss of 100 %" in empty.err


def test_a_catalog_that_may_not_be_read_fails_the_sync_with_1(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = os.open

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if str(path) == str(source):
            raise PermissionError(13, "Permission denied", str(path))
        return honest(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    done = retrieve("sync")
    assert done.code == 1
    assert f"cannot read the catalog {source}: Permission denied" in done.err


def test_a_query_or_a_sync_before_a_build_leaves_no_folder(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gold = write_catalog(tmp_path / "gold.jsonl", [{"query": "x", "relevant": ["y"]}])
    monkeypatch.setenv("RETRIEVE_SYNC__EVERY_HOURS", "1")
    for auto in ("false", "true"):
        monkeypatch.setenv("RETRIEVE_SOURCES__AUTO_SYNC", auto)
        for command in (
            ("query", "lungs"),
            ("inspect", "status"),
            ("inspect", "why", "x", "y"),
            ("eval", "--gold", gold),
            ("sync",),
            ("sync", "--dry-run"),
            ("sync", "--verify"),
            ("sync", "--rollback"),
        ):
            assert retrieve(*command).code == 4, command
        retrieve("doctor")
        assert not Path("artifacts").exists()
    Path("config.yaml").write_text("sources: [{kind: docs, path: nowhere}]\n")
    assert retrieve("sync").code == 1
    assert retrieve("query", "lungs").code == 4
    assert not Path("artifacts").exists()


def test_a_build_waits_for_another_writer_as_a_sync_does(artifacts: Path, source: Path, retrieve: Program) -> None:
    with Store(artifacts).writer():
        assert retrieve("build", source, "--no-wait").code == 7
        waited = retrieve("build", source, "--wait", "0.2")
    assert waited.code == 7
    assert "waiting for another writer" in waited.err
    assert retrieve("build", source, "--wait", "1", "--no-wait").code == 2
    assert retrieve("build", source, "--wait", "-1").code == 2
