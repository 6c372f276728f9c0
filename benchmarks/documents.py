"""`make bench-documents`: how much of made files, whose contents are known, is read, and how fast.

python -m benchmarks.documents [--against CHECKOUT] [--kinds pdf-1,pdf-2,docx] [--documents 6] [--rounds 1]
[--folder DIR] [--copies 0]

For each kind of file: the F1 of its words, the share of pairs of words that are in order, the F1 of its headings and of
the rows of its tables, and pages (or documents) per CPU second from bytes to chunks. With another checkout, its figures
stand in brackets, and each document counts as won or lost in each measure by more than half a hundredth; losses are
named. PDF stands beside pdf_oxide and pypdfium2. The files of a folder, whose contents are not known, are compared with
the reading of the other checkout. With copies, `retrieve build` reads all files so many times: its peak memory must
not grow. Nothing is fetched.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.document_readers import Read
from benchmarks.process import ENVIRONMENT, ROOT, WORK, run
from benchmarks.truth_corpus import WRITERS, write_corpus

FOLDER = WORK / "documents"
MEASURES = ("words", "order", "headings", "rows")
PEERS = ("pdf_oxide", "pypdfium2")
NOTABLE = 0.005
"""Difference of a measure that counts as won or lost."""
GROWTH_MIB = 64.0
"""Most MiB by which the peak of a build may grow with the number of documents."""
_LIMIT_S = 1800.0
_TOKEN = re.compile(r"\w+")


class Run(NamedTuple):
    """Figures of one reader: by file, the four measures, and CPU seconds."""

    contents: Mapping[str, Read | str]
    seconds: Mapping[str, float]


def read(name: str, files: Sequence[Path], *, tree: Path = ROOT, rounds: int = 1) -> Run:
    """Read files with a reader in a process of its own; seconds are medians over the rounds."""
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tree), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "benchmarks" / "document_readers.py"), name, *map(str, files)]
    reports = []
    for _ in range(rounds):
        done = subprocess.run(
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        if done.returncode:
            raise SystemExit(f"{name} of {tree}: {done.stderr[-2000:]}")
        reports.append(json.loads(done.stdout.splitlines()[-1]))
    timed = {name: statistics.median(report["seconds"][name] for report in reports) for name in reports[0]["seconds"]}
    found = reports[0]["contents"].items()
    return Run({name: value if isinstance(value, str) else Read(*value) for name, value in found}, timed)


def measured(truth: Read, found: Read | str) -> tuple[float, ...]:
    """Return the four measures of a document; all are 0 if it cannot be read."""
    if isinstance(found, str):
        return (0.0,) * len(MEASURES)
    words = [_words(part.text) for part in (truth, found)]
    headings = [[" ".join(_words(text)) for text in part.headings] for part in (truth, found)]
    rows = [[tuple(" ".join(_words(cell)) for cell in row) for row in part.rows] for part in (truth, found)]
    return f1(*words), in_order(*words), f1(*headings), f1(*rows)


def _words(text: str) -> list[str]:
    """Return words without the numbers of lists, references and pages, which the corpus has below 100 only."""
    return [word for word in _TOKEN.findall(text.lower()) if not (word.isdigit() and len(word) < 3)]


def f1(expected: Sequence[Hashable], found: Sequence[Hashable]) -> float:
    """Return the harmonic mean of precision and recall of two multisets."""
    common = sum((Counter(expected) & Counter(found)).values())
    return 2 * common / (len(expected) + len(found)) if expected or found else 1.0


def in_order(expected: Sequence[str], found: Sequence[str]) -> float:
    """Return the share of pairs of words that are in order, of the words that occur once on both sides (Kendall)."""
    counts = Counter(expected), Counter(found)
    places = {word: place for place, word in enumerate(found) if counts[0][word] == counts[1][word] == 1}
    seen: list[int] = []
    right = 0
    for word in expected:
        if (place := places.get(word)) is not None:
            right += bisect_left(seen, place)
            insort(seen, place)
    pairs = len(seen) * (len(seen) - 1) / 2
    return right / pairs if pairs else 0.0


def show(kind: str, truths: Mapping[str, Read], ours: Run, other: Run | None, *, pages: int) -> None:
    """Print the figures of one kind of file, those of the other checkout in brackets, and the losses by name."""
    mine = {name: measured(truth, ours.contents[name]) for name, truth in truths.items()}
    theirs = {name: measured(truth, other.contents[name]) for name, truth in truths.items()} if other else {}
    cells = []
    for place, _ in enumerate(MEASURES):
        former = f" ({_mean(theirs, place):.3f})" if theirs else ""
        cells.append(f"{_mean(mine, place):.3f}{former}")
    speed = _speed(ours, truths, pages)
    before = _speed(other, truths, pages) if other else 0.0
    ratio = f" {speed / before:.2f} x" if before else ""
    wins: list[str] = []
    losses: list[str] = []
    for name in theirs:
        for place, measure in enumerate(MEASURES):
            change = mine[name][place] - theirs[name][place]
            line = f"{Path(name).name} {measure} {theirs[name][place]:.3f} -> {mine[name][place]:.3f}"
            (wins if change > NOTABLE else losses if change < -NOTABLE else []).append(line)
    balance = f"  won {len(wins)}, lost {len(losses)}" if theirs else ""
    print(f"{kind:10} {'  '.join(f'{cell:13}' for cell in cells)} {speed:7.1f}/s{ratio}{balance}", flush=True)
    for line in losses:
        print(f"           lost: {line}")
    failed = sorted({text for text in ours.contents.values() if isinstance(text, str)})
    for text in failed:
        print(f"           cannot be read: {text}")


def _mean(figures: Mapping[str, tuple[float, ...]], place: int) -> float:
    return statistics.mean(row[place] for row in figures.values())


def _speed(reading: Run, names: Mapping[str, Read], pages: int) -> float:
    """Return pages per CPU second; 0 if a file cannot be read."""
    if not all(name in reading.seconds for name in names):
        return 0.0
    return pages / sum(reading.seconds[name] for name in names)


def count_pages(files: Sequence[Path]) -> int:
    """Return the pages of PDF files; any other file counts as one."""
    from pypdfium2 import PdfDocument

    return sum(len(PdfDocument(path)) if path.suffix == ".pdf" else 1 for path in files)


def compare(folder: Path, tree: Path, rounds: int) -> None:
    """Print the files of a folder that both checkouts read differently: the other one's reading is the truth."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    ours, other = read("retrieve", files, rounds=rounds), read("retrieve", files, tree=tree, rounds=rounds)
    truths = {name: found for name, found in other.contents.items() if not isinstance(found, str)}
    lost = [name for name in truths if isinstance(ours.contents[name], str)]
    added = [name for name, found in ours.contents.items() if name not in truths and not isinstance(found, str)]
    print(f"{folder}: {len(files)} files; {len(added)} more are read; no longer read: {', '.join(lost) or 'none'}")
    both = {name: truth for name, truth in truths.items() if name not in lost}
    if both:
        pages = count_pages([path for path in files if str(path) in both])
        show("as before", both, ours, other, pages=pages)


def memory(files: Sequence[Path], copies: int) -> bool:
    """Print the peak memory of builds without vectors over the files, and over many copies of them."""
    peaks = []
    for count in (1, copies):
        folder, artifacts = FOLDER / f"copies-{count}", FOLDER / f"artifacts-{count}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number in range(count):
            for path in files:
                (folder / f"{number:04}-{path.name}").write_bytes(path.read_bytes() + b"\n%% %d\n" % number)
        command = (sys.executable, "-m", "retrieve_cli", "build", "--docs-dir", str(folder))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RETRIEVE_DENSE__ENABLED": "false"}
        done = run((*command, "--artifacts", str(artifacts), "--json"), environment=environment)
        peaks.append(done.mebibytes)
        records = json.loads(done.output)["records"]
        print(f"build of {records} documents: {done.seconds:.1f} s, peak of one process {done.mebibytes:.0f} MiB")
    flat = peaks[1] - peaks[0] <= GROWTH_MIB
    print(f"memory grows by at most {GROWTH_MIB:.0f} MiB: {'ok' if flat else 'NO'}")
    return flat


def main() -> None:
    """Print the figures; exit with 1 if the memory grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="folder of another checkout")
    parser.add_argument("--kinds", default=",".join(WRITERS), help="kinds of files, separated by commas")
    parser.add_argument("--documents", type=int, default=6, help="documents of each kind")
    parser.add_argument("--rounds", type=int, default=1, help="runs whose median seconds count")
    parser.add_argument("--folder", type=Path, help="files to compare with the reading of the other checkout")
    parser.add_argument("--copies", type=int, default=0, help="copies of the PDF files whose build must stay flat")
    arguments = parser.parse_args()
    corpus = write_corpus(FOLDER, arguments.documents, arguments.kinds.split(","))
    print(f"{'':10} {'  '.join(f'{name:13}' for name in MEASURES)}")
    for kind in arguments.kinds.split(","):
        truths = {path: Read(*truth) for path, truth in corpus.items() if path.name.startswith(f"{kind}_")}
        files, named = list(truths), {str(path): truth for path, truth in truths.items()}
        ours, pages = read("retrieve", files, rounds=arguments.rounds), count_pages(files)
        tree = arguments.against
        show(kind, named, ours, tree and read("retrieve", files, tree=tree, rounds=arguments.rounds), pages=pages)
        for name in PEERS if kind.startswith("pdf") else ():
            show(f" {name}", named, read(name, files), None, pages=pages)
    if arguments.folder and arguments.against:
        compare(arguments.folder, arguments.against, arguments.rounds)
    copied = [path for path in corpus if path.suffix == ".pdf"]
    raise SystemExit(0 if not arguments.copies or memory(copied, arguments.copies) else 1)


if __name__ == "__main__":
    main()
