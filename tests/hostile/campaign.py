"""`python -m tests.hostile`: tries without end, the seed printed, what is found made small and written to a folder."""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from hostile.generators import GENERATORS, WEIGHTS, attack
from hostile.worker import HarnessError, Worker

FOLDER = Path("fuzz-findings")
SLOW_S = 3.0
"""A command that takes longer is named by its seed, for somebody to look at."""


class Campaign:
    """Tries of some categories, drawn by a seed, and what came of them."""

    def __init__(self, categories: Sequence[str], seed: str, *, tries: int | None, seconds: float) -> None:
        self._draws = self._drawn(categories, seed, tries)
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self.categories = categories
        self.seen: dict[str, tuple[str, str, dict[str, Any]]] = {}
        """By signature: category and seed of the first try that showed it, and the finding."""
        self.tries: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.cpu: dict[str, tuple[float, str]] = {}
        """By category, the seconds of the slowest command, and the seed of its try."""
        self.failed = 0
        """Tries that the harness itself could not run."""

    @staticmethod
    def _drawn(categories: Sequence[str], seed: str, tries: int | None) -> Iterator[tuple[str, str]]:
        dice = Random(seed)
        weights = [WEIGHTS.get(category, 1.0) for category in categories]
        number = 0
        while tries is None or number < tries:
            yield dice.choices(categories, weights)[0], f"{seed}-{number}"
            number += 1

    def work(self, worker: Worker, folder: Path) -> None:
        """Run tries until there are no more, or the time is over."""
        while time.monotonic() < self._until:
            with self._lock:
                drawn = next(self._draws, None)
            if drawn is None:
                return
            try:
                answer = worker.ask(category=drawn[0], seed=drawn[1])
            except HarnessError as error:
                print(f"the harness failed at {drawn}: {error}", flush=True)
                self.failed += 1
                continue
            for finding in self._note(*drawn, answer):
                small = self._shrunk(worker, drawn, finding["signature"])
                path = write(folder, drawn, finding, small)
                print(f"found: {finding['signature']}: {path}", flush=True)

    @staticmethod
    def _shrunk(worker: Worker, drawn: tuple[str, str], signature: str) -> str:
        try:
            return str(worker.ask(category=drawn[0], seed=drawn[1], shrink=signature)["attack"])
        except HarnessError:
            return repr(attack(*drawn))

    def _note(self, category: str, seed: str, answer: Any) -> list[dict[str, Any]]:
        """Count a try; return those of its findings that were not seen before."""
        with self._lock:
            self.tries[category] += 1
            self.commands[category] += answer["commands"]
            self.found[category] += len(answer["findings"])
            self.cpu[category] = max(self.cpu.get(category, (0.0, "")), (answer["cpu"], seed))
            new = {
                one["signature"]: one for one in answer["findings"] if f"{category} {one['signature']}" not in self.seen
            }
            for signature, finding in new.items():
                self.seen[f"{category} {signature}"] = (category, seed, finding)
            return list(new.values())

    def table(self) -> str:
        """Return what came of it, a line a category."""
        distinct = Counter(category for category, _, _ in self.seen.values())
        lines = [
            "| category | tries | commands | findings | distinct | slowest CPU s |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for category in self.categories:
            counts = (self.tries[category], self.commands[category], self.found[category], distinct[category])
            lines.append(f"| {category} | {' | '.join(map(str, counts))} | {self._slowest(category)} |")
        slowest = max(self.cpu.values(), default=(0.0, ""))[0]
        counts = (self.tries.total(), self.commands.total(), self.found.total(), len(self.seen))
        lines.append(f"| all | {' | '.join(map(str, counts))} | {slowest:.1f} |")
        return "\n".join(lines)

    def _slowest(self, category: str) -> str:
        seconds, seed = self.cpu.get(category, (0.0, ""))
        return f"{seconds:.1f}" + (f" ({seed})" if seconds > SLOW_S else "")


def write(folder: Path, drawn: tuple[str, str], finding: dict[str, Any], small: str) -> Path:
    """Write a finding as Python that `--repeat` runs again."""
    folder.mkdir(exist_ok=True)
    category, seed = drawn
    name = hashlib.sha1(f"{category} {finding['signature']}".encode()).hexdigest()[:8]
    path = folder / f"{category}-{finding['kind'].replace(' ', '-')}-{name}.py"
    comment = [
        finding["signature"],
        finding["what"],
        f"command: {finding['command']!r}",
        f"drawn as: {category} {seed}",
        *finding["detail"].splitlines(),
    ]
    lines = [f"# {ascii(line)[1:-1][:500]}" for line in comment]
    path.write_text(
        "\n".join([*lines, f"# again: python -m tests.hostile --repeat {path}", f"ATTACK = {small}", ""]),
        "utf-8",
        "backslashreplace",
    )
    return path


def repeat(path: Path) -> int:
    """Run a finding again, and show what happens."""
    worker = Worker()
    written = path.read_text("utf-8").partition("\nATTACK = ")[2]
    answer = worker.ask(attack=written.strip(), show=True)
    worker.close()
    for command, code, out, err in answer["ended"]:
        print(
            f"$ retrieve {' '.join(map(ascii, command))[:2000]}\n{ascii(out)[-1500:]}\n{ascii(err)[-1500:]}\n→ {code}"
        )
    for finding in answer["findings"]:
        print(f"finding: {finding['signature']}: {finding['what']!r} {finding['detail']!r}")
    return 1 if answer["findings"] else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long; what was begun is ended")
    parser.add_argument("--tries", type=int, help="at most so many")
    parser.add_argument("--seed", default="", help="repeats a campaign; drawn and printed if it is not given")
    parser.add_argument("--category", action="append", choices=sorted(GENERATORS), help="only this one; repeatable")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--findings", type=Path, default=FOLDER, help="where they are written")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="run one finding again")
    options = parser.parse_args(arguments)
    if options.repeat:
        return repeat(options.repeat)
    seed = options.seed or str(secrets.randbits(32))
    print(f"seed {seed}, {options.seconds:.0f} s, {options.workers} workers", flush=True)
    campaign = Campaign(options.category or list(GENERATORS), seed, tries=options.tries, seconds=options.seconds)
    workers = [Worker() for _ in range(options.workers)]
    threads = [threading.Thread(target=campaign.work, args=(worker, options.findings)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.close()
    print(campaign.table())
    return 1 if campaign.seen or campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
