from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from samples import DATA

from retrieve_cli.contracts import Chunk, Record, Tokenizer
from retrieve_cli.sources.chunking.section import SectionChunker
from retrieve_cli.sources.chunking.window import WindowChunker

Check = Callable[..., list[Chunk]]

DOCS = DATA / "kubernetes-docs" / "markdown"


@pytest.fixture(scope="module")
def documents() -> list[Record]:
    files = sorted(DOCS.rglob("*.md"))[::20][:60]
    if not files:
        pytest.skip(f"the documents of the collection kubernetes-docs are not at {DOCS}")
    records = []
    for file in files:
        text = file.read_bytes().decode("utf-8", errors="replace")
        records.append(Record(id=file.name, name=file.stem, text=text, kind="markdown", source=file.name))
    return records


@pytest.mark.parametrize("chunker", [SectionChunker, WindowChunker])
def test_chunks_of_real_documents_keep_the_laws(
    documents: list[Record],
    minilm: Tokenizer,
    lawful: Check,
    chunker: type[SectionChunker | WindowChunker],
) -> None:
    made = chunker(minilm, max_tokens=256)
    for record in documents:
        lawful(record, made.chunk(record), minilm, max_tokens=256)


def test_sections_of_real_documents_begin_with_their_heading(documents: list[Record], minilm: Tokenizer) -> None:
    made = SectionChunker(minilm, max_tokens=256)
    headed = 0
    for record in documents:
        seen: set[str] = set()
        for chunk in made.chunk(record):
            innermost = chunk.section and chunk.section.split(" > ")[-1]
            if innermost and chunk.section not in seen and re.fullmatch(r"[\w ]+", innermost):
                headed += innermost in chunk.text
                assert innermost in chunk.text.replace("`", "").replace("**", "") or chunk.section in seen
            seen.add(chunk.section or "")
    assert headed > 100
