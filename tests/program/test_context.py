"""Neighbours: chunks around a hit as one text of its file, and hits that share it as one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from samples import pieces

from retrieve_cli.contracts import Chunker, Hit, Record, Source
from retrieve_cli.ingest.generation_writer import GenerationWriter
from retrieve_cli.models.encoders.hashed import WordTokenizer
from retrieve_cli.search.answer import Result
from retrieve_cli.search.context import in_context, joined
from retrieve_cli.search.places import content_type
from retrieve_cli.sources.chunking.section import SectionChunker
from retrieve_cli.sources.chunking.window import WindowChunker
from retrieve_cli.sources.folders.docs_folder import FolderSource
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import CHUNKS, OFFSETS, Generation
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.tables import JsonlTable


def prose(topic: str, sentences: int) -> str:
    return " ".join(f"The {topic} step number {at} reads one volume and writes another." for at in range(sentences))


def table(rows: int) -> str:
    lines = [f"| pod{at} | needs {at} cores and a disk | yes |" for at in range(rows)]
    return "\n".join(["| name | what it needs | ready |", "|------|---------------|-------|", *lines])


GUIDE = (
    f"---\ntitle: Guide\n---\n\n# Lungs\n\n{prose('lung', 9)}\n\n\n## Lobes\n{prose('lobe', 5)}\n\n"
    "# End\n\nThat is all.\n"
)
FILES = {
    "a/guide.md": GUIDE,
    "a/note.md": "One short note.\n",
    "b/crlf.md": f"# Windows\n\n{prose('first', 3)}\n\n{prose('second', 3)}\n\n\n{prose('third', 3)}\n"
    # Lines of a sentence: a chunk of a single line does not tell how the others end.
    .replace(". ", ".\n").replace("\n", "\r\n"),
    "b/table.md": f"# Pods\n\n{prose('pod', 4)}\n\n{table(12)}\n\n## After\n\n{prose('later', 4)}\n",
}
INDENTED = {
    "c/list.md": "# List  \n\n" + "".join(f"- {prose('item', 2)}  \n\n    - {prose('part', 2)}\n" for _ in range(4))
}
"""White space of kinds that no chunk tells of."""


@dataclass
class Indexed:
    """A folder of documents, cut and written as a generation; `chunks` tells what was read of it."""

    texts: dict[str, str]
    generation: Generation
    chunks: Counting

    def results(self, rows: Sequence[int]) -> tuple[Result, ...]:
        """Hits of these chunks, best first."""
        return tuple(self._result(row, score=-float(rank)) for rank, row in enumerate(rows))

    def _result(self, row: int, *, score: float) -> Result:
        name = self.generation.chunk_id(row)
        record = self.generation.find_record(name.rpartition("#")[0])
        hit = Hit(name, row, record, score)
        return Result(hit, self.generation.records[record], self.generation.chunks[row], confidence=0.5)

    def widened(self, results: Sequence[Result], window: int, table_window: int | None = None) -> tuple[Result, ...]:
        """The results in context; `chunks.reads` are the reads of this alone."""
        self.chunks.reads = 0
        wider = window if table_window is None else table_window
        return in_context(results, self.chunks, self.generation.starts, window=window, table_window=wider)

    def row(self, name: str) -> int:
        return self.generation.find_chunk(name)

    def size(self, name: str) -> int:
        """How many chunks a record has."""
        record = self.generation.find_record(name)
        return int(self.generation.starts[record + 1] - self.generation.starts[record])


class Counting(JsonlTable):
    """A table that counts its reads."""

    reads = 0

    def _bytes(self, first: int, end: int) -> bytes:
        self.reads += 1
        return super()._bytes(first, end)


def indexed(folder: Path, files: dict[str, str], chunker: Chunker) -> Indexed:
    for name, text in files.items():
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / name).write_bytes(text.encode())
    source: Source = FolderSource(folder / "docs", SandboxedReader(ParsingLimits()), name_weight=2.0)
    writer = GenerationWriter(folder)
    for record in pieces(source):
        assert isinstance(record, Record)
        writer.append(record, list(chunker.chunk(record)), bytes(20))
    writer.finish()
    generation = Generation(folder, Manifest(recipe={}, sources=(), files={}))
    chunks = Counting(folder / CHUNKS, pickles.load(folder / OFFSETS)["chunks"])
    texts = {name: (folder / "docs" / name).read_bytes().decode() for name in files}
    return Indexed(texts, generation, chunks)


SECTION = SectionChunker(WordTokenizer(), max_tokens=512, size=40)
WINDOW = WindowChunker(WordTokenizer(), max_tokens=512, size=40, overlap=12)


@pytest.fixture(scope="module", params=[SECTION, WINDOW], ids=["by section", "overlapping windows"])
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    return indexed(tmp_path_factory.mktemp("context"), FILES, request.param)


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    return indexed(tmp_path_factory.mktemp("sections"), FILES, SECTION)


@dataclass
class Draw:
    """Different hits, by numbers that know nothing of how many chunks there are, and the windows of their context."""

    numbers: list[int]
    window: int
    table_window: int

    def results(self, docs: Indexed) -> tuple[Result, ...]:
        return docs.results(list(dict.fromkeys(number % len(docs.chunks) for number in self.numbers)))

    def widened(self, docs: Indexed) -> tuple[Result, ...]:
        return docs.widened(self.results(docs), self.window, self.table_window)


windows = st.integers(0, 3)
draws = st.builds(Draw, st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=8), windows, windows)


# ------------------------------------------------------------------------------------------------- laws


@given(draws)
def test_a_span_is_the_text_of_its_file_from_its_start_to_its_end(docs: Indexed, draw: Draw) -> None:
    for result in draw.widened(docs):
        span = result.context
        assert span is not None
        text = docs.texts[span.doc_id]
        assert span.text == text[span.start : span.end]
        assert result.text == span.header + span.text
        assert span.start_line == 1 + text.count("\n", 0, span.start)
        assert span.end_line == 1 + text.count("\n", 0, span.end - 1)


@given(draws)
def test_a_span_holds_its_hit_and_never_leaves_its_record(docs: Indexed, draw: Draw) -> None:
    results, widened = draw.results(docs), draw.widened(docs)
    for result in widened:
        span, chunk = result.context, result.chunk
        assert span is not None
        assert span.doc_id == chunk["doc_id"]
        assert 0 <= span.first <= chunk["index"] <= span.last < docs.size(span.doc_id)
        assert chunk["text"] in span.text
        assert (chunk["id"] in span.chunk_ids, len(span)) == (True, len(span.chunk_ids))
    before = {result.hit: (result.record, result.chunk, result.confidence) for result in results}
    assert all(before[each.hit] == (each.record, each.chunk, each.confidence) for each in widened)


@given(draws)
def test_every_hit_is_a_result_or_merged_into_a_better_one_that_shows_it(docs: Indexed, draw: Draw) -> None:
    results, widened = draw.results(docs), draw.widened(docs)
    spans = [result.context for result in widened if result.context is not None]
    ranks = {result.hit.id: rank for rank, result in enumerate(results)}
    seeds = [ranks[result.hit.id] for result in widened]
    assert seeds == sorted(seeds)
    assert sorted([*seeds, *(ranks[name] for span in spans for name in span.merged)]) == sorted(ranks.values())
    for seed, span in zip(seeds, spans, strict=True):
        assert all(name in span.chunk_ids and ranks[name] > seed for name in span.merged)
    shown = [name for span in spans for name in span.chunk_ids]
    assert len(shown) == len(set(shown))


@given(draws)
def test_neighbours_of_results_with_neighbours_are_the_same(docs: Indexed, draw: Draw) -> None:
    once = draw.widened(docs)
    assert docs.widened(once, draw.window, draw.table_window) == once


@given(draws)
def test_a_window_of_0_is_the_text_of_the_hit_and_nothing_is_read_or_merged(docs: Indexed, draw: Draw) -> None:
    results = draw.results(docs)
    widened = docs.widened(results, 0)
    assert [(each.hit, each.text) for each in widened] == [(each.hit, each.text) for each in results]
    assert all(each.text == each.header + each.chunk["text"] for each in results)
    assert docs.chunks.reads == 0


@given(draws)
def test_the_header_of_a_cut_table_stands_once_in_a_span_that_reaches_into_it(sections: Indexed, draw: Draw) -> None:
    for result in sections.widened(draw.results(sections), draw.window):
        body = "| pod0 |" in result.text or result.header != ""
        assert result.text.count("| what it needs |") == (body and "b/table.md" in result.hit.id)


@given(draws)
def test_each_result_costs_one_read_at_most(docs: Indexed, draw: Draw) -> None:
    widened = draw.widened(docs)
    assert docs.chunks.reads == sum(result.context is not None and len(result.context) > 1 for result in widened)


@given(draws)
def test_where_windows_reach_over_whole_records_each_record_is_one_result_and_one_read(
    docs: Indexed, draw: Draw
) -> None:
    results = draw.results(docs)
    widened = docs.widened(results, 1000)
    assert [each.record["id"] for each in widened] == list(dict.fromkeys(each.record["id"] for each in results))
    assert docs.chunks.reads <= len(widened)


# --------------------------------------------------------------------------------------------- examples


def test_hits_whose_windows_touch_are_one_result_and_one_read(sections: Indexed) -> None:
    far, near = sections.row("a/guide.md#3"), sections.row("a/guide.md#0")
    (result,) = sections.widened(sections.results([far, near]), 1)
    assert (result.hit.id, result.hit.score) == ("a/guide.md#3", 0.0)
    assert result.context is not None
    assert (result.context.first, result.context.last, result.context.merged) == (0, 4, ("a/guide.md#0",))
    assert sections.chunks.reads == 1


def test_hits_whose_windows_leave_a_chunk_between_them_stay_apart(sections: Indexed) -> None:
    far, near = sections.row("b/table.md#5"), sections.row("b/table.md#1")
    both = sections.widened(sections.results([far, near]), 1)
    assert [result.hit.id for result in both] == ["b/table.md#5", "b/table.md#1"]
    assert sections.chunks.reads == 2


def test_the_last_chunk_of_a_record_does_not_touch_the_first_of_the_next(sections: Indexed) -> None:
    last, alone = sections.row("a/guide.md#0") + sections.size("a/guide.md") - 1, sections.row("a/note.md#0")
    assert alone == last + 1
    first, second = sections.widened(sections.results([last, alone]), 5)
    assert first.text.endswith("That is all.")
    assert second.text == "One short note."


def test_hits_of_one_record_a_window_of_0_apart_from_a_wide_one_are_shown_once(sections: Indexed) -> None:
    rows = [row for row in range(len(sections.chunks)) if sections.chunks[row]["doc_id"] == "b/table.md"]
    tabular = [row for row in rows if content_type(sections.chunks[row]) == "table"]
    outside = tabular[0] - 1
    (result,) = sections.widened(sections.results([outside, tabular[0]]), 0, 1)
    assert result.context is not None
    assert result.hit.row == outside
    assert result.context.merged == (sections.generation.chunk_id(tabular[0]),)


def test_a_hit_alone_between_two_wide_windows_that_touch_is_merged_with_both(tmp_path: Path) -> None:
    docs = indexed(tmp_path, {"two.md": f"{table(12)}\n\n{prose('pod', 3)}\n\n{table(12)}\n"}, SECTION)
    tabular = [content_type(chunk) == "table" for chunk in docs.chunks]
    between = tabular.index(False)
    assert tabular[between - 2 : between + 2] == [True, True, False, True]
    once = docs.widened(docs.results([between - 2, between, between + 1]), 0, 1)
    assert [each.context and each.context.merged for each in once] == [(f"two.md#{between}", f"two.md#{between + 1}")]


def test_every_chunk_of_a_cut_table_is_of_a_table_and_no_other_is(sections: Indexed) -> None:
    found = {row["text"]: content_type(row) == "table" for row in sections.chunks}
    assert sum(found.values()) >= 3
    assert found == {text: "| pod" in text for text in found}


@pytest.mark.parametrize(
    ("text", "header", "expected"),
    [
        pytest.param("| 1 | 2 |", "Guide\n| a | b |\n|---|---|\n", True, id="a repeated header"),
        pytest.param("| 1 | 2 |", "Guide\n| a | b …\n", True, id="a repeated header, cut short"),
        pytest.param("1 | 2", "Tool: a | b\n---|---\n", True, id="a repeated header in a catalog"),
        pytest.param("a | b\n---|---\n1 | 2", "Guide\n", True, id="a whole table without outer marks"),
        pytest.param("Words.\n\n| a |\n|---|\n| 1 |\n| 2 |", "Guide\n", True, id="rows for the most part"),
        pytest.param("A long line of words in front.\n\n| a |\n|---|\n| 1 |", "Guide\n", False, id="words mostly"),
        pytest.param("Either a | b, or c.", "Guide\n", False, id="a mark in prose"),
        pytest.param("Words.\nEither a | b.", "Guide > a | b\n", False, id="a mark in a heading"),
    ],
)
def test_a_chunk_is_of_a_table_by_what_it_repeats_or_holds(text: str, header: str, expected: bool) -> None:
    assert (content_type({"text": text, "header": header}) == "table") is expected


def test_a_hit_of_a_table_has_the_window_for_tables_and_another_the_other(sections: Indexed) -> None:
    tabular = next(row for row in range(len(sections.chunks)) if content_type(sections.chunks[row]) == "table")
    prose_row = sections.row("a/guide.md#2")
    lengths = [
        [len(each.context) for each in sections.widened(sections.results([tabular, prose_row]), *both) if each.context]
        for both in ((0, 1), (1, 0))
    ]
    assert lengths == [[3, 1], [1, 3]]


def test_white_space_whose_kind_is_not_known_keeps_its_length_and_its_lines(tmp_path: Path) -> None:
    docs = indexed(tmp_path, INDENTED, SECTION)
    (result,) = docs.widened(docs.results([0]), 100)
    span, text = result.context, docs.texts["c/list.md"]
    assert span is not None
    assert len(span) > 3
    assert len(span.text) == span.end - span.start
    assert span.text.split() == text[span.start : span.end].split()
    assert span.text.count("\n") == text.count("\n", span.start, span.end)


def row(index: int, text: str, start: int, **places: Any) -> dict[str, Any]:
    values = {"doc_id": "r", "start_line": 1, "end_line": 1, **places}
    return {**values, "index": index, "text": text, "start": start, "end": start + len(text)}


def test_parts_of_a_catalog_record_are_parted_by_blanks_as_they_have_no_lines() -> None:
    span = joined([row(0, "one", 0), row(1, "two", 4)])
    assert (span.text, span.end, span.end_line) == ("one two", 7, 1)


def test_a_chunk_that_lies_within_the_one_before_adds_nothing() -> None:
    span = joined([row(0, "one two", 0, end_line=3), row(1, "ne", 1, end_line=2), row(2, "two 3", 4, end_line=3)])
    assert (span.text, span.end, span.end_line) == ("one two 3", 9, 3)


def test_a_file_with_line_breaks_of_both_kinds_keeps_the_length_of_each_gap() -> None:
    rows = [row(0, "a\r\nb", 0, end_line=2), row(1, "c", 6, start_line=4, end_line=4)]
    rows.append(row(2, "d", 9, start_line=5, end_line=5))
    assert joined(rows).text == "a\r\nb\n\nc\r\nd"


@pytest.mark.parametrize("lines", [1, 5_000_000])
def test_a_desert_between_two_chunks_is_not_handed_on(lines: int) -> None:
    span = joined([row(0, "one", 0), row(1, "two", 10_000_000, start_line=lines, end_line=lines)])
    assert len(span.text) < 3000
    assert span.text.split() == ["one", "two"]
    assert span.end == 10_000_003
