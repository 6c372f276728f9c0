"""Title and abstract of a document: what a query takes from it."""

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


def test_without_a_label_the_first_paragraph_of_prose_counts() -> None:
    authors = "Ann Author and Bob Author and Carol Author, The University Of Somewhere, Germany"
    parsed = laid_out(("paragraph", 0, authors), ("paragraph", 0, "No. 7"), ("list", 0, PROSE), ("paragraph", 0, PROSE))
    assert summary_of(parsed) == ("", PROSE, "first paragraph")


def test_a_long_abstract_is_cut_between_words() -> None:
    words = summary_of(laid_out(("heading", 1, "Abstract"), ("paragraph", 0, "sleeping " * 5000))).abstract.split()
    assert set(words) == {"sleeping"}
    assert 80 < len(words) <= 100
    assert len(summary_of(laid_out(("paragraph", 0, "睡" * 5000))).abstract) == 800


def test_the_title_is_that_of_the_metadata_then_of_the_text() -> None:
    blocks: tuple[Kind, int, str] = ("heading", 1, "Heading")
    assert summary_of(laid_out(blocks)).title == "Heading"
    assert summary_of(laid_out(blocks, title="Found")).title == "Found"
    assert summary_of(Parsed("x", metadata={"title": "Given"}, title="Found")).title == "Given"
    assert summary_of(Parsed("x", metadata={"title": ["odd"]}, title="Found")).title == "Found"
