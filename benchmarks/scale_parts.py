"""The parts of `make bench-scale`: what is measured of each size, all programs in turn."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from benchmarks import peers
from benchmarks.process import ENVIRONMENT, ROOT, Run, run
from benchmarks.scale_table import Sample, Table
from benchmarks.sides import KINDS, TRIAL, Peer, Side, evict, of

QUERIES, LOADED = 300, 60
BEFORE, NOW = "before", "now"
PARTS = ("build", "cold", "disk", "loaded", "sync")
LARGE = 300_000
"""Records from which on there are fewer rounds: each takes long and varies less."""
Programs = Mapping[str, Callable[[int], Sample]]
"""By name, what measures a program in a round."""


class Bench:
    """One run: the sides, the engines that are installed, and the table that is filled."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work.resolve()
        kinds = tuple(kind for kind in KINDS if kind in options.kinds)
        self.sides = [Side(NOW, options.now.resolve(), self.work, kinds)]
        if options.compare:
            self.sides.insert(0, Side(BEFORE, options.compare.resolve(), self.work, kinds))
        self.table = Table()

    @cached_property
    def installed(self) -> list[str]:
        """The engines whose packages are there; the others are named and skipped."""
        found = []
        for name, module in peers.MODULES.items():
            if self._peer(name, TRIAL).run("installed", fails=True).code == 0:
                found.append(name)
            else:
                say(name, f"skipped: there is no module {module} here, nor in {self.options.peers}")
        return found

    def _peer(self, name: str, size: int) -> Peer:
        return Peer(name, self.given(size), self.options.peers.resolve())

    def peers(self, names: tuple[str, ...], size: int) -> list[Peer]:
        """Return those of the named engines that are installed."""
        return [self._peer(name, size) for name in names if name in self.installed]

    def given(self, size: int) -> Path:
        """Return the folder of texts, vectors and queries that all programs are given."""
        return self.work / "peers" / str(size)

    def rounds(self, size: int) -> int:
        return max(2, self.options.rounds // 2) if size > LARGE else int(self.options.rounds)

    def in_turn(self, work: str, size: int, programs: Programs, *, trial: bool = True) -> None:
        """Measure all programs in turn, round by round, after an unmeasured one."""
        if not programs:
            return
        say(work, f"{size:,} records")
        for number in range(-1 if trial and not self.options.no_trial else 0, self.rounds(size)):
            for name, measure in programs.items():
                sample = measure(number)
                if number >= 0:
                    self.table.add(work, size, name, sample)
        self._say_which(work, size)

    def _say_which(self, work: str, size: int) -> None:
        """Note which program was asked without token vectors, if another one had them."""
        plain = [side.name for side in self.sides if side.kind(size) == "plain"]
        for name in plain if len(plain) < len(self.sides) else ():
            if name in self.table.samples[work].get(size, {}):
                self.table.note(work, size, name, "its index has no token vectors")

    # ------------------------------------------------------------------------------------------------ build

    def build(self, size: int) -> None:
        """Indexes with and without token vectors, and those of the peers."""
        for side in self.sides:
            side.prepare(self._catalog(TRIAL))
            side.take(self._catalog(size), size)
        for kind, title in zip(KINDS, ("with token vectors", "without token vectors"), strict=True):
            if kind in self.options.kinds:
                for side in self.sides:
                    self._build(f"build, {title}", side, size, kind)
        self._give(size)
        for peer in self.peers(peers.INDEXED, size):
            say("build", f"{size:,} records, {peer.name}")
            sample = peer.build(again=self.options.rebuild)
            self.table.add("build, without token vectors", size, peer.name, sample)

    def _catalog(self, size: int) -> Path:
        path = self.work / f"catalog-{size}.jsonl"
        if not path.exists():
            self._generate("catalog", size, path)
        return path

    def _generate(self, what: str, count: int, path: Path) -> None:
        """Write a file in another process: what this one holds, the peak memory of its children counts."""
        made = (sys.executable, "-P", "-m", "benchmarks.zipfian", what, str(count), str(path))
        run(made, environment={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}, folder=self.work / "run")

    def _build(self, work: str, side: Side, size: int, kind: str) -> None:
        if not self.options.rebuild and (known := side.kept(size, kind)):
            self.table.add(work, size, side.name, known[0])
            self.table.note(work, size, side.name, f"kept, built at {known[1]}")
            return
        say(work, f"{size:,} records, {side.name}")
        done = side.build(size, kind, limit=self.options.limit)
        if isinstance(done, str):
            self.table.note(work, size, side.name, done)
        else:
            self.table.add(work, size, side.name, done)

    def _give(self, size: int) -> None:
        """Write the texts, vectors and queries of an index for all programs."""
        folder = self.given(size)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "asked.jsonl").exists():
            self._generate("queries", self.options.queries, folder / "queries.jsonl")
            self.sides[-1].inside("export", size, folder)

    # -------------------------------------------------------------------------------------- whole processes

    def cold(self, size: int) -> None:
        """Whole processes: queries, and look-ups by id."""
        for name, flags, engines in (
            ("BM25", ("--mode", "bm25"), peers.LEXICAL),
            ("dense", ("--mode", "dense"), peers.DENSE),
            ("hybrid without reranking", ("--no-rerank",), peers.HYBRID),
            ("hybrid with late interaction", (), ()),
        ):
            self.in_turn(f"cold query, {name}", size, self._asked(size, flags, engines))
        named = {
            side.name: lambda at, side=side: of(
                self._query(side, size, at, "--mode", "bm25", "--doc-id", ident(size, at))
            )
            for side in self.sides
        }
        self.in_turn("cold query, BM25, --doc-id", size, named)
        shown = {
            side.name: lambda at, side=side: of(side.retrieve(size, "inspect", "record", ident(size, at)))
            for side in self.sides
        }
        self.in_turn("inspect record", size, shown)

    def disk(self, size: int) -> None:
        """Whole processes with nothing of the index in the page cache: also what they read from disk."""
        for name, flags, engines in (
            ("BM25", ("--mode", "bm25"), peers.LEXICAL),
            ("hybrid without reranking", ("--no-rerank",), peers.HYBRID),
            ("hybrid with late interaction", (), ()),
        ):
            self.in_turn(f"nothing cached, {name}", size, self._asked(size, flags, engines, evicted=True))

    def _asked(
        self, size: int, flags: tuple[str, ...], engines: tuple[str, ...], *, evicted: bool = False
    ) -> dict[str, Callable[[int], Sample]]:
        """Return what asks each program the query of a round."""

        def ours(side: Side, at: int) -> Sample:
            if evicted:
                evict([side.artifacts(size)])
            return of(self._query(side, size, at, *flags), read=evicted)

        def theirs(peer: Peer, at: int) -> Sample:
            if evicted:
                evict([peer.folder])
            return of(peer.run("cold", str(max(at, 0))), read=evicted)

        able = [side for side in self.sides if flags or side.kind(size) == "tokens"]
        mine = {side.name: lambda at, side=side: ours(side, at) for side in able}
        return mine | {peer.name: lambda at, peer=peer: theirs(peer, at) for peer in self.peers(engines, size)}

    def _query(self, side: Side, size: int, at: int, *flags: str) -> Run:
        return side.retrieve(size, "query", self._texts(size)[max(at, 0)], *flags)

    def _texts(self, size: int) -> list[str]:
        lines = (self.given(size) / "queries.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line)["text"] for line in lines]

    # ------------------------------------------------------------------------------------------ one process

    def loaded(self, size: int) -> None:
        """Queries within one process."""
        for number in range(min(self.rounds(size), max(2, self.rounds(size) // 2))):
            say("queries, loaded", f"{size:,} records, round {number + 1}")
            for what in ("search", "answers"):
                self._inside(what, size)
            for engines, work in (
                (peers.DENSE, "dense search, loaded, one core"),
                (peers.LEXICAL, "BM25 search, loaded, one core"),
                (peers.HYBRID, "answer, hybrid without reranking, loaded"),
            ):
                for peer in self.peers(engines, size):
                    found = json.loads(peer.run("loaded", str(min(LOADED, self.options.queries))).output)
                    self.table.add(work, size, peer.name, Sample(**found["all"]))
                    if engines is peers.LEXICAL:
                        self.table.add(
                            "BM25 search, frequent words, loaded", size, peer.name, Sample(**found["common"])
                        )

    def _inside(self, what: str, size: int) -> None:
        for side in self.sides:
            for work, medians in side.inside(what, size, self.given(size), str(side.catalog(size))).items():
                self.table.add(work, size, side.name, Sample(**medians))

    # ------------------------------------------------------------------------------------------------- sync

    def sync(self, size: int) -> None:
        """The cost of a change: none, another time of the file, one record."""

        def nothing(side: Side) -> Sample:
            return of(side.retrieve(size, "sync"))

        def touched(side: Side, at: int) -> Sample:
            side.catalog(size).touch()
            return of(self._query(side, size, at, "--mode", "bm25"))

        def one(side: Side, at: int) -> Sample:
            side.edit(size, (at + 2) * size // 101, f"Edited in round {at} at {time.time_ns()}.")
            return of(side.retrieve(size, "sync"))

        self.in_turn("sync, nothing changed", size, {s.name: lambda _, s=s: nothing(s) for s in self.sides})
        after = {s.name: lambda at, s=s: touched(s, at) for s in self.sides}
        self.in_turn("cold query, BM25, catalog touched", size, after)
        for number in range(min(self.rounds(size), 2)):
            say("loaded, catalog touched", f"{size:,} records, round {number + 1}")
            self._inside("touched", size)
        changed = {s.name: lambda at, s=s: one(s, at) for s in self.sides}
        self.in_turn("sync, one record changed", size, changed, trial=False)


def say(work: str, what: str) -> None:
    """Say on stderr what is measured now."""
    print(f"  {work}: {what}", file=sys.stderr, flush=True)


def ident(size: int, at: int) -> str:
    """Return the id of a record somewhere in the catalog."""
    return f"record-{(at + 2) * size // 101:07d}"
