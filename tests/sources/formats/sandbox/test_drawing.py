"""Pages are drawn in another process: a PDF that crashes or stalls it costs its picture and nothing else."""

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from samples import Program
from servers import Server, started
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


def pdf(pages: int = 3, *, shadings: int = 0) -> bytes:
    """Return a PDF with a line on each page; with `shadings`, the first page is painted over so many times."""
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=(1000, 1000), invariant=1)
    for number in range(1, pages + 1):
        canvas.drawString(50, 700 - 20 * number, LINES[number - 1])
        if shadings and number == 1:
            canvas.saveState()
            canvas.setFillAlpha(0.01)
            canvas.radialGradient(500, 500, 700, ("#ff0000", "#00ff00"))
            canvas._code.extend(["/Sh0 sh"] * shadings)
            canvas.restoreState()
        canvas.showPage()
    canvas.save()
    return target.getvalue()


def stored(path: Path, content: bytes) -> DocumentFile:
    """Write a file."""
    path.write_bytes(content)
    return DocumentFile(path, hashlib.sha1(content).digest())


@pytest.fixture(scope="module")
def reader() -> Iterator[SandboxedReader]:
    made = SandboxedReader(ParsingLimits(cpu_s=8), workers=2)
    yield made
    made.close()


def test_a_picture_is_the_same_as_one_drawn_in_this_process_with_any_number_of_marks(
    reader: SandboxedReader, tmp_path: Path
) -> None:
    file = stored(tmp_path / "ears.pdf", pdf())
    marks = [Mark(Box(1, 50.25, 90, 200 + part / 7, 110), "passage") for part in range(5000)]
    marks += [Mark(Box(2, 40, 80, 300, 120), "table", "1 täble", 1), Mark(Box(2, 40, 200, 300, 220), "code", "2", 2)]
    assert reader.draw(file, "pdf", pages=[1, 2], marks=marks) == render(pdf(), [1, 2], marks=marks)
    with pytest.raises(BadDocument, match="boxes to mark"):
        reader.draw(file, "pdf", pages=[1], marks=marks * 11)


def test_threads_get_the_pictures_that_they_asked_for(reader: SandboxedReader, tmp_path: Path) -> None:
    file, wanted = stored(tmp_path / "ears.pdf", pdf(3)), [1, 2, 3] * 4
    whole = {page: render(pdf(3), [page]) for page in (1, 2, 3)}
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda page: reader.draw(file, "pdf", pages=[page]), wanted))
    assert drawn == [whole[page] for page in wanted]


def test_no_picture_is_drawn_of_another_content(reader: SandboxedReader, tmp_path: Path) -> None:
    file = stored(tmp_path / "ears.pdf", pdf())
    file.path.write_bytes(pdf(2))
    with pytest.raises(BadDocument, match="it changed while it was read"):
        reader.draw(file, "pdf", pages=[1])
    file.path.unlink()
    with pytest.raises(BadDocument, match="it cannot be read"):
        reader.draw(file, "pdf", pages=[1])


def test_a_missing_package_and_a_format_without_pages_are_named(
    reader: SandboxedReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stored(tmp_path / "ears.pdf", pdf())
    with pytest.raises(Unavailable, match="html files cannot be drawn"):
        reader.draw(file, "html", pages=[1])
    monkeypatch.setattr(formats, "DRAWERS", {"pdf": formats.DRAWERS["pdf"]._replace(distributions=("no-such",))})
    with pytest.raises(Unavailable, match="pictures of pages need no-such"):
        reader.draw(file, "pdf", pages=[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of a good PDF and of one whose first page takes minutes to draw."""
    return indexed(tmp_path_factory.mktemp("drawn"), {"good.pdf": pdf(), "slow.pdf": pdf(shadings=1000)})


def test_the_program_names_the_reason_why_there_is_no_picture(
    folder: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LIMITED.items():
        monkeypatch.setenv(name, value)
    done = retrieve("inspect", "page", folder / "docs" / "slow.pdf", "1", "--picture", "slow.png")
    assert (done.code, f"slow.pdf: the reader ended on page 1 ({SLOW})" in done.err) == (2, True), done.err
    flags = ("--artifacts", folder / "artifacts", "--filter", "id=slow.pdf", "--picture", "slow.png")
    done = retrieve("query", "callipers", *flags)
    assert (done.code, "slow.pdf" in done.out, SLOW in done.err) == (0, True, True), done.err
    assert not Path("slow.png").exists()


def test_a_server_answers_on_while_and_after_a_page_stalls_its_drawer(folder: Path) -> None:
    with started(folder / "artifacts", cwd=folder, **LIMITED) as server:
        assert readers(server) == 0
        with ThreadPoolExecutor(4) as threads:
            slow = threads.submit(server.get, "/pictures/slow.pdf?page=1")
            good = [threads.submit(server.get, f"/pictures/good.pdf?page={page}") for page in (1, 2, 3)]
            assert server.get("/health").status == 200
            assert [answer.result().status for answer in good] == [200, 200, 200]
            answer = slow.result()
        assert (answer.status, SLOW in answer.json()["error"]["message"]) == (404, True), answer.data
        assert server.get("/pictures/good.pdf?page=2").data == render(pdf(), [2])
        assert readers(server) == 1


def readers(server: Server) -> int:
    """Return the number of processes for documents that the server and its own processes have started."""
    own = [server.process.pid, *children(server.process.pid)]
    started_by = [child for pid in own for child in children(pid)]
    return sum(b"formats.processes.child" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in started_by)
