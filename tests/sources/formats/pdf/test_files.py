"""PDF files as a whole: metadata, files that cannot be read, pages without text, bounded work."""

from __future__ import annotations

from functools import partial

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, FloatObject, NameObject, TextStringObject
from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import blocks, layout_of
from sources.formats.pdf.drawn import changed, column, draw, prose, read
from stalls import ending

from retrieve_cli.errors import BadDocument


def plain(canvas: Canvas, seed: int = 1) -> None:
    column(canvas, 56, 790, prose(seed, 60), width=480)


def scanned(canvas: Canvas) -> None:
    canvas.rect(50, 50, 400, 400, fill=1)


def with_metadata(**values: str) -> bytes:
    return changed(draw(plain), lambda writer: writer.add_metadata({f"/{key}": value for key, value in values.items()}))


def test_metadata_of_the_file_are_read() -> None:
    creation, language = "D:20240229101500+01'00'", {NameObject("/Lang"): TextStringObject("en-GB")}
    named = {"Title": "On Trees", "Author": "A. Oak", "Subject": "Of woods", "Keywords": "oak, elm; fir"}
    content = with_metadata(**named, CreationDate=creation)
    assert read(changed(content, lambda writer: writer.root_object.update(language))).metadata == {
        "pages": 1,
        "title": "On Trees",
        "author": "A. Oak",
        "description": "Of woods",
        "created": "2024-02-29",
        "keywords": ["oak", "elm", "fir"],
        "language": "en-GB",
    }


@pytest.mark.parametrize("title", ["Microsoft Word - draft.doc", "untitled", "paper.dvi", "Slide 1", "paper", "..."])
def test_a_title_that_a_program_made_up_is_not_taken(title: str) -> None:
    assert "title" not in read(with_metadata(Title=title)).metadata


def test_an_encrypted_file_is_rejected_and_one_with_an_empty_password_is_read() -> None:
    with pytest.raises(BadDocument, match="encrypted"):
        read(changed(draw(plain), lambda writer: writer.encrypt("secret", algorithm="RC4-128")))
    locked = changed(draw(plain), lambda writer: writer.encrypt("", "owner", algorithm="RC4-128"))
    assert read(locked).text.split() == prose(1, 60)


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7\n", b"not a file", draw(plain)[:300]])
def test_a_damaged_file_is_rejected_with_a_reason(content: bytes) -> None:
    with pytest.raises(BadDocument, match="damaged"):
        read(content)


def test_pages_without_a_text_layer_are_named() -> None:
    parsed = read(draw(plain, scanned, scanned, plain, scanned))
    assert parsed.notices[0].startswith("pages 2-3, 5 have no text layer")
    assert [page.image_only for page in layout_of(parsed).pages] == [False, True, True, False, True]
    assert read(draw(plain, scanned)).notices[0].startswith("page 2 has no text layer")


def test_a_file_without_any_text_is_rejected_with_the_program_that_adds_it() -> None:
    with pytest.raises(BadDocument, match="text layer") as raised:
        read(draw(scanned, scanned))
    assert "ocrmypdf" in raised.value.hint


def test_a_sidecar_supplies_the_text_of_pages_that_have_none() -> None:
    sidecar = b"ignored\fFirst line\nsecond line\n\nNext paragraph\f"
    parsed = read(draw(plain, scanned, partial(plain, seed=2)), sidecar=sidecar)
    assert [content for _, content in blocks(parsed)][1:3] == ["First line\nsecond line", "Next paragraph"]
    assert parsed.notices == ()
    place = layout_of(parsed).place(parsed.text.index("First"), parsed.text.index("Next"))
    assert (place.page, place.boxes) == (2, ())
    assert read(draw(scanned), sidecar=b"Only text").text == "Only text"


def test_an_outline_that_loops_ends() -> None:
    def page(canvas: Canvas) -> None:
        plain(canvas)
        for number in range(3):
            canvas.bookmarkPage(str(number))
            canvas.addOutlineEntry(f"Entry {number}", str(number), 0)

    def loop(writer: PdfWriter) -> None:
        first = writer.root_object["/Outlines"].get_object()["/First"]
        entry = first.get_object()["/Next"].get_object()
        entry[NameObject("/Next")] = first
        entry[NameObject("/First")] = first

    assert read(changed(draw(page), loop)).text.split() == prose(1, 60)


@pytest.mark.parametrize("box", [(0, 0, 0, 0), (0, 0, 1e30, 1e30), (100, 100, -1e9, 5), (0, 0, 1e-9, 1e-9)])
def test_pages_of_odd_sizes_are_read_without_failure(box: tuple[float, ...]) -> None:
    def resize(writer: PdfWriter) -> None:
        writer.pages[0][NameObject("/MediaBox")] = ArrayObject([FloatObject(value) for value in box])

    content = changed(draw(plain, partial(plain, seed=2)), resize)
    assert prose(2, 60)[0] in read(content).text


def raw_page(stream: bytes) -> bytes:
    """Return a file with a page of this content stream, and an ordinary page."""

    def replace(writer: PdfWriter) -> None:
        contents = DecodedStreamObject()
        contents.set_data(stream)
        writer.pages[0][NameObject("/Contents")] = writer._add_object(contents)

    return changed(draw(plain, partial(plain, seed=2)), replace)


@pytest.mark.parametrize(
    "stream",
    [
        b"BT /F1 1e30 Tf 100 700 Td (huge) Tj ET",
        b"BT /F1 10 Tf 1e-30 0 0 1e-30 100 700 Tm (tiny words here) Tj ET",
        b"BT /F1 10 Tf 0 0 0 0 100 700 Tm (flat words) Tj ET",
        b"BT /F1 10 Tf -10 0 0 10 300 700 Tm (mirrored words) Tj ET",
        b"BT /F1 10 Tf nan nan Td (odd) Tj ET",
    ],
)
def test_text_of_odd_sizes_and_places_does_not_fail(stream: bytes) -> None:
    assert prose(2, 60)[0] in read(raw_page(stream)).text


@pytest.mark.parametrize(
    "stream",
    [
        b"BT /F1 10 Tf 50 700 Td " + b"(ab cd ) Tj " * 30_000 + b"ET",
        b"BT /F1 10 Tf "
        + b"".join(b"1 0 0 1 %d %d Tm (w) Tj " % (n % 500, n * 7 % 800) for n in range(20_000))
        + b"ET",
        b"BT /F1 10 Tf 300 400 Td " + b"(w) Tj -9 0 Td " * 5_000 + b"ET",
    ],
)
def test_a_crowded_page_takes_bounded_time(stream: bytes) -> None:
    with ending():  # it would be minutes if the work grew with the square of the words
        read(raw_page(stream))
