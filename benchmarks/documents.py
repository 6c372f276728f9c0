"""`make bench-documents`: pages per second and core from bytes to chunks, beside other readers of PDF, in one run.

python -m benchmarks.documents [--rounds 3] [--papers 12] [--pages 1500] [--documents 300] [--only retrieve,pypdf]
[--copies 40]

The first corpus is made with reportlab: papers with two columns, tables and charts. The second are the manuals of
Debian packages, fetched with `apt-get download`; without apt it is skipped, and the reason printed. The third are the
HTML pages of these packages, whose figures are documents per second. A reader runs over a corpus in a process of its
own, one after the other, round by round; only its CPU seconds count, without imports. A figure is the median over the
rounds, a ratio the median of the ratios within a round. The peers are in build/bench/peers.
`retrieve` goes on to chunks, the peers stop at the text. At last `retrieve build` reads the generated papers, and many
copies of them: its peak memory must not grow with their number.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.made_papers import write_papers
from benchmarks.process import ROOT, WORK, run

FOLDER = WORK / "documents"
PROGRAM = ROOT / "benchmarks" / "document_readers.py"
READERS = ("retrieve", "pypdf", "pdfplumber", "markitdown", "trafilatura")
PDF_READERS, HTML_READERS = READERS[:4], ("retrieve", "markitdown", "trafilatura")
PACKAGES = (
    "bash-doc",
    "debian-policy",
    "developers-reference",
    "glpk-doc",
    "gnuplot-doc",
    "libcfitsio-doc",
    "python-reportlab-doc",
    "r-doc-pdf",
)
"""Packages with manuals in PDF: TeX, Texinfo, Sphinx, DocBook, LibreOffice and reportlab made them."""
PAGES_PER_SECOND = 150.0
GROWTH_MIB = 64.0
"""Most MiB by which the peak of a build may grow with the number of documents."""
_LIMIT_S = 900.0


def environment() -> dict[str, str]:
    """Return the environment of the readers: no network, the packages of the peers last."""
    paths = [str(ROOT), str(WORK / "peers")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}


def fetch_packages(folder: Path) -> tuple[list[Path], str]:
    """Return the PDF and HTML files of the packages with the packages' names, or the reason why there are none."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return [], "apt-get and dpkg-deb are not installed"
    archives, tree = folder / "archives", folder / "tree"
    archives.mkdir(parents=True, exist_ok=True)
    missing = [name for name in PACKAGES if not list(archives.glob(f"{name}_*.deb"))]
    if missing:
        command = ["apt-get", "download", "-q", *missing]
        done = subprocess.run(command, cwd=archives, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if done.returncode:
            return [], (done.stderr.strip() or "apt-get download failed").splitlines()[-1]
    names = []
    for archive in sorted(archives.glob("*.deb")):
        name, version, *_ = archive.stem.split("_")
        names.append(f"{name} {version}")
        if not (tree / name).exists():
            (tree / name).mkdir(parents=True)
            subprocess.run(["dpkg-deb", "-x", str(archive), str(tree / name)], check=True, timeout=_LIMIT_S)
    packed = [path for path in tree.rglob("*.pdf.gz") if path.is_file() and not path.with_suffix("").exists()]
    if packed:
        subprocess.run(["gunzip", "-k", *map(str, packed)], check=True, timeout=_LIMIT_S)
    paths = (*sorted(tree.rglob("*.pdf")), *sorted(tree.rglob("*.html")))
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    return files, ", ".join(names)


def count_pages(files: Sequence[Path], most: int) -> dict[Path, int]:
    """Return the files with their pages, from the smallest, until there are `most` pages."""
    from pypdfium2 import PdfDocument

    counts: dict[Path, int] = {}
    for path in sorted(files, key=lambda path: (path.stat().st_size, path.name)):
        with PdfDocument(path) as document:
            count = len(document)
        if sum(counts.values()) + count <= most:
            counts[path] = count
    return counts


def choose_pages(files: Sequence[Path], most: int) -> dict[Path, int]:
    """Return at most `most` HTML files, spread over the packages; each is one document."""
    step = max(1, -(-len(files) // most))
    return dict.fromkeys(files[::step], 1)


def measure(readers: Sequence[str], pages: Mapping[Path, int], rounds: int) -> dict[str, list[float]]:
    """Return the pages per CPU second of each reader, round by round; a reader that does not run is skipped."""
    total = sum(pages.values())
    rates: dict[str, list[float]] = {}
    for number in range(rounds):
        for name in readers:
            if number and name not in rates:
                continue
            command = [sys.executable, str(PROGRAM), name, *map(str, pages)]
            done = subprocess.run(
                command, env=environment(), capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
            if done.returncode:
                print(f"  {name}: skipped: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
                continue
            report = json.loads(done.stdout.splitlines()[-1])
            if report["failed"] and not number:
                print(f"  {name}: {len(report['failed'])} files cannot be read: {report['failed'][0]}")
            rates.setdefault(name, []).append(total / report["cpu"])
    return rates


def show(
    title: str, pages: Mapping[Path, int], rates: Mapping[str, Sequence[float]], *, least: float = PAGES_PER_SECOND
) -> bool:
    """Print the rates of one corpus; return True if `retrieve` reads at least `least`; 0: each page is a document."""
    unit = "pages" if least else "documents"
    print(f"{title}: {len(pages)} files, {sum(pages.values())} {unit}")
    ours = rates.get("retrieve", [])
    for name, values in rates.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, values, strict=False)) if ours else 0.0
        print(f"  {name:12} {statistics.median(values):8.1f} {unit}/s per core   {ratio:6.2f} x")
    reached = bool(ours) and statistics.median(ours) >= least
    if least:
        print(f"  retrieve at least {least:.0f} pages/s: {'ok' if reached else 'BELOW'}", flush=True)
    return reached


def memory(papers: Sequence[Path], copies: int) -> bool:
    """Print the peak memory of builds without vectors over the papers, and over many copies of them."""
    peaks = []
    for count in (1, copies):
        folder, artifacts = FOLDER / f"copies-{count}", FOLDER / f"artifacts-{count}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(artifacts, ignore_errors=True)
        folder.mkdir(parents=True)
        for number in range(count):
            for path in papers:
                (folder / f"{number:04}-{path.name}").write_bytes(path.read_bytes() + b"\n%% %d\n" % number)
        command = (
            sys.executable,
            "-m",
            "retrieve_cli",
            "build",
            "--docs-dir",
            str(folder),
            "--artifacts",
            str(artifacts),
        )
        done = run((*command, "--json"), environment={**environment(), "RETRIEVE_DENSE__ENABLED": "false"})
        report = json.loads(done.output)
        peaks.append(done.mebibytes)
        print(
            f"  build of {report['records']} papers: {done.seconds:.1f} s, peak of one process {done.mebibytes:.0f} MiB"
        )
    flat = peaks[1] - peaks[0] <= GROWTH_MIB
    print(f"  memory grows by at most {GROWTH_MIB:.0f} MiB: {'ok' if flat else 'BELOW'}")
    return flat


def main() -> None:
    """Measure both corpora and the memory; exit with 1 if a figure is below what it is held to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--papers", type=int, default=12, help="generated papers")
    parser.add_argument("--pages", type=int, default=1500, help="most pages of the packages")
    parser.add_argument("--documents", type=int, default=300, help="most HTML pages of the packages")
    parser.add_argument("--copies", type=int, default=40, help="copies of the papers whose build must stay flat")
    parser.add_argument("--only", default=",".join(READERS), help="readers, separated by commas")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    readers = [name for name in PDF_READERS if name in chosen]
    papers = write_papers(FOLDER / "papers", arguments.papers)
    pages = count_pages(papers, arguments.pages)
    reached = [show("generated papers", pages, measure(readers, pages, arguments.rounds))]
    files, packages = fetch_packages(FOLDER / "debian")
    if files:
        print(f"packages: {packages}")
        pages = count_pages([path for path in files if path.suffix == ".pdf"], arguments.pages)
        reached.append(show("manuals of Debian packages", pages, measure(readers, pages, arguments.rounds)))
        pages = choose_pages([path for path in files if path.suffix == ".html"], arguments.documents)
        rates = measure([name for name in HTML_READERS if name in chosen], pages, arguments.rounds)
        show("HTML pages of these packages", pages, rates, least=0.0)
    else:
        print(f"manuals of Debian packages: skipped: {packages}")
    reached.append(memory(papers, arguments.copies))
    raise SystemExit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
