"""Code blocks of the documentation: read, run, compared with the output that stands below them, and recorded anew.

    console   lines that begin with `$ ` are commands, the lines below are their output. A line `…` stands for any
              lines. `# exits with 3` at the end of a command names another exit code than 0.
    sh        commands, one a line; the output is not shown.
    python    a program; a `text` block directly below it is its output.
    yaml      a configuration, which must be valid.

`<!-- not run: reason -->` above a block keeps it from being run. Identifiers, times, sizes and decimal fractions vary:
they are compared as placeholders. `python tests/doc_pages.py PAGE...` writes the output of this machine into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
INERT = {"text", "json", "jsonl", "ini", "toml", "crontab", "sql"}
"""Languages of blocks that are shown and not run here; engines/test_pgvector_sql.py runs the SQL."""
ANY = "…"
COMMAND_S = 2.5 * PATIENCE_S
"""Seconds of a command: tuning takes two minutes of CPU time, on a core that others use three times as many."""
_FENCE = re.compile(r"```(\S*)$")
_NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->$")
_EXITS = re.compile(r"\s+# exits with (\d+)$")
_PROGRESS = re.compile(r"[^:]+: [\d,]+ of [\d,]+ [a-z]+(, [\d.,]+/s(, \d+:\d\d left)?)?")
_VARIABLE = [
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b\d{8}T\d{6}Z?-[0-9a-f]+\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "SHA1"),
    (
        re.compile(r"(?<![\w.])-?\d[\d,]*(\.\d+)?(e-?\d+)? ?(ms|s|m|min|h|B|kB|KB|KiB|MB|MiB|GB|GiB|%|/s)(?!\w)"),
        "AMOUNT",
    ),
    (re.compile(r"(?<![\w.])[-−+]?\d+\.\d+(e-?\d+)?"), "FRACTION"),
    (re.compile(r"\.md:\d+(-\d+)?"), ".md:LINES"),
    (re.compile(r"\b\d+ threads?\b"), "THREADS"),
    (re.compile(r"\b\d+ documents?, \d+ chunks?(, \d+ embedded)?|\(\.\w+ \d+(, \.\w+ \d+)*\)"), "FILES"),
    (re.compile(r"[-─━]{4,}"), "----"),
]


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    first: int
    """Index of the line of the page that it begins with, below the fence."""
    lines: Sequence[str]
    skipped: str | None
    """The reason for which it is not run."""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if (fence := _FENCE.match(lines[at])) is not None:
            end = lines.index("```", at + 1)
            above = next((line for line in reversed(lines[:at]) if line), "")
            reason = _NOT_RUN.match(above)
            yield Block(fence[1], at + 1, lines[at + 1 : end], reason[1] if reason else None)
            at = end
        at += 1


def workspace(folder: Path) -> Path:
    """Lay out a folder as a clone has it, for the commands of a page."""
    for name in ("catalogs", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    write_library(folder / "library")
    return folder


def write_library(folder: Path) -> None:
    """Write the documents that docs/documents.md reads: a handbook in PDF, with a preface, and a page of HTML."""
    from reportlab.pdfgen.canvas import Canvas

    folder.mkdir()
    canvas = Canvas(str(folder / "handbook.pdf"), invariant=1)
    canvas.setTitle("Handbook of kettles")
    pages = [
        ("Preface", ["This handbook describes kettles of copper and of steel."]),
        (
            "Descaling",
            ["Lime is removed with citric acid: 20 g for each litre of water.", "Rinse it twice afterwards."],
        ),
        ("Repair", ["A leaking spout is soldered with silver, never with lead."]),
    ]
    for heading, lines in pages:
        canvas.setFont("Times-Bold", 18)
        canvas.drawString(72, 760, heading)
        canvas.setFont("Times-Roman", 11)
        for number, line in enumerate(lines):
            canvas.drawString(72, 720 - 16 * number, line)
        canvas.showPage()
    canvas.addPageLabel(0, style="ROMAN_LOWER", start=1)
    canvas.addPageLabel(1, style="ARABIC", start=1)
    canvas.save()
    page = "<!doctype html><title>Shop</title><nav><a href=/>Home</a></nav><main><h1>Shop</h1>"
    page += "<h2 id=returns>Returns</h2><p>A kettle can be returned within 30 days.</p></main>"
    (folder / "shop.html").write_text(page, "utf-8")


SAMPLE = "retrieve build catalogs/tools.jsonl"
"""The command that many pages begin with."""


def run_in_page(program: str | Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a step of a page; the first build of the sample catalog is kept beside the folder, for the next page."""
    kept, output = folder.with_name("sample"), folder.with_name("sample.txt")
    artifacts = folder / "artifacts"
    if program != SAMPLE or artifacts.exists() or (folder / "config.yaml").exists():
        return run(program, folder)
    if output.exists():
        shutil.copytree(kept, artifacts, symlinks=True)
        return subprocess.CompletedProcess(program, 0, output.read_text("utf-8"))
    done = run(program, folder)
    if done.returncode == 0:
        shutil.copytree(artifacts, kept, symlinks=True)
        output.write_text(done.stdout, "utf-8")
    return done


def run(command: str | Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line (or a program with arguments) as a user would, its errors among its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVE_", "COV_"))}
    environment = {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "NO_COLOR": "1", "CI": ""}
    return subprocess.run(
        ["bash", "-c", command] if isinstance(command, str) else command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_S,
    )


def _without_progress(lines: Sequence[str]) -> list[str]:
    """The lines without those of work that takes more than ten seconds, which depends on the machine."""
    return [line for line in lines if not _PROGRESS.fullmatch(line)]


def same(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines are the same but for what varies; `…` stands for any lines."""
    wanted, given = [_constant(line) for line in shown], [_constant(line) for line in printed]
    reached = {0}
    for line in wanted:
        if line == ANY:
            reached = set(range(min(reached, default=len(given) + 1), len(given) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(given) and given[at] == line}
    return len(given) in reached


def _constant(line: str) -> str:
    """The line with placeholders for what varies."""
    for pattern, placeholder in _VARIABLE:
        line = pattern.sub(placeholder, line)
    return " ".join(line.split())


class Step(NamedTuple):
    """A command of a console block, with the output shown below it."""

    command: str
    code: int
    first: int
    """Index of the first line of its output in the page."""
    shown: Sequence[str]


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block."""
    starts = [at for at, line in enumerate(block.lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        first = start + 1
        command = block.lines[start][2:]
        while command.endswith("\\"):
            command = command[:-1] + block.lines[first].strip().removeprefix("> ")
            first += 1
        exits = _EXITS.search(command)
        shown = block.lines[first:end]
        yield Step(_EXITS.sub("", command), int(exits[1]) if exits else 0, block.first + first, shown)


def check(page: Path, folder: Path) -> Iterator[tuple[Step, Sequence[str]]]:
    """Run the blocks of a page one after the other; yields the output that differs, by the step that shows it.

    Raises: AssertionError if a command ends with another code than the page says.
    """
    for block, step in shown_steps(page):
        done = run_in_page(_program(block, step), folder)
        printed = _without_progress(done.stdout.rstrip("\n").split("\n")) if done.stdout.strip() else []
        assert done.returncode == step.code, f"{page.name}: {step.command}\nexit {done.returncode}\n{done.stdout}"
        if block.language != "sh" and not same(_trimmed(step.shown), printed):
            yield step, printed


def shown_steps(page: Path, *, run: bool = True) -> Iterator[tuple[Block, Step]]:
    """Yield the commands of a page with the output that it shows; without `run`, also those that are not run."""
    found = list(blocks(page.read_text("utf-8")))
    for block, after in zip_longest(found, found[1:]):
        if block.language not in INERT and not (run and block.skipped is not None):
            yield from ((block, step) for step in _steps_of(block, after))


def calls(command: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of `retrieve` in a command line of the shell."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    call: list[str] = []
    for word in [*words, ";"]:
        if word != "#" and not set(word) <= set("|;&()<>"):
            call += [] if not call and re.fullmatch("[A-Z_]+=.*", word, re.DOTALL) else [word]
            continue
        if call[:1] == ["retrieve"]:
            yield call[1:]
        call = []
        if word == "#":
            return


def _steps_of(block: Block, after: Block | None) -> list[Step]:
    if block.language == "console":
        return list(steps(block))
    if block.language == "sh":
        return [Step(_EXITS.sub("", line), int(code[1]) if (code := _EXITS.search(line)) else 0, 0, [])
                for line in _joined(block.lines) if line and not line.startswith("#")]  # fmt: skip
    if block.language == "python":
        below = after is not None and after.language == "text" and after.first - block.first - len(block.lines) <= 3
        shown = after.lines if after is not None and below else [ANY]
        return [Step("\n".join(block.lines), 0, after.first if after is not None and below else 0, shown)]
    if block.language == "yaml":
        return [Step("\n".join(block.lines), 0, 0, [ANY])]
    raise AssertionError(f"line {block.first}: a block in {block.language!r} can neither be run nor is known as inert")


def _program(block: Block, step: Step) -> str | list[str]:
    if block.language == "python":
        return [sys.executable, "-c", step.command]
    if block.language == "yaml":
        check = "import sys; from pathlib import Path; from retrieve_cli.config.loading import load; "
        check += "path = Path('block.yaml'); path.write_text(sys.argv[1], 'utf-8'); load(path); path.unlink()"
        return [sys.executable, "-c", check, step.command]
    return step.command


def _joined(lines: Sequence[str]) -> list[str]:
    """Command lines, those that end with a backslash joined with the next."""
    return "\n".join(lines).replace("\\\n", " ").split("\n")


def _trimmed(lines: Sequence[str]) -> Sequence[str]:
    """The lines without empty ones at the end."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def record(page: Path) -> int:
    """Write the output of this machine below the commands of a page; returns how many outputs changed.

    Where a page shows an excerpt, the same number of lines is kept before the first `…` and after the last one.
    """
    with tempfile.TemporaryDirectory() as name:
        changes = list(check(page, workspace(Path(name))))
    lines = page.read_text("utf-8").split("\n")
    for step, printed in reversed(changes):
        shown = _trimmed(step.shown)
        kept = list(printed)
        if ANY in shown:
            head, tail = list(shown).index(ANY), list(reversed(shown)).index(ANY)
            kept = [*printed[:head], ANY, *printed[len(printed) - tail :]]
        lines[step.first : step.first + len(shown)] = kept
    page.write_text("\n".join(lines), "utf-8")
    return len(changes)


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        print(f"{page.name}: {record(page)} outputs changed")
