"""Slides as pages: titles, lists, tables, groups, charts, notes; and packages that are out of bounds."""

from __future__ import annotations

import io
import zipfile

import pytest
from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from sources.formats.layouts import layout_of, levelled, read

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits

BOX = Inches(1), Inches(1), Inches(4), Inches(2)


@pytest.fixture(scope="module")
def deck() -> bytes:
    """A title slide, a list with notes, a table with merged cells, a hidden slide without a title, and a picture."""
    deck = Presentation()
    layouts = deck.slide_layouts
    slide = deck.slides.add_slide(layouts[0])
    slide.shapes.title.text, slide.placeholders[1].text = "Kettles & lime", "A report"
    slide = deck.slides.add_slide(layouts[1])
    slide.shapes.title.text, frame = "Steps", slide.placeholders[1].text_frame
    frame.text = "fill"
    for level, words in ((1, "# water"), (2, "cold"), (0, "boil")):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = words, level
    slide.notes_slide.notes_text_frame.text = "Take care\nof the steam"
    slide = deck.slides.add_slide(layouts[5])
    slide.shapes.title.text = "Doses"
    table = slide.shapes.add_table(3, 3, *BOX).table
    for row, words in enumerate(("dose g ml", "lime 1 2", "- 3 4")):
        for column, word in enumerate(words.split()):
            table.cell(row, column).text = word.strip("-")
    table.cell(1, 0).merge(table.cell(2, 0))
    slide = deck.slides.add_slide(layouts[6])
    slide.element.set("show", "0")
    frame = slide.shapes.add_group_shape().shapes.add_textbox(*BOX).text_frame
    for text, rise in (("10", "0"), ("3", "30000"), (" cups", "0")):
        run = frame.paragraphs[0].add_run()
        run.text = text
        run._r.get_or_add_rPr().set("baseline", rise)
    data = CategoryChartData()
    data.categories = ["May", "June"]
    data.add_series("cups", (1.5, None))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *BOX, data).chart
    chart.has_title, chart.chart_title.text_frame.text = True, "By month"
    picture, target = io.BytesIO(), io.BytesIO()
    Image.new("L", (1, 1)).save(picture, "png")
    deck.slides.add_slide(layouts[6]).shapes.add_picture(picture, *BOX)
    deck.core_properties.author, deck.core_properties.keywords = "Ada", "tea; water"
    deck.save(target)
    return target.getvalue()


def test_a_slide_is_a_page_with_its_title_lists_tables_charts_and_notes(deck: bytes) -> None:
    made = read("pptx", deck)
    assert levelled(made) == [
        ("heading", 1, "Kettles & lime"), ("paragraph", 0, "A report"), ("heading", 2, "Steps"),
        ("list", 0, "- fill\n  - # water\n    - cold\n- boil"), ("paragraph", 0, "Notes: Take care\nof the steam"),
        ("heading", 2, "Doses"), ("table", 0, "| dose | g | ml |\n|---|---|---|\n| lime | 1 | 2 |\n| lime | 3 | 4 |"),
        ("heading", 2, "Slide 4"), ("paragraph", 0, "10^3 cups"), ("paragraph", 0, "By month"),
        ("paragraph", 0, "cups May June 1.5"),
    ]  # fmt: skip
    pages = layout_of(made).pages
    assert [(page.index, page.alone, page.image_only) for page in pages] == [(n, True, n == 5) for n in range(1, 6)]
    assert [made.text[page.start : page.end].partition("\n")[0] for page in pages[1:4]] == ["Steps", "Doses", "Slide 4"]
    assert (pages[0].width, pages[0].height) == (720, 540)
    assert made.title == "Kettles & lime"
    assert {"author": "Ada", "keywords": ["tea", "water"]}.items() <= made.metadata.items()
    assert "title" not in made.metadata  # "PowerPoint Presentation"
    assert [(text.reason, text.page) for text in made.dropped] == [("picture", 5)]
    assert made.notices == ("1 of 5 slides is hidden: indexed as well",)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("ppt/slides/slide1.xml", b"\0" * 40_000_000, "times its size"),
        ("ppt/slides/slide1.xml", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "document type"),
        ("ppt/slides/slide1.xml", b"<a/>", "not a complete presentation"),
        ("ppt/presentation.xml", b"<a/>", "not a complete presentation"),
    ],
)
def test_a_package_that_is_damaged_or_out_of_bounds_is_rejected(
    deck: bytes, name: str, content: bytes, reason: str
) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(deck)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            new.writestr(member, content if member == name else old.read(member))
    with pytest.raises(BadDocument, match=reason):
        read("pptx", target.getvalue())


def test_slides_are_counted(deck: bytes) -> None:
    with pytest.raises(BadDocument, match="5 slides; the limit is 2"):
        read("pptx", deck, ParsingLimits(max_pages=2))
