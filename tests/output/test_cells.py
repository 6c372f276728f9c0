"""Cells of a terminal: widths of characters, and lines that break no word."""

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.output import styled_lines as cells

WORDS = st.text(st.sampled_from("abcé肺 한 .-"), max_size=60)


@pytest.mark.parametrize(
    ("text", "width"),
    [("lung", 4), ("肺の分割", 8), ("한국어", 6), ("\u1112\u1161\u11ab", 2), ("e\u0301", 1), ("ｆｕｌｌ", 8),
     ("👩\u200d🔬", 2), ("❤\ufe0f", 2), ("a\u200bb", 2), ("…·–→›", 5)],
)  # fmt: skip
def test_a_text_takes_the_cells_that_a_terminal_gives_it(text: str, width: int) -> None:
    assert cells.cell_width(text) == width


@given(text=WORDS, most=st.integers(1, 30))
def test_lines_hold_all_words_whole_and_in_order(text: str, most: int) -> None:
    lines = [text[start:end] for start, end in cells.wrap(text, most)]
    assert " ".join(lines).split() == text.split()
    assert all(cells.cell_width(line) <= most or " " not in line for line in lines)


@given(text=WORDS, most=st.integers(2, 30))
def test_lines_that_may_break_words_are_never_too_long(text: str, most: int) -> None:
    lines = [text[start:end] for start, end in cells.wrap(text, most, breaks_words=True)]
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(cells.cell_width(line) <= most for line in lines)


@given(text=WORDS, most=st.integers(5, 40))
def test_a_cut_text_fits_and_is_the_beginning_of_the_whole(text: str, most: int) -> None:
    cut = cells.cut(text, most)
    assert cells.cell_width(cut) <= most
    assert cut == text or (cut.endswith(cells.ELLIPSIS) and text.lstrip().startswith(cut.removesuffix("…").rstrip()))
