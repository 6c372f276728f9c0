"""The programs of `make bench-scale`: checkouts, each with its own catalogs, indexes and caches, and other engines."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import ENVIRONMENT, ROOT, Run, run
from benchmarks.scale_table import Sample

HERE = ROOT / "benchmarks"
KINDS = ("tokens", "plain")
"""Indexes with token vectors, which late interaction compares, and without."""
TRIAL = 100
"""Records of the index that is built and asked first."""


@dataclass(frozen=True)
class Side:
    """One checkout of the program, run with the interpreter and the packages of this one."""

    name: str
    root: Path
    work: Path
    kinds: tuple[str, ...] = KINDS
    """Indexes that may be asked, the preferred one first."""

    def environment(self, kind: str = "tokens") -> dict[str, str]:
        """Return its variables; nothing is written outside the work folder, not even compiled modules."""
        place = self.work / self.name
        inherited = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("RETRIEVE_")}
        return {
            **inherited,
            "PYTHONPATH": str(self.root),
            "PYTHONPYCACHEPREFIX": str(place / "compiled"),
            "XDG_CACHE_HOME": str(place / "cache"),
            "RETRIEVE_STORE__KEEP": "1",
            "RETRIEVE_RERANK__BACKEND": "none" if kind == "plain" else "auto",
        }

    def folder(self, size: int) -> Path:
        return self.work / self.name / str(size)

    def catalog(self, size: int) -> Path:
        return self.folder(size) / "catalog.jsonl"

    def kind(self, size: int) -> str:
        """Return which index is asked: the one with token vectors if it is wanted and could be built.

        Raises:
            SystemExit: there is none.
        """
        for kind in self.kinds:
            if (self.folder(size) / kind / "current").exists():
                return kind
        raise SystemExit(f"{self.name} has no index of {size:,} records: run the part `build` first")

    def artifacts(self, size: int) -> Path:
        return self.folder(size) / self.kind(size)

    def retrieve(self, size: int, *words: str, fails: bool = False) -> Run:
        """Run a command of the program on the index of a size."""
        kind = self.kind(size)
        command = (sys.executable, "-P", "-m", "retrieve_cli", *words, "--artifacts", str(self.folder(size) / kind))
        return run(command, environment=self.environment(kind), folder=self.work / "run", fails=fails)

    def inside(self, what: str, size: int, folder: Path, *rest: str) -> dict[str, Any]:
        """Measure inside one process: see inside.py."""
        command = (sys.executable, "-P", str(HERE / "inside.py"), what, str(self.artifacts(size)), str(folder), *rest)
        done = run(command, environment=self.environment(), folder=self.work / "run")
        found: dict[str, Any] = json.loads(done.output) if done.output else {}
        return found

    def commit(self) -> str:
        """Return the commit that is checked out, and whether files differ from it."""
        asked = ("git", "-C", str(self.root), "describe", "--always", "--dirty")
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"

    # ---------------------------------------------------------------------------------------------- builds

    def build(self, size: int, kind: str, *, limit: float) -> Sample | str:
        """Build an index from scratch; what it took less the planting, or why there is none."""
        artifacts, report = self.folder(size) / kind, self.work / "planted.json"
        shutil.rmtree(artifacts, ignore_errors=True)
        planted = (sys.executable, "-P", str(HERE / "planted.py"))
        command = (*planted, "build", "--catalog", str(self.catalog(size)), "--artifacts", str(artifacts), "--json")
        environment = {**self.environment(kind), "PLANTED_REPORT": str(report)}
        report.unlink(missing_ok=True)
        done = run(command, environment=environment, folder=self.work / "run", limit=limit, fails=True)
        if done.code:
            shutil.rmtree(artifacts, ignore_errors=True)
            last = (done.errors.strip().splitlines() or [f"ended with {done.code}"])[-1]
            return f"not built within {limit:g} GiB of address space: {last[:80]}"
        spent = json.loads(report.read_text("utf-8"))
        if spent["texts"] < size:
            raise SystemExit(f"{self.name} encoded {size - spent['texts']:,} texts otherwise than planted.py expects")
        sample = Sample(done.cpu - spent["seconds"], done.seconds - spent["seconds"], done.mebibytes)
        kept = {"sample": asdict(sample), "commit": self.commit()}
        artifacts.with_suffix(".json").write_text(json.dumps(kept), "utf-8")
        return sample

    def kept(self, size: int, kind: str) -> tuple[Sample, str] | None:
        """Return what an earlier build of an index took that is still there, and of which commit it was."""
        record = (self.folder(size) / kind).with_suffix(".json")
        if not record.exists() or not (self.folder(size) / kind / "current").exists():
            return None
        found = json.loads(record.read_text("utf-8"))
        return Sample(**found["sample"]), found["commit"]

    def prepare(self, catalog: Path) -> None:
        """Have modules compiled and the model exported before anything is measured, by a small index."""
        size = TRIAL
        if not (self.folder(size) / self.kinds[0] / "current").exists():
            self.take(catalog, size)
            if isinstance(built := self.build(size, self.kinds[0], limit=8), str):
                raise SystemExit(f"{self.name}: {built}")
        self.retrieve(size, "query", "some words")

    def take(self, catalog: Path, size: int) -> None:
        """Copy a catalog, which this side then edits, unless it has one already."""
        self.folder(size).mkdir(parents=True, exist_ok=True)
        if not self.catalog(size).exists():
            shutil.copyfile(catalog, self.catalog(size))

    def edit(self, size: int, number: int, text: str) -> None:
        """Give one record another description, line by line."""
        path = self.catalog(size)
        other = path.with_suffix(".new")
        with path.open(encoding="utf-8") as source, other.open("w", encoding="utf-8") as target:
            for at, line in enumerate(source):
                target.write(json.dumps({**json.loads(line), "description": text}) + "\n" if at == number else line)
        other.replace(path)


@dataclass(frozen=True)
class Peer:
    """Another engine, at one size of catalog: see peers.py."""

    name: str
    folder: Path
    """Its input and its index."""
    packages: Path
    """Folder of its packages, if it is not installed beside this program."""

    def run(self, what: str, *rest: str, fails: bool = False) -> Run:
        """Run peers.py in a process of its own."""
        command = (sys.executable, "-P", str(HERE / "peers.py"), what, self.name, str(self.folder), *rest)
        environment = {**ENVIRONMENT, "PYTHONPATH": str(self.packages)}
        return run(command, environment=environment, folder=self.folder / "run", fails=fails)

    def build(self, *, again: bool) -> Sample:
        """Make its index if there is none; what that took, then or now."""
        record = self.folder / f"{self.name}.json"
        if again or not record.exists():
            record.write_text(json.dumps(asdict(of(self.run("build")))), "utf-8")
        return Sample(**json.loads(record.read_text("utf-8")))


def of(done: Run, *, read: bool = False) -> Sample:
    """Return what a process took."""
    return Sample(done.cpu, done.seconds, done.mebibytes, done.read if read else None)


def evict(folders: Sequence[Path]) -> None:
    """Drop the files of folders from the page cache; what is in them was written long ago."""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
