"""Title and abstract of a document: what a query takes from it."""

import pytest

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Block, Kind, Layout
from retrieve_cli.retrieval.queries.abstracts import summary_of

PROSE = "We measured how long mice sleep after a day of hard work in the field."


def laid_out(*blocks: tuple[Kind, int, str], title: str = "") -> Parsed:
    text, placed = "", []
    for kind, level, words in blocks:
        text += "\n\n" if text else ""
        placed.append(Block(len(text), len(text) + len(words), kind, level))
        text += words
    return Parsed(text, Layout(placed), title=title)


def test_the_section_named_abstract_counts_up_to_the_next_heading() -> None:
    parsed = laid_out(
        ("heading", 1, "On mice"),
        ("paragraph", 0, "A. Author, B. Author, University of Somewhere, Department of Sleep, Street 7"),
        ("paragraph", 0, PROSE + " Contact us."),
        ("heading", 2, "1. ABSTRACT"),
        ("paragraph", 0, "Mice sleep."),
        ("heading", 3, "Background"),
        ("paragraph", 0, "It was dark."),
        ("heading", 2, "Introduction"),
        ("paragraph", 0, "Long ago."),
    )
    assert summary_of(parsed) == ("On mice", "Mice sleep. Background It was dark.", "abstract")


@pytest.mark.parametrize("label", ["Abstract: ", "Abstract— ", "**Abstract.** ", "Zusammenfassung\n", "SUMMARY – "])
def test_a_paragraph_may_begin_with_the_label(label: str) -> None:
    parsed = laid_out(("paragraph", 0, PROSE), ("paragraph", 0, label + "Mice sleep long."))
    assert summary_of(parsed).abstract == "Mice sleep long."


@pytest.mark.parametrize("text", ["Abstraction is hard.", "Summary statistics of mice are here.", "Abstract 3"])
def test_words_that_only_begin_like_a_label_are_none(text: str) -> None:
    assert summary_of(laid_out(("paragraph", 0, text), ("paragraph", 0, PROSE))).abstract == PROSE


def test_without_a_label_the_first_paragraph_of_prose_counts() -> None:
    authors = "Ann Author and Bob Author and Carol Author, The University Of Somewhere, Germany"
    parsed = laid_out(("paragraph", 0, authors), ("paragraph", 0, "No. 7"), ("list", 0, PROSE), ("paragraph", 0, PROSE))
    assert summary_of(parsed) == ("", PROSE, "first paragraph")


def test_a_line_of_the_table_of_contents_is_no_prose_if_there_is_some() -> None:
    entry = "6 Package maintainer scripts and their installation procedure in detail 49"
    assert summary_of(laid_out(("paragraph", 0, entry), ("paragraph", 0, PROSE))).abstract == PROSE
    assert summary_of(laid_out(("paragraph", 0, entry))).abstract == entry


def test_languages_without_spaces_have_prose() -> None:
    text = "これは睡眠に関する長い論文の最初の段落であり、マウスがどのくらい眠るかについて詳しく述べている文章です。"
    assert summary_of(laid_out(("paragraph", 0, text))).abstract == text


def test_a_long_abstract_is_cut_between_words() -> None:
    words = summary_of(laid_out(("heading", 1, "Abstract"), ("paragraph", 0, "sleeping " * 5000))).abstract.split()
    assert set(words) == {"sleeping"}
    assert 80 < len(words) <= 100
    assert len(summary_of(laid_out(("paragraph", 0, "睡" * 5000))).abstract) == 800


def test_markdown_and_text_are_read_by_their_marks() -> None:
    parts = ("---\ntitle: x\n---\n# On mice", f"```\n# {PROSE}\n```", "## Abstract", "Mice sleep.", "## Next", PROSE)
    assert summary_of(Parsed("\n\n".join(parts), body_start=17)) == ("On mice", "Mice sleep.", "abstract")
    assert summary_of(Parsed(f"On mice\n=======\n\n- {PROSE}\n\n{PROSE}")) == ("On mice", PROSE, "first paragraph")
    assert summary_of(Parsed("", metadata={"title": "Only"})) == ("Only", "", "")


def test_the_title_is_that_of_the_metadata_then_of_the_text() -> None:
    blocks: tuple[Kind, int, str] = ("heading", 1, "Heading")
    assert summary_of(laid_out(blocks)).title == "Heading"
    assert summary_of(laid_out(blocks, title="Found")).title == "Found"
    assert summary_of(Parsed("x", metadata={"title": "Given"}, title="Found")).title == "Given"
    assert summary_of(Parsed("x", metadata={"title": ["odd"]}, title="Found")).title == "Found"
