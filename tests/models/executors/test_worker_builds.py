"""Builds with workers: the generation of one process, through kills, interruptions and texts that nobody survives."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from samples import Program, fails, write_catalog
from sources.formats.sandbox.builds import heeding_interrupts
from waiting import PATIENCE_S, brought_about, until

from retrieve_cli.api.named_sources import named_sources
from retrieve_cli.assemble.parts import Parts, parts_for
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.config.loading import load
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Source
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import build
from retrieve_cli.ingest.report import LossLimits, Report
from retrieve_cli.ingest.sync import Sync
from retrieve_cli.models.executors.coordinator import PROBES
from retrieve_cli.models.executors.scheduler import Policy
from retrieve_cli.storage.store import Store
from tests.models.executors.conftest import Crews, Hired, each_killed_three_times
from tests.models.executors.worker_encoders import POISON, SlowEncoder

_MANY = 6000


class Silent:
    """Progress that nobody reads."""

    def say(self, sentence: str) -> None: ...


def records(count: int, *, words: int = 40, seed: int = 1) -> list[dict[str, str]]:
    chance = random.Random(seed)
    return [
        {
            "id": f"record-{place}",
            "name": f"tool {place}",
            "description": " ".join(f"word{chance.randrange(300)}" for _ in range(chance.randint(3, words))),
        }
        for place in range(count)
    ]


def slow_parts(sources: Sequence[Source], settings: Settings, hire: Callable[[], Hired] | None) -> Parts:
    """The parts of a build whose encoder is the slow one, by workers if there are any to hire."""
    parts = parts_for(sources, settings)
    executor: Any = lambda _: None if hire is None else hire()  # noqa: E731
    again = partial(slow_parts, sources, settings, hire)
    return replace(parts, encoder=SlowEncoder({}), executor=executor, again=again)


def built(catalog: Path, artifacts: Path, hire: Callable[[], Hired] | None = None, max_fail: float = 0.05) -> Report:
    settings = load(None)
    sources = sources_of(named_sources([str(catalog)], [], []), settings, fetched=artifacts / "fetched")
    limits = LossLimits(max_fail=max_fail)
    return build(sources, slow_parts(sources, settings, hire), Store(artifacts), limits=limits, progress=Silent())


def children(parent: int) -> list[int]:
    """The processes of workers that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"executors.child" in (folder / "cmdline").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found += [int(folder.name)] if int(fields[1]) == parent and fields[0] != "Z" else []
        except OSError:
            continue
    return found


def alive(processes: Sequence[int]) -> list[int]:
    return [each for each in processes if Path(f"/proc/{each}").exists() and not _zombie(each)]


def _zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_flag_gives_the_generation_of_one_process(retrieve: Program, tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(300))
    alone = retrieve("build", catalog, "--artifacts", "one", "--json")
    spread = retrieve("build", catalog, "--artifacts", "many", "--workers", "2", "--json")
    assert (alone.code, spread.code) == (0, 0), spread.err
    first, second = json.loads(alone.out), json.loads(spread.out)
    assert second["generation"] == first["generation"]
    assert second["embedded"] == first["embedded"] == 300


def test_a_sync_with_workers_embeds_only_what_changed(retrieve: Program, tmp_path: Path) -> None:
    rows = records(120)
    catalog = write_catalog(tmp_path / "many.jsonl", rows)
    assert retrieve("build", catalog, "--workers", "2").code == 0
    rows[7]["description"] = "something quite different"
    write_catalog(catalog, rows)
    report = json.loads(retrieve("sync", "--workers", "2", "--json").out)
    assert report["embedded"] == 1
    fresh = json.loads(retrieve("build", catalog, "--artifacts", "fresh", "--json").out)
    assert fresh["generation"] == report["generation"]


def test_workers_of_the_configuration_are_used_and_checked(retrieve: Program, catalog: Path) -> None:
    Path("config.yaml").write_text("executors: {executor: 'smoke:signals'}\n")
    fails(retrieve("build", catalog), 2, "--executor takes no 'smoke:signals'")
    Path("config.yaml").write_text("executors: {workers: 1}\n")
    assert retrieve("build", catalog).code == 0


def test_without_workers_nothing_of_them_is_loaded(catalog: Path) -> None:
    code = (
        "import sys; from retrieve_cli.cli.main import main; main(sys.argv[1:]);"
        "print(*(name for name in sys.modules if name.startswith('retrieve_cli.models.executors')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "build", str(catalog), "--quiet"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == ""


def test_a_build_of_whose_eight_workers_each_is_killed_three_times_gives_the_generation_of_one_process(
    crew: Crews, tmp_path: Path
) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(_MANY))
    expected = built(catalog, tmp_path / "one")
    count = tmp_path / "count"
    hired: list[Hired] = []

    def hire() -> Hired:
        hired.append(crew(8, {"seconds": 0.02, "count": str(count)}, policy=Policy(unit_tokens=2048)))
        return hired[-1]

    with each_killed_three_times(hired, seed=3):
        report = built(catalog, tmp_path / "many", hire)
    assert report.rejected == expected.rejected
    assert report.generation == expected.generation
    assert report.embedded == _MANY
    probes = len(PROBES) * len(hired[-1].processes)
    assert count.stat().st_size - probes <= 1.05 * _MANY


def test_a_record_with_a_text_that_ends_every_worker_is_rejected(crew: Crews, tmp_path: Path) -> None:
    rows = records(60)
    rows[20]["description"] = POISON
    catalog = write_catalog(tmp_path / "many.jsonl", rows)
    report = built(catalog, tmp_path / "many", lambda: crew(2))
    assert report.status == "partial"
    assert [(item.line, item.reason) for item in report.rejected] == [
        (21, "its chunk 1 cannot be embedded: it ended every worker that encoded it (signal SIGKILL)")
    ]
    assert (report.records, report.embedded) == (59, 59)
    without = write_catalog(tmp_path / "without.jsonl", rows)
    assert built(without, tmp_path / "strict", lambda: crew(2), max_fail=0.0).status == "failed"


def test_a_kept_record_whose_text_ends_every_worker_is_rejected_by_a_sync(crew: Crews, tmp_path: Path) -> None:
    rows = records(30)
    rows[4]["description"] = f"{POISON} of old"
    catalog = write_catalog(tmp_path / "many.jsonl", rows)
    artifacts = tmp_path / "artifacts"
    settings = load(None)
    sources = sources_of(named_sources([str(catalog)], [], []), settings, fetched=artifacts / "fetched")
    harmless = parts_for(sources, settings)  # the same vectors, and it survives
    build(sources, harmless, Store(artifacts), limits=LossLimits(max_fail=0.0), progress=Silent())
    for path in [*artifacts.rglob("vectors*"), *artifacts.rglob("dense*")]:
        path.unlink()
    shutil.rmtree(artifacts / "cache", ignore_errors=True)
    sync = Sync(
        sources,
        lambda: slow_parts(sources, settings, lambda: crew(2)),
        Store(artifacts),
        limits=LossLimits(max_fail=0.5),
        progress=Silent(),
        unread=None,
    )
    with Store(artifacts).writer():
        report = sync.run()
    assert report.records == 29
    assert [item.line for item in report.rejected] == [5]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_survives_its_build_however_that_ends(number: int, tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(6000, words=100))
    with heeding_interrupts():
        process = subprocess.Popen(
            [sys.executable, "-m", "retrieve_cli", "build", str(catalog), "--workers", "2"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RETRIEVE_EXECUTORS__UNIT_TOKENS": "512"},
            start_new_session=True,
        )
    brought_about(process, lambda: len(children(process.pid)) == 2, "it has two workers")
    workers = children(process.pid)
    process.send_signal(number)
    said = process.communicate(timeout=PATIENCE_S)[1]
    until(lambda: not alive(workers), "the end of the workers")
    assert process.returncode in (-number, 128 + number), said
    assert len(workers) == 2
    assert not (tmp_path / "artifacts" / "current").exists()


def test_a_full_disk_ends_the_build_and_its_workers(
    crew: Crews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from retrieve_cli.storage.content_cache import ContentCache

    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ContentCache, "put_aside", full)
    catalog = write_catalog(tmp_path / "many.jsonl", records(50))
    hired = []

    def hire() -> Hired:
        hired.append(crew(2))
        return hired[-1]

    with pytest.raises(RetrieveError, match="No space left"):
        built(catalog, tmp_path / "many", hire)
    assert all(worker._process.wait(0) is not None for _, worker in hired[0].processes)
