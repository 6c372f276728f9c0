"""Generations published under load: every answer is of one generation, and none fails."""

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog
from servers import started, workers_of
from waiting import until

import retrieve_cli
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.loading import load
from retrieve_cli.errors import RetrieveError
from retrieve_cli.storage.store import Store

SWAPS = int(os.environ.get("TEST_SWAPS", "6"))
"""Generations that are published; the project's own bound is 100."""


def records(version: int) -> list[dict[str, Any]]:
    """A catalog in which every record names its version."""
    return [
        {"id": f"r{number}", "name": f"Tool {number}", "description": f"Segments lungs of kind {number}, v{version}."}
        for number in range(12)
    ]


def versions(answer: Any) -> set[str]:
    return {match for result in answer["results"] for match in re.findall(r"v(\d+)", result["content"])}


@pytest.mark.parametrize("workers", [2])
def test_no_answer_fails_or_mixes_generations(workers: int, tmp_path: Path, retrieve: Program) -> None:
    catalog = write_catalog(tmp_path / "tools.jsonl", records(0))
    assert retrieve("build", catalog).code == 0
    with started(Path("artifacts").resolve(), "--workers", str(workers), cwd=tmp_path) as server:
        by_generation: dict[str, set[str]] = {}
        faults: list[object] = []
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                try:
                    answer = server.search(query="segments lungs", limit=12)
                    seen = versions(answer)
                    if len(seen) != 1 or by_generation.setdefault(answer["generation"], seen) != seen:
                        faults.append((answer["generation"], seen))
                except Exception as error:  # noqa: BLE001  the main thread reports it
                    faults.append(error)

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            for version in range(1, SWAPS + 1):
                write_catalog(catalog, records(version))
                assert retrieve("sync", "--wait", "20").code == 0
                current = (Path("artifacts") / "current").read_text().strip()
                until(lambda now=current: now in by_generation or faults, f"an answer of generation {current}")
        finally:
            ended.set()
            for client in clients:
                client.join()
        assert faults == []
        assert len(by_generation) >= SWAPS


def test_a_request_ends_on_the_generation_that_it_began_with(tmp_path: Path, retrieve: Program) -> None:
    catalog = write_catalog(tmp_path / "tools.jsonl", records(0))
    assert retrieve("build", catalog).code == 0
    live = LiveIndex(Store(Path("artifacts")), load(None))
    held = live.index
    write_catalog(catalog, records(1))
    assert retrieve("sync").code == 0
    assert live.refresh()
    assert live.index.generation != held.generation
    assert {text for result in held.search("lungs").results for text in re.findall(r"v\d", result.text)} == {"v0"}


def test_a_generation_that_cannot_be_opened_is_named_and_the_present_one_stays(index: Path) -> None:
    live = LiveIndex(Store(index), load(None))
    before = live.index.generation
    (index / "current").write_text("0123456789ab\n")
    assert not live.refresh()
    assert isinstance(live.fault, RetrieveError)
    assert "0123456789ab" in live.fault.message
    assert live.index.generation == before
    (index / "current").write_text(f"{before}\n")
    assert not live.refresh()
    assert live.fault is None


def test_a_new_generation_is_asked_with_the_models_that_are_loaded_if_they_are_its_own(
    catalog: Path, index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encoder() -> Any:
        return live.index.opened.models.encoder

    live = LiveIndex(Store(index), load(None))
    opened = retrieve_cli.open(index)
    loaded, own = encoder(), opened.opened.models.encoder
    write_catalog(catalog, records(1))
    assert retrieve("sync", "--max-shrink", "1").code == 0
    assert live.refresh()
    assert opened.refresh()
    assert encoder() is loaded
    assert opened.opened.models.encoder is own
    monkeypatch.setenv("RETRIEVE_ENCODER__DIM", "64")
    assert retrieve("build", "--catalog", catalog).code == 0
    assert live.refresh()
    assert encoder() is not loaded
    assert live.index.search("lungs").results


@pytest.mark.parametrize("workers", [2])
def test_sighup_reads_the_configuration_again_and_says_what_needs_a_restart(
    workers: int, tmp_path: Path, retrieve: Program
) -> None:
    assert retrieve("build", write_catalog(tmp_path / "tools.jsonl", records(0))).code == 0
    config = tmp_path / "config.yaml"
    config.write_text("search: {k: 3}")
    with started(Path("artifacts").resolve(), "--workers", str(workers), cwd=tmp_path) as server:
        process = server.process
        assert process.stderr is not None
        lines = (line for line in process.stderr if "SIGHUP" in line)

        def reread(text: str) -> set[str]:
            config.write_text(text)
            process.send_signal(signal.SIGHUP)
            return {next(lines) for _ in range(workers)}

        def sizes() -> set[int]:
            return {len(server.search(query="segments lungs")["results"]) for _ in range(8)}

        until(lambda: workers == 1 or len(workers_of(process.pid)) == workers)
        until(lambda: workers == 1 or all(heeds(pid, signal.SIGHUP) for pid in workers_of(process.pid)))
        assert sizes() == {3}
        said = "configuration read; in force: search.k; needs a restart: serve.allowed_hosts"
        assert reread("{search: {k: 2}, serve: {allowed_hosts: [a.example]}}") == {f"SIGHUP: {said}\n"}
        assert sizes() == {2}
        (said,) = reread("search: {k: many}")
        assert said.startswith("SIGHUP: keeping the previous configuration: `search.k`")
        assert sizes() == {2}


def heeds(pid: int, number: signal.Signals) -> bool:
    """Return True if a process has a handler for a signal."""
    (caught,) = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(caught, 16) >> (number - 1) & 1)
