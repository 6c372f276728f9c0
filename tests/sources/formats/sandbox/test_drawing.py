"""Pages are drawn in another process: a PDF that stalls it costs its picture and nothing else."""

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from samples import Program
from servers import started
from sources.formats.indexed import indexed
from sources.formats.sandbox.conftest import children

from retrieve_cli.contracts import DocumentFile
from retrieve_cli.contracts.layout import Box, Mark
from retrieve_cli.errors import BadDocument, Unavailable
from retrieve_cli.sources.formats import formats
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.pdf.picture import render
from retrieve_cli.sources.formats.reader import SandboxedReader

SLOW = "more than 2 s of CPU time"
LIMITED = {"RETRIEVE_PARSING__CPU_S": "2", "RETRIEVE_PARSING__WORKERS": "1", "RETRIEVE_ENCODER__KIND": "hashed"}
LINES = ("Ears are measured with callipers of brass.", "Whistles are loud at night.", "A pump moves the oil.")


def pdf(*, shadings: int = 0) -> bytes:
    """Return a PDF with a line on each page; with `shadings`, the first page is painted over so many times."""
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=(1000, 1000), invariant=1)
    for number, line in enumerate(LINES):
        canvas.drawString(50, 700 - 20 * number, line)
        if shadings and not number:
            canvas.setFillAlpha(0.01)
            canvas.radialGradient(500, 500, 700, ("#ff0000", "#00ff00"))
            canvas._code.extend(["/Sh0 sh"] * shadings)
        canvas.showPage()
    canvas.save()
    return target.getvalue()


@pytest.fixture(scope="module")
def reader() -> Iterator[SandboxedReader]:
    with closing(SandboxedReader(ParsingLimits(cpu_s=8), workers=2)) as made:
        yield made


def test_threads_get_the_pictures_that_they_asked_for_as_if_drawn_here(reader: SandboxedReader, tmp_path: Path) -> None:
    (tmp_path / "ears.pdf").write_bytes(pdf())
    file = DocumentFile(tmp_path / "ears.pdf", hashlib.sha1(pdf()).digest())
    marks = [Mark(Box(1, 50.25, 90, 200 + part / 7, 110), "passage") for part in range(5000)]
    marks += [Mark(Box(2, 40, 80, 300, 120), "table", "1 täble"), Mark(Box(2, 40, 200, 300, 220), "code", "2")]
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda page: reader.draw(file, "pdf", pages=[page], marks=marks), [1, 2, 3] * 3))
    assert (
        drawn
        == [render(pdf(), [page], marks=[mark for mark in marks if mark.box.page == page]) for page in (1, 2, 3)] * 3
    )
    with pytest.raises(BadDocument, match="boxes to mark"):
        reader.draw(file, "pdf", pages=[1], marks=marks * 11)


def test_a_missing_package_and_a_format_without_pages_are_named(
    reader: SandboxedReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = DocumentFile(tmp_path / "ears.pdf", b"")
    with pytest.raises(Unavailable, match="html files cannot be drawn"):
        reader.draw(file, "html", pages=[1])
    monkeypatch.setattr(formats, "version_of", lambda name: "" if name == "pillow" else "1")
    with pytest.raises(Unavailable, match="pictures of pages need pillow"):
        reader.draw(file, "pdf", pages=[1])


def test_the_program_and_a_server_go_on_when_a_page_stalls_its_drawer(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = indexed(tmp_path, {"good.pdf": pdf(), "slow.pdf": pdf(shadings=1000)})
    with started(folder / "artifacts", cwd=folder, **LIMITED) as server:
        with ThreadPoolExecutor(4) as threads:
            slow = threads.submit(server.get, "/pictures/slow.pdf?page=1")
            good = [threads.submit(server.get, f"/pictures/good.pdf?page={page}") for page in (1, 2, 3)]
            assert server.get("/health").status == 200
            assert [answer.result().status for answer in good] == [200, 200, 200]
            answer = slow.result()
        assert (answer.status, SLOW in answer.json()["error"]["message"]) == (404, True), answer.data
        started_by = [child for pid in (server.process.pid, *children(server.process.pid)) for child in children(pid)]
        programs = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in started_by]
        assert sum(b"formats.processes.child" in program for program in programs) == 1
    for name, value in LIMITED.items():
        monkeypatch.setenv(name, value)
    flags = ("--artifacts", folder / "artifacts", "--filter", "id=slow.pdf", "--picture", "slow.png")
    done = retrieve("query", "callipers", *flags)
    assert (done.code, "slow.pdf" in done.out, SLOW in done.err) == (0, True, True), done.err
    assert not Path("slow.png").exists()
