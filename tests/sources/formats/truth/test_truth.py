"""Documents made with known contents: pages, labels, order of reading, tables, headings and boxes as they were made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from sources.formats.pdf.drawn import tables_of
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
    made, parsed, _ = read(name, seed)
    tables = tables_of(parsed)
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
