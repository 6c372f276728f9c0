"""Pictures of pages: bounded, repeatable, with marks at the words, and only of the file that was indexed."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from PIL import Image
from reportlab.pdfgen.canvas import Canvas
from samples import Program
from servers import Server, started
from sources.formats.indexed import indexed
from urllib3.filepost import encode_multipart_formdata
from waiting import PATIENCE_S

from retrieve_cli.contracts.layout import Block, Box, Mark, Words, cell_boxes
from retrieve_cli.errors import BadDocument
from retrieve_cli.server.auth.keys import KeyFile
from retrieve_cli.sources.formats.pdf.picture import render

LINES = {
    1: ["Measuring ears", "Ears are measured with callipers of brass,", "which are held at the lobe."],
    2: ["Whistles", "Whistles made of copper are loud at night,", "and quiet in the morning."],
}
EARS = [f"Ears are measured with {n} callipers of brass, which are held at the lobe." for n in range(20)]
WHISTLES = [f"Whistles made of {n} sheets of copper are loud at night, and quiet by day." for n in range(20)]
LONG = {1: ["Measuring ears", *EARS], 2: ["Whistles", *WHISTLES]}
"""Pages that do not fit into one chunk."""
SIZE = (400, 300)
YELLOW = (255, 241, 118)


def pdf(lines: dict[int, list[str]] = LINES, size: tuple[float, float] = SIZE, *, labels: bool = False) -> bytes:
    """Return a PDF: a heading and lines of text on each page; with `labels`, roman ones."""
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=size, invariant=1)
    for number, (heading, *rest) in lines.items():
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(50, size[1] - 60, heading)
        canvas.setFont("Helvetica", 11)
        for place, line in enumerate(rest):
            canvas.drawString(50, size[1] - 100 - 14 * place, line)
        if labels:
            canvas.addPageLabel(number - 1, style="ROMAN_LOWER", start=number + 6)
        canvas.showPage()
    canvas.save()
    return target.getvalue()


def image(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert("RGB")


def yellow(picture: Image.Image) -> tuple[int, int, int, int] | None:
    """Return the smallest box around the marked background, in pixels."""
    data = picture.tobytes()
    width = picture.width
    places = [place // 3 for place in range(0, len(data), 3) if tuple(data[place : place + 3]) == YELLOW]
    if not places:
        return None
    columns, rows = [place % width for place in places], [place // width for place in places]
    return min(columns), min(rows), max(columns), max(rows)


# ---------------------------------------------------------------------------------------------- drawing


def test_a_passage_is_marked_at_its_boxes_and_nowhere_else() -> None:
    box = Box(2, 50, 190, 150, 205)
    marked = image(render(pdf(), [2], marks=[Mark(box, "passage"), Mark(Box(1, 0, 0, 400, 300), "passage")]))
    assert marked.size == (800, 600)
    left, top, right, bottom = yellow(marked) or (0, 0, 0, 0)
    assert (left, top, right, bottom) == pytest.approx((100, 380, 300, 410), abs=4)
    assert yellow(image(render(pdf(), [2]))) is None


def test_pages_are_side_by_side_and_at_most_four() -> None:
    six = pdf({number: ["Heading"] for number in range(1, 7)})
    assert image(render(six, [1, 2])).size == (800 + 12 + 800, 600)
    assert image(render(six, range(1, 7))).width == 4 * 800 + 3 * 12


@pytest.mark.parametrize("size", [(14_400, 14_400), (14_400, 3), (3, 14_400)])
def test_a_huge_page_has_a_bounded_picture(size: tuple[float, float]) -> None:
    width, height = image(render(pdf({1: ["x"]}, size), [1])).size
    assert width * height <= 4_100_000
    assert max(width, height) <= 4097


@pytest.mark.parametrize(("content", "page"), [(b"no PDF", 1), (b"", 1), (pdf()[:200], 1), (pdf(), 3), (pdf(), 0)])
def test_what_cannot_be_drawn_is_a_bad_document(content: bytes, page: int) -> None:
    with pytest.raises(BadDocument):
        render(content, [page])


def test_the_cells_of_a_table_have_the_boxes_of_their_words() -> None:
    text = "| a | b\\|c |\n|---|---|\n| d |  |"
    words = Words()
    for number, word in enumerate(("a", "b\\|c", "d")):
        start = text.index(word)
        words.add(start, start + len(word), 1, 10 * number, 0, 10 * number + 5, 5)
    rows = cell_boxes(text, Block(0, len(text), "table"), words=words, page=1)
    assert [[cell and cell.x0 for cell in row] for row in rows] == [[0, 10], [20, None]]
    assert cell_boxes(text, Block(0, len(text), "table"), words=words, page=2) == [[None, None], [None, None]]


# ------------------------------------------------------------------------------------------ inspect page


def test_a_page_shows_its_blocks_in_reading_order(tmp_path: Path, retrieve: Program) -> None:
    file, out = tmp_path / "ears.pdf", tmp_path / "p2.png"
    file.write_bytes(pdf())
    done = retrieve("inspect", "page", file, "2", "--picture", out)
    assert done.code == 0
    assert "page 2 of 2, 400 × 300 points" in done.out
    assert done.out.index("Whistles") < done.out.index("Whistles made of copper")
    assert image(out.read_bytes()).size == (800, 600)
    view = retrieve("inspect", "page", file, "2", "--json").json
    assert (view["page"], view["pages"], view["label"], view["image_only"]) == (2, 2, None, False)
    heading, paragraph = view["blocks"]
    assert (heading["kind"], heading["number"], paragraph["kind"]) == ("heading", 1, "paragraph")
    assert heading["box"][1] < paragraph["box"][1]
    assert heading["box"][0] == pytest.approx(50, abs=2)


def test_a_page_is_named_by_number_or_printed_label(tmp_path: Path, retrieve: Program) -> None:
    file = tmp_path / "ears.pdf"
    file.write_bytes(pdf(labels=True))
    by_label = retrieve("inspect", "page", file, "VIII", "--json").json
    assert (by_label["page"], by_label["label"]) == (2, "viii")
    assert retrieve("inspect", "page", file, "2", "--json").json == by_label
    wrong = retrieve("inspect", "page", file, "2", "--label")
    assert (wrong.code, "has no page '2'" in wrong.err, "vii, viii" in wrong.err) == (2, True, True)


# --------------------------------------------------------------------------------------- query --picture


@pytest.fixture
def folder(tmp_path: Path, retrieve: Program) -> Path:
    """A folder of a PDF and a note that is indexed."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "ears.pdf").write_bytes(pdf(LONG, (600, 800)))
    (folder / "note.md").write_text("# Note\n\nGiraffes have long necks.")
    assert retrieve("build", "--docs-dir", folder).code == 0
    return folder


def test_a_query_draws_the_page_of_its_first_result(folder: Path, tmp_path: Path, retrieve: Program) -> None:
    out = tmp_path / "hit.png"
    done = retrieve("query", "whistles of copper at night", "--picture", out)
    assert (done.code, "hit.png: page 2 of ears.pdf" in done.err) == (0, True), done.err
    picture = image(out.read_bytes())
    assert picture.size == (1200, 1600)
    left, top, right, bottom = yellow(picture) or (0, 0, 0, 0)
    assert left == pytest.approx(100, abs=6)
    assert 60 < top < bottom < 2 * (100 + 20 * 14), "nothing below the last line is marked"
    assert right < 1100


def test_without_a_picture_the_answer_is_printed_with_the_reason(
    folder: Path, tmp_path: Path, retrieve: Program
) -> None:
    out = tmp_path / "hit.png"
    done = retrieve("query", "giraffes", "--picture", out)
    assert (done.code, "note.md" in done.out, "no pages that can be drawn" in done.err) == (0, True, True)
    (folder / "ears.pdf").write_bytes(pdf({1: ["Other"], 2: ["Other words", "Nothing of that."]}))
    done = retrieve("query", "whistles of copper at night", "--picture", out)
    assert (done.code, "ears.pdf" in done.out, "has changed since the build" in done.err) == (0, True, True)
    (folder / "ears.pdf").unlink()
    done = retrieve("query", "whistles of copper at night", "--picture", out, "--json")
    assert (done.code, bool(done.json["results"])) == (0, True)
    told = [json.loads(line) for line in done.err.splitlines() if line.startswith('{"picture"')]
    assert "is gone" in told[0]["picture"]["reason"]
    assert not out.exists(), "no picture of another version is drawn"


# ------------------------------------------------------------------------------------------------- server


class Door:
    def __init__(self, server: Server, key: str) -> None:
        self.server, self.key = server, key

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> urllib3.BaseHTTPResponse:
        sent = {"Authorization": f"Bearer {self.key}", **headers}
        url = self.server.url + path
        return urllib3.request(method, url, body=body, headers=sent, timeout=PATIENCE_S, retries=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a PDF and its index."""
    return indexed(tmp_path_factory.mktemp("site"), {"ears.pdf": pdf()})


@pytest.fixture(scope="module")
def doors(site: Path) -> Iterator[dict[str, Door]]:
    """A server of the folder, as an operator and two tenants see it; one of them has sent a PDF."""
    artifacts = site / "artifacts"
    file, scopes = KeyFile(artifacts), ["search", "documents:write"]
    keys = {"operator": None, "acme": "acme", "globex": "globex"}
    with started(artifacts, cwd=site, RETRIEVE_ENCODER__KIND="hashed") as server:
        doors = {name: Door(server, file.create(scopes, tenant=tenant).text) for name, tenant in keys.items()}
        body, kind = encode_multipart_formdata([("file", ("plan.pdf", pdf(labels=True), "application/pdf"))])
        sent = doors["acme"].send("POST", "/documents", body, **{"Content-Type": kind, "Prefer": "wait=60"})
        assert sent.json()["documents"][0]["status"] == "processed", sent.data
        yield doors


def test_a_file_that_was_sent_has_pages_and_a_picture_for_its_tenant_alone(doors: dict[str, Door]) -> None:
    search = {"query": "whistles of copper at night", "chunks": True, "expand": False}
    answer = doors["acme"].send("POST", "/search", json.dumps(search), **{"Content-Type": "application/json"}).json()
    hit = answer["results"][0]
    number = int(hit["id"].rpartition("#")[2])
    path = f"/pictures/{quote(hit['doc_id'], safe='')}?chunk={number}"
    drawn = doors["acme"].send("GET", path)
    assert (drawn.status, drawn.headers["Content-Type"]) == (200, "image/png")
    assert yellow(image(drawn.data)) is not None
    again = doors["acme"].send("GET", path, **{"If-None-Match": drawn.headers["ETag"]})
    assert (again.status, again.data) == (304, b"")
    foreign = doors["globex"].send("GET", path)
    unknown = doors["globex"].send("GET", f"/pictures/nothing?chunk={number}")
    assert foreign.status == unknown.status == 404
    said = [one.json()["error"]["message"] for one in (foreign, unknown)]
    assert said[0].replace(hit["doc_id"], "ID") == said[1].replace("nothing", "ID")
    assert doors["globex"].send("GET", path, **{"If-None-Match": drawn.headers["ETag"]}).status == 404
