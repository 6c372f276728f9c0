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
from retrieve_cli.ingest.segment_writer import NewRecord, SegmentWriter
from retrieve_cli.models.encoders.hashed import WordTokenizer
from retrieve_cli.search.answer import Result
from retrieve_cli.search.context import in_context, joined
from retrieve_cli.sources.chunking.section import SectionChunker
from retrieve_cli.sources.chunking.window import WindowChunker
from retrieve_cli.sources.folders.docs_folder import FolderSource
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader
from retrieve_cli.storage.generation import Generation, open_unpublished
from retrieve_cli.storage.manifest import FileEntry, Manifest
from retrieve_cli.storage.recipe import Recipe


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
        record = self.generation.exact_row(name.rpartition("#")[0])
        assert record is not None
        hit = Hit(name, row, record, score)
        return Result(hit, self.generation.records[record], self.generation.chunks[row], confidence=0.5)

    def widened(self, results: Sequence[Result], window: int, table_window: int | None = None) -> tuple[Result, ...]:
        """The results in context; `chunks.reads` are the reads of this alone."""
        self.chunks.reads = 0
        wider = window if table_window is None else table_window
        return in_context(results, self.chunks, self.generation.starts, window=window, table_window=wider)

    def row(self, name: str) -> int:
        row = self.generation.chunk_row(name)
        assert row is not None
        return row

    def size(self, name: str) -> int:
        """How many chunks a record has."""
        record = self.generation.exact_row(name)
        assert record is not None
        return int(self.generation.starts[record + 1] - self.generation.starts[record])


class Counting:
    """Rows of chunks that count their reads."""

    def __init__(self, rows: Any) -> None:
        self._rows, self.reads = rows, 0

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, first: int, end: int) -> Any:
        self.reads += 1
        return self._rows.rows(first, end)


def indexed(folder: Path, files: dict[str, str], chunker: Chunker) -> Indexed:
    for name, text in files.items():
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / name).write_bytes(text.encode())
    source: Source = FolderSource(folder / "docs", SandboxedReader(ParsingLimits()), name_weight=2.0)
    writer = SegmentWriter(folder)
    texts = {}
    for record in pieces(source):
        assert isinstance(record, Record)
        texts[record.id] = record.text
        writer.add([NewRecord(record, list(chunker.chunk(record)), bytes(20))])
    files = {name: FileEntry("", (folder / name).stat().st_size, rows) for name, rows in writer.finish().items()}
    generation = open_unpublished(folder, Manifest(recipe=Recipe(), sources=(), files=files))
    return Indexed(texts, generation, Counting(generation.chunks))


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
def test_a_span_is_the_text_of_its_document_from_its_start_to_its_end(docs: Indexed, draw: Draw) -> None:
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


# --------------------------------------------------------------------------------------------- examples


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


@pytest.mark.parametrize("lines", [1, 5_000_000])
def test_a_desert_between_two_chunks_is_not_handed_on(lines: int) -> None:
    span = joined([row(0, "one", 0), row(1, "two", 10_000_000, start_line=lines, end_line=lines)])
    assert len(span.text) < 3000
    assert span.text.split() == ["one", "two"]
    assert span.end == 10_000_003
