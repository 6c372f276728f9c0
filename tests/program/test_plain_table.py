"""What is printed into a pipe is what rich lays out there, and rich is loaded only for a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from program.asking import indexed
from rich.console import Console
from rich.text import Text
from samples import Program

from retrieve_cli.output import answer_table, plain_table
from retrieve_cli.output.plain_table import Column

COLUMNS = (
    Column("#", right=True),
    Column("name", ratio=3, fold=True),
    Column("score", right=True),
    Column("why"),
    Column("snippet", ratio=7),
)
NARROW = st.text(st.sampled_from("aaaabcXé я–…“.-    "), max_size=70)
LONG = st.lists(st.text("ab-", min_size=1, max_size=60), max_size=6).map(" ".join)
TEXT = NARROW | LONG | st.lists(NARROW | LONG, max_size=4).map("\n".join)
SHORT = st.text("ab #(1", max_size=24)
WIDE = st.text(st.characters(), max_size=20)


def by_rich(rows: Sequence[Sequence[str]], width: int) -> str:
    file = io.StringIO()
    table = answer_table.grid(COLUMNS)
    for row in rows:
        table.add_row(row[0], Text(row[1]), row[2], Text(row[3]), Text(row[4]))
    Console(file=file, width=width, highlight=False, color_system=None).print(table)
    return file.getvalue()


def rows_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, ...]]]:
    numbers = st.integers(1, 10**6).map(str)
    why = st.lists(SHORT, min_size=1, max_size=3).map("\n".join)
    return st.lists(st.tuples(numbers, texts, numbers, why, texts), min_size=1, max_size=4)


@settings(max_examples=400)
@given(rows=rows_of(TEXT), width=st.integers(40, 140))
def test_a_table_of_narrow_characters_is_laid_out_as_by_rich(rows: list[tuple[str, ...]], width: int) -> None:
    found = plain_table.table(COLUMNS, rows, width=width)
    assert found == by_rich(rows, width) or (found is None and width < 90)


@given(rows=rows_of(WIDE))
def test_whatever_may_be_wider_or_narrower_is_left_to_rich_or_laid_out_alike(rows: list[tuple[str, ...]]) -> None:
    found = plain_table.table(COLUMNS, rows, width=120)
    assert found is None or found == by_rich(rows, 120)


def test_every_character_that_is_laid_out_is_one_cell_wide_to_rich() -> None:
    chars = [char for char in map(chr, range(0x3000)) if plain_table._ONE_CELL.fullmatch(char) and char != "\n"]
    rows = [("1", f"{char}|" * 9, "1", "w", f"{char}|" * 9) for char in chars]
    assert len(chars) > 800
    assert plain_table.table(COLUMNS, rows, width=120) == by_rich(rows, 120)


@pytest.mark.parametrize("text", ["肺", "e\u0301", "👩\u200d🔬", "a\tb", "\xad", "\x1b[31m"])
def test_wide_and_joining_characters_are_left_to_rich(text: str) -> None:
    assert plain_table.table(COLUMNS, [("1", "a", "1", "w", text)], width=120) is None


def test_an_answer_is_the_same_with_and_without_rich(retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "lung " + "segmentation, CT; " * 9
    names = ["Lung tool " * (1 + 4 * number) for number in range(4)]
    indexed(retrieve, [{"id": f"tool-{at}", "name": name, "description": text} for at, name in enumerate(names)])
    asked = ("query", "lung segmentation", "--explain", "--mode", "bm25", "--format", "table")
    plain = retrieve(*asked).out
    monkeypatch.setattr(plain_table, "table", lambda *_, **__: None)
    assert retrieve(*asked).out == plain
    assert plain.count("tool-") > 7


def test_text_into_a_pipe_loads_no_rich(index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)  # an import of it fails
    for form in ("text", "table"):
        assert "lungs" in retrieve("query", "lungs", "--explain", "--timing", "--format", form).out


def test_a_word_between_colons_is_no_picture(index: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin("brain :dna: volumes\n")
    assert retrieve("query", "-").out.startswith("1: brain :dna: volumes\n")
