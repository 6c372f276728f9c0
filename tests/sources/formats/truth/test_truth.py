"""Documents made with known contents: pages, labels, order of reading, tables, headings and boxes as they were made."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import pypdfium2
import pytest
from reportlab.lib.pagesizes import A4
from sources.formats.truth.made import MAKERS
from sources.formats.truth.typesetting import Made

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Layout
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader

SEEDS = (1, 2, 3)
ALL = [(name, seed) for name in MAKERS for seed in SEEDS]


@cache
def read(name: str, seed: int) -> tuple[Made, Parsed, Layout]:
    made = MAKERS[name](seed)
    if made is None:
        pytest.skip("matplotlib brings no font with the glyphs that this document needs")
    parsed = SandboxedReader(ParsingLimits()).parse(made.content, "pdf", name=f"{name}.pdf")
    assert parsed.layout is not None
    return made, parsed, parsed.layout


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Number of words to insert, remove or replace (Levenshtein, 1966)."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys([*one, *other]))}
    row = np.arange(len(other) + 1)
    columns = np.array([numbers[word] for word in other])
    for count, word in enumerate(one, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (columns != numbers[word]))
        row = np.concatenate([[count], best])
        row = np.minimum.accumulate(row - np.arange(len(row))) + np.arange(len(row))
    return int(row[-1])


@pytest.mark.parametrize(("name", "seed"), ALL)
def test_every_word_is_on_its_page_and_pages_are_read_in_order(name: str, seed: int) -> None:
    made, parsed, layout = read(name, seed)
    pages = [words(parsed.text[page.start : page.end]) for page in layout.pages]
    truth = [words(" ".join(page)) for page in made.pages]
    assert [page.index for page in layout.pages] == list(range(1, len(truth) + 1))
    for page, expected in zip(pages, truth, strict=True):
        lost, added = Counter(expected) - Counter(page), Counter(page) - Counter(expected)
        assert sum(lost.values()) + sum(added.values()) <= 0.01 * len(expected), (lost, added)
        assert distance(page, expected) <= 0.01 * len(expected), (name, expected[:40], page[:40])


@pytest.mark.parametrize(("name", "seed"), ALL)
def test_printed_labels_are_those_of_the_document(name: str, seed: int) -> None:
    made, _, layout = read(name, seed)
    if made.labels:
        assert [page.label for page in layout.pages] == made.labels


@pytest.mark.parametrize(("name", "seed"), ALL)
def test_cells_of_ruled_tables_are_in_their_places(name: str, seed: int) -> None:
    made, parsed, layout = read(name, seed)
    blocks = [parsed.text[block.start : block.end] for block in layout.blocks if block.kind == "table"]
    tables = [
        [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.split("\n") if line.strip()]
        for text in blocks
    ]
    tables = [[row for number, row in enumerate(table) if number != 1] for table in tables]
    cells = [cell for table in made.tables for row in table for cell in row]
    right = sum(
        own == cell
        for table, found in zip(made.tables, tables, strict=False)
        for row, found_row in zip(table, found, strict=False)
        for cell, own in zip(row, found_row, strict=False)
    )
    assert len(tables) == len(made.tables)
    assert right >= 0.98 * len(cells)


@pytest.mark.parametrize(("name", "seed"), ALL)
def test_headings_have_their_words_and_their_order_of_levels(name: str, seed: int) -> None:
    made, parsed, layout = read(name, seed)
    blocks = [block for block in layout.blocks if block.kind == "heading"]
    headings = [" ".join(parsed.text[block.start : block.end].split()) for block in blocks]
    assert headings == [title for _, title in made.headings]
    levels = [block.level for block in blocks]
    for (one, mine), (other, its) in zip(
        zip(levels, made.headings, strict=True), zip(levels, made.headings, strict=True), strict=True
    ):
        assert (one < other) == (mine[0] < its[0])


@pytest.mark.parametrize(("name", "seed"), ALL)
def test_blocks_are_in_order_and_hold_all_text(name: str, seed: int) -> None:
    _, parsed, layout = read(name, seed)
    end = 0
    for block in layout.blocks:
        assert end <= block.start < block.end <= len(parsed.text)
        assert not parsed.text[end : block.start].strip()
        end = block.end
    assert not parsed.text[end:].strip()


@pytest.mark.parametrize(("name", "seed"), [each for each in ALL if each[0] != "hebrew"])
def test_the_words_of_a_passage_are_read_again_from_its_boxes(name: str, seed: int) -> None:
    """pdfminer reads the words, without anything that our parser knows."""
    made, parsed, layout = read(name, seed)
    again = other_words(made.content) if name != "rotated" else turned(MAKERS["paper"](seed), 90 * seed)
    asked = agreed = 0
    for start in range(0, len(parsed.text) - 200, 397):
        stretch = re.match(r"\S*\s*((?:\S+\s+){1,30})", parsed.text[start : start + 400])
        if stretch is None:
            continue
        first, last = start + stretch.start(1), start + stretch.end(1)
        boxes = layout.place(first, last).boxes
        expected = list(words(parsed.text[first:last]))
        own = words(" ".join(text for box in boxes for text in inside(again, box)).replace("- ", ""))
        asked += len(expected)
        agreed += max(0, len(expected) - distance(expected, own))
    assert agreed >= 0.995 * asked, (agreed, asked)


def other_words(content: bytes) -> dict[int, list[tuple[str, float, float]]]:
    """By page, the words that a second parser reads, each with the middle of its box as displayed."""
    import pdfplumber

    listed: dict[int, list[tuple[str, float, float]]] = {}
    with pdfplumber.open(io.BytesIO(content)) as file:
        for number, page in enumerate(file.pages, 1):
            x, y = page.cropbox[0], page.cropbox[1]
            listed[number] = [
                (word["text"], (word["x0"] + word["x1"]) / 2 - x, (word["top"] + word["bottom"]) / 2 - y)
                for word in page.extract_words(use_text_flow=True)
            ]
    return listed


def turned(made: Made | None, angle: int) -> dict[int, list[tuple[str, float, float]]]:
    """The words of pages that are displayed turned clockwise: pdfminer does not divide their lines into words."""
    assert made is not None
    width, height = A4
    places = {
        0: lambda x, y: (x, y),
        90: lambda x, y: (height - y, x),
        180: lambda x, y: (width - x, height - y),
        270: lambda x, y: (y, width - x),
    }
    turn = places[angle % 360]
    return {page: [(text, *turn(x, y)) for text, x, y in own] for page, own in other_words(made.content).items()}


def inside(again: dict[int, list[tuple[str, float, float]]], box: tuple[int, float, float, float, float]) -> list[str]:
    page, x0, y0, x1, y1 = box
    return [text for text, x, y in again[page] if x0 <= x <= x1 and y0 <= y <= y1]


def test_the_sizes_of_pages_are_those_displayed() -> None:
    made, _, layout = read("rotated", 1)
    with pypdfium2.PdfDocument(made.content) as file:
        sizes = [file[number].get_size() for number in range(len(file))]
    assert [(round(page.width), round(page.height)) for page in layout.pages] == [
        (round(width), round(height)) for width, height in sizes
    ]
