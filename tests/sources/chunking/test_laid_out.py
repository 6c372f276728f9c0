"""Chunks of documents whose structure their parser has told: cut at its blocks, with their places."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Chunk, Record, Tokenizer
from retrieve_cli.contracts.layout import Block, DocumentPage, Kind, Layout
from retrieve_cli.sources.chunking.section import SectionChunker
from retrieve_cli.sources.chunking.window import WindowChunker


def record(*parts: tuple[Kind, int, str, int], alone: bool = False) -> Record:
    """A document of blocks, each with its kind, the level of a heading, its text and its page."""
    text, blocks, spans = "", [], {}
    for kind, level, words, page in parts:
        text += "\n\n" if text else ""
        blocks.append(Block(len(text), len(text) + len(words), kind, level))
        spans.setdefault(page, [len(text), 0])
        text += words
        spans[page][1] = len(text)
    pages = [
        DocumentPage(number, "", 100, 100, start, end, alone=alone) for number, (start, end) in spans.items() if number
    ]
    return Record("a", "A", text, "pdf", "a.pdf", layout=Layout(blocks, pages))


@pytest.fixture
def chunker(words: Tokenizer) -> SectionChunker:
    return SectionChunker(words, max_tokens=64)


def chunks(chunker: SectionChunker, document: Record) -> list[Chunk]:
    made = list(chunker.chunk(document))
    for chunk in made:
        assert document.text[chunk.start : chunk.end] == chunk.text
    assert all(before.end <= after.start for before, after in pairwise(made))
    return made


def test_headings_of_the_layout_name_the_sections(chunker: SectionChunker) -> None:
    prose: tuple[Kind, int, str, int] = ("paragraph", 0, "word " * 40, 0)
    document = record(("heading", 1, "One", 0), prose, ("heading", 2, "Inner", 0), prose)
    assert {chunk.section for chunk in chunks(chunker, document)} == {"One", "One > Inner"}


def test_marks_of_markdown_mean_nothing_in_a_paragraph_of_a_layout(chunker: SectionChunker) -> None:
    document = record(("paragraph", 0, "# 5 of them\n- were counted", 0), ("paragraph", 0, "word " * 60, 0))
    assert {chunk.section for chunk in chunks(chunker, document)} == {None}


def test_short_sections_of_one_page_share_a_chunk_and_those_of_two_pages_do_not(chunker: SectionChunker) -> None:
    def sections(*pages: int) -> list[str | None]:
        parts: list[tuple[Kind, int, str, int]] = []
        for number, page in enumerate(pages):
            parts += [("heading", 1, f"S{number}", page), ("paragraph", 0, "ab cd.", page)]
        return [chunk.section for chunk in chunks(chunker, record(*parts))]

    assert sections(1, 1) == ["S0, S1"]
    assert sections(1, 2) == ["S0", "S1"]
    assert sections(0, 0) == ["S0, S1"]


def test_a_cut_table_of_a_layout_repeats_its_header(chunker: SectionChunker) -> None:
    table = "| name | value |\n|---|---|\n" + "\n".join(f"| row {number} | {number} |" for number in range(30))
    made = chunks(chunker, record(("heading", 1, "T", 0), ("table", 0, table, 0)))
    assert len(made) > 2
    assert all(chunk.table_header == "| name | value |\n|---|---|\n" for chunk in made[1:])


SLIDE = st.tuples(
    st.sampled_from(["", "One", "Two"]), st.sampled_from(["", "few words", "word " * 30, "word " * 90])
).filter(any)


@given(slides=st.lists(SLIDE, min_size=2, max_size=8), size=st.sampled_from([40, 64, 400]))
def test_no_chunk_goes_across_the_edge_of_a_slide(words: Tokenizer, slides: list[tuple[str, str]], size: int) -> None:
    parts: list[tuple[Kind, int, str, int]] = []
    for number, (heading, text) in enumerate(slides, 1):
        parts += [("heading", 1, heading, number)] if heading else []
        parts += [("paragraph", 0, text.strip(), number)] if text else []
    document = record(*parts, alone=True)
    assert document.layout is not None
    for chunker in (SectionChunker(words, max_tokens=size), WindowChunker(words, max_tokens=size, overlap=8)):
        places = [document.layout.place(chunk.start, chunk.end) for chunk in chunker.chunk(document)]
        assert {place.page for place in places} == {page.index for page in document.layout.pages}
        assert all(place.page == place.page_end for place in places)
