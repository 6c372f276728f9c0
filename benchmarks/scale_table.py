"""The arithmetic of `make bench-scale`: samples by work, size and program; medians, ratios, growth; a table."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Sample:
    """Resources that one process, or one call, used."""

    cpu: float
    """Processor seconds, of all threads, user and system."""
    wall: float
    mebibytes: float | None = None
    """Peak resident memory, if a whole process was measured."""
    read: float | None = None
    """Mebibytes read from disk, where nothing was in the page cache."""


NAMES = ("cpu", "wall", "mebibytes", "read")


def median(samples: Sequence[Sample], name: str) -> float | None:
    """Return the median of one number of some samples; None where it was not measured."""
    values = [value for sample in samples if (value := getattr(sample, name)) is not None]
    return statistics.median(values) if values else None


def paired_ratio(before: Sequence[Sample], now: Sequence[Sample], name: str = "cpu") -> float | None:
    """Return the median of now / before over rounds that were run in turn."""
    pairs = zip(before, now, strict=False)
    ratios = [getattr(b, name) and getattr(a, name) / getattr(b, name) for b, a in pairs if getattr(b, name)]
    return statistics.median(ratios) if ratios else None


def growth(values: Mapping[int, float]) -> dict[int, float]:
    """Return by size the exponent e of the growth from the size below it: value ~ size ** e."""
    sizes = sorted(size for size, value in values.items() if value > 0)
    return {
        larger: math.log(values[larger] / values[smaller]) / math.log(larger / smaller)
        for smaller, larger in pairwise(sizes)
    }


@dataclass
class Table:
    """Samples of a run, in the order in which the work was first measured."""

    samples: dict[str, dict[int, dict[str, list[Sample]]]] = field(default_factory=dict)
    notes: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """Why a figure is missing, or what it leaves out."""

    def add(self, work: str, size: int, program: str, sample: Sample) -> None:
        """Append a sample of the next round."""
        self.samples.setdefault(work, {}).setdefault(size, {}).setdefault(program, []).append(sample)

    def note(self, work: str, size: int, program: str, text: str) -> None:
        """Say something of a figure, or why there is none."""
        self.samples.setdefault(work, {}).setdefault(size, {}).setdefault(program, [])
        self.notes[work, size, program] = text

    def exponents(self, work: str) -> dict[tuple[int, str], float]:
        """Return by size and program how the processor time grew from the size below."""
        values: dict[str, dict[int, float]] = defaultdict(dict)
        for size, programs in self.samples[work].items():
            for program, samples in programs.items():
                if (value := median(samples, "cpu")) is not None:
                    values[program][size] = value
        return {(size, name): e for name, points in values.items() for size, e in growth(points).items()}

    def as_json(self) -> list[dict[str, Any]]:
        """Return every figure with all its samples."""
        return [
            {
                "work": work,
                "records": size,
                "program": program,
                "note": self.notes.get((work, size, program)),
                "samples": [asdict(sample) for sample in samples],
            }
            for work, sizes in self.samples.items()
            for size, programs in sizes.items()
            for program, samples in programs.items()
        ]

    def lines(self, *, before: str, now: str) -> Iterator[str]:
        """Yield the table: a line for each work, size and program."""
        head = ("records", "program", "CPU", "wall", "peak MiB", "read MiB", f"{now}/{before}", "growth")
        yield f"{'':44}" + "".join(f"{each:>12}" for each in head)
        for work, sizes in self.samples.items():
            exponents = self.exponents(work)
            title = work
            for size in sorted(sizes):
                for program, samples in sizes[size].items():
                    ratio = paired_ratio(sizes[size].get(before, []), samples) if program == now else None
                    cells = [
                        f"{size:,}",
                        program,
                        *(_duration(median(samples, name)) for name in ("cpu", "wall")),
                        *(_plain(median(samples, name)) for name in ("mebibytes", "read")),
                        "" if ratio is None else f"{ratio:.2f}×",
                        f"n^{exponents[size, program]:.2f}" if (size, program) in exponents else "",
                    ]
                    note = self.notes.get((work, size, program), "")
                    yield (f"{title:44}" + "".join(f"{cell:>12}" for cell in cells) + f"  {note}").rstrip()
                    title = ""


def _duration(seconds: float | None) -> str:
    """Three digits, in seconds or milliseconds."""
    if seconds is None:
        return "-"
    return f"{_digits(seconds)} s" if seconds >= 0.1 else f"{_digits(seconds * 1000)} ms"


def _plain(value: float | None) -> str:
    return "" if value is None else _digits(value)


def _digits(value: float) -> str:
    """Three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
