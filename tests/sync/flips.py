"""Flips random bits of an index, one at a time, and asks it: the answer is the same, or the damage is noticed.

    PYTHONPATH=.:tests python -m sync.flips ARTIFACTS --tries 500 --seed 1

over an index of one's own (a copy: a killed run leaves its flip behind).
"""

import argparse
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sync.state import live

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Request
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.output import formats
from retrieve_cli.output.reasons import reasons
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

ASKED: Sequence[tuple[Request, dict[str, Any]]] = (
    (Request("segment lungs in CT"), {}),
    (Request("cluster cells of the brain"), {"dependencies": True, "k": 5}),
    (Request("align volumes", filters=("license=MIT",)), {"expand": True}),
    (Request("count cells"), {"mode": "bm25", "unit": "chunk", "context": 1}),
    (Request("image registration"), {"mode": "dense", "k": 20}),
)


@dataclass(frozen=True)
class Flip:
    """A bit of a file, and what came of flipping it: same, noticed, or changed."""

    file: str
    bit: int
    outcome: str
    said: str = ""


def answers(artifacts: Path, asked: Sequence[tuple[Request, dict[str, Any]]] = ASKED) -> str:
    """What an index that is opened anew says, but for the times. Raises: IndexCorrupt."""
    said = []
    opened = Opened.of(Store(artifacts), Settings())
    for request, options in asked:
        [answer] = Searcher(opened, opened.options(**options)).answer([request])
        said.append(formats.dump({**formats.answer_json(answer), "timings_ms": {}, "notices": list(answer.notices)}))
        said += ["\n".join(reason.text for reason in reasons(result, rank=1)) for result in answer.results]
    return "\n".join(said)


def flips(artifacts: Path, count: int, seed: int) -> Iterator[Flip]:
    """Flip random bits, as many in each file of the current generation; each is flipped back."""
    generator = random.Random(seed)
    folder = artifacts / "generations" / live(artifacts)
    files = sorted(path for path in folder.iterdir() if path.stat().st_size)
    before = answers(artifacts)
    for number in range(count):
        path = files[number % len(files)]
        bit = generator.randrange(8 * path.stat().st_size)
        flip(path, bit)
        try:
            same = answers(artifacts) == before
            found = Flip(path.name, bit, "same" if same else "changed")
        except IndexCorrupt as error:
            found = Flip(path.name, bit, "noticed", error.message)
        finally:
            flip(path, bit)
        yield found


def flip(path: Path, bit: int) -> None:
    """Flip a bit where it stands, as a disk does: no time changes."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(bit // 8)
        [byte] = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("artifacts", type=Path)
    parser.add_argument("--tries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for found in flips(given.artifacts, given.tries, given.seed):
        counts[found.file, found.outcome] += 1
        if found.outcome == "changed":
            print(found)
    for (file, outcome), number in sorted(counts.items()):
        print(f"{file}: {number} {outcome}")
    return int(any(outcome == "changed" for _, outcome in counts))


if __name__ == "__main__":
    raise SystemExit(main())
