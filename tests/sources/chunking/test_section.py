from __future__ import annotations

from collections.abc import Callable

import pytest

from retrieve_cli.contracts import Chunk, Record, Tokenizer
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.chunking.section import SectionChunker

Make = Callable[..., Record]
Check = Callable[..., list[Chunk]]

SENTENCE = "The quick brown fox jumps over the lazy dog again. "


def test_a_file_of_one_section_that_fits_is_one_chunk(words: Tokenizer, record: Make) -> None:
    (chunk,) = SectionChunker(words, max_tokens=64).chunk(record("# Pods\n\nA pod runs.\n\n* one\n* two\n"))
    assert (chunk.section, chunk.header) == ("Pods", "Guide > Pods\n")
    assert chunk.text == "# Pods\n\nA pod runs.\n\n* one\n* two"


def test_each_section_is_a_chunk_that_begins_with_its_heading_under_its_path(words: Tokenizer, record: Make) -> None:
    text = f"# Pods\n\n{SENTENCE}\n\n## Lifecycle\n\n{SENTENCE}"
    chunks = list(SectionChunker(words, max_tokens=64).chunk(record(text)))
    assert [chunk.section for chunk in chunks] == ["Pods", "Pods > Lifecycle"]
    assert [chunk.header for chunk in chunks] == ["Guide > Pods\n", "Guide > Pods > Lifecycle\n"]
    assert chunks[1].text.startswith("## Lifecycle\n")
    of_that_name = SectionChunker(words, max_tokens=64).chunk(record(text, name="Pods"))
    assert [chunk.header for chunk in of_that_name] == ["Pods\n", "Pods > Lifecycle\n"]


def test_lines_are_counted_from_the_start_of_the_file(words: Tokenizer, record: Make) -> None:
    text = "---\r\ntitle: x\r\n---\r\n\r\n# A\r\n\r\ntext\r\nmore\r\n"
    (chunk,) = SectionChunker(words, max_tokens=64).chunk(record(text.replace("---\r\ntitle: x\r\n---", "\r\n\r\n")))
    assert (chunk.start_line, chunk.end_line) == (5, 8)


def test_tiny_neighbours_of_one_parent_share_a_chunk(words: Tokenizer, record: Make) -> None:
    text = f"# A\n\n{SENTENCE * 3}\n\n## B\n\none\n\n## C\n\ntwo\n\n## D\n\n{SENTENCE * 3}"
    chunks = list(SectionChunker(words, max_tokens=80).chunk(record(text)))
    assert [chunk.section for chunk in chunks] == ["A", "A > B, C", "A > D"]
    assert [chunk.sections for chunk in chunks] == [(), ("A > B", "A > C"), ()]
    assert chunks[1].header == "Guide > A > B, C\n"


def test_a_heading_stays_with_the_text_behind_it_and_not_with_a_tiny_section_before(
    words: Tokenizer, record: Make
) -> None:
    text = "# A\n\n## B\n\none\n\n## C\n\n### D\n\ntwo"
    chunks = list(SectionChunker(words, max_tokens=80).chunk(record(text)))
    assert [(chunk.section, chunk.text.split("\n")[0]) for chunk in chunks] == [("A > B", "# A"), ("A > C > D", "## C")]


def test_tiny_neighbours_of_different_parents_do_not(words: Tokenizer, record: Make) -> None:
    text = "# A\n\n## B\n\none\n\n# C\n\n## D\n\ntwo"
    sections = [chunk.section for chunk in SectionChunker(words, max_tokens=80).chunk(record(text))]
    assert sections == ["A > B", "C > D"]


def test_a_heading_without_text_goes_with_what_follows(words: Tokenizer, record: Make) -> None:
    text = f"# A\n\n## B\n\n### C\n\n{SENTENCE}"
    (chunk,) = SectionChunker(words, max_tokens=64).chunk(record(text))
    assert (chunk.section, chunk.text) == ("A > B > C", text.strip())


def test_a_heading_is_never_left_alone_above_a_block_that_must_be_cut(words: Tokenizer, record: Make) -> None:
    for block in (SENTENCE * 20, "```\n" + "a line of code\n" * 50 + "```", "- an item\n" * 50, "> quoted\n" * 50):
        first = next(iter(SectionChunker(words, max_tokens=64).chunk(record(f"# A\n\n{block}"))))
        assert len(first.text.splitlines()) > 1


def test_blocks_that_fit_are_kept_whole(words: Tokenizer, record: Make) -> None:
    fence = "```\n" + "a line of code\n" * 9 + "```"
    table = "| a | b |\n|---|---|\n" + "| one | two |\n" * 4
    text = "\n\n".join([SENTENCE * 4, fence, SENTENCE * 4, table, SENTENCE * 4])
    chunks = list(SectionChunker(words, max_tokens=64).chunk(record(text)))
    assert sum(fence in chunk.text for chunk in chunks) == 1
    assert sum(table.strip() in chunk.text for chunk in chunks) == 1


def test_a_cut_table_repeats_its_header(words: Tokenizer, record: Make) -> None:
    header = "| name | kind |\n|------|:----:|\n"
    text = "# A\n\n" + header + "".join(f"| row {number} | x |\n" for number in range(40))
    first, *others = SectionChunker(words, max_tokens=90).chunk(record(text))
    assert first.header == "Guide > A\n"
    assert len(others) > 2
    assert all(chunk.header == "Guide > A\n" + header for chunk in others)
    assert [first.table_header, *{chunk.table_header for chunk in others}] == ["", header]
    assert all(line.startswith("| row") and line.endswith("|") for chunk in others for line in chunk.text.splitlines())


def test_a_cut_code_fence_is_cut_between_lines(words: Tokenizer, record: Make) -> None:
    text = "```\n" + "a line of code\n" * 50 + "```"
    chunks = list(SectionChunker(words, max_tokens=40).chunk(record(text)))
    assert len(chunks) > 3
    assert {line for chunk in chunks for line in chunk.text.splitlines()} == {"```", "a line of code"}


def test_a_cut_list_is_cut_between_items(words: Tokenizer, record: Make) -> None:
    text = "".join(f"{number}. item\n   and more\n   - nested\n" for number in range(20))
    chunks = list(SectionChunker(words, max_tokens=40).chunk(record(text)))
    assert len(chunks) > 3
    assert all(chunk.text[0].isdigit() for chunk in chunks)


def test_a_cut_paragraph_is_cut_between_sentences(words: Tokenizer, record: Make) -> None:
    chunks = list(SectionChunker(words, max_tokens=50).chunk(record(SENTENCE * 20)))
    assert len(chunks) > 3
    assert all(chunk.text.startswith("The ") and chunk.text.endswith("again.") for chunk in chunks)


def test_a_lead_in_stays_with_what_it_leads_to(words: Tokenizer, record: Make) -> None:
    text = f"{SENTENCE * 3}\n\nThe values are:\n\n* one of the values\n* two of the values\n\n{SENTENCE * 3}"
    chunks = list(SectionChunker(words, max_tokens=64).chunk(record(text)))
    assert any("are:\n\n* one" in chunk.text for chunk in chunks)


def test_the_size_wished_for_is_kept_below_what_the_encoder_takes(words: Tokenizer, record: Make) -> None:
    chunks = list(SectionChunker(words, max_tokens=200, size=40).chunk(record(SENTENCE * 40)))
    assert 20 < max(chunk.tokens for chunk in chunks) <= 40


def test_the_prefix_of_the_encoder_is_counted(words: Tokenizer, record: Make, lawful: Check) -> None:
    prefix = "Represent the passage for retrieval: "
    made, chunker = record(SENTENCE * 20), SectionChunker(words, max_tokens=50, prefix=prefix)
    assert len(lawful(made, chunker.chunk(made), words, max_tokens=50, prefix=prefix)) > 5


def test_a_giant_title_is_shortened_to_a_quarter(words: Tokenizer, record: Make) -> None:
    made = record(SENTENCE * 20, name="A giant title " * 500)
    for chunk in SectionChunker(words, max_tokens=64).chunk(made):
        assert 8 < words.count(chunk.header) <= 16
        assert chunk.header.startswith("A giant title")
        assert chunk.header.endswith("…\n")


def test_a_catalog_record_that_fits_is_itself(words: Tokenizer, record: Make) -> None:
    made = record("Tool: it # segments.\n\n# Not a section", name="Tool", kind="catalog", line=9)
    (chunk,) = SectionChunker(words, max_tokens=64).chunk(made)
    assert (chunk.text, chunk.header, chunk.section) == (made.text, "", None)
    assert (chunk.start_line, chunk.end_line) == (9, 9)


def test_later_chunks_of_a_catalog_record_begin_with_its_name(words: Tokenizer, record: Make) -> None:
    made = record("Tool: " + SENTENCE * 20, name="Tool", kind="catalog")
    first, *others = SectionChunker(words, max_tokens=64).chunk(made)
    assert first.header == ""
    assert {chunk.header for chunk in others} == {"Tool: "}
    assert {chunk.section for chunk in others} == {None}


def test_a_size_above_what_the_encoder_takes_or_a_prefix_that_leaves_no_room_is_refused(words: Tokenizer) -> None:
    with pytest.raises(UsageError, match="300"):
        SectionChunker(words, max_tokens=256, size=300)
    with pytest.raises(UsageError, match="no room"):
        SectionChunker(words, max_tokens=64, prefix="word " * 60)
