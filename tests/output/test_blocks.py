"""The answer of `query` as blocks: what stands where, at every width, at a terminal and in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from samples import Program, write_catalog
from terminals import at_terminal

from retrieve_cli.output.plain_text import significant
from retrieve_cli.output.reasons import path_in_words
from retrieve_cli.output.styled_lines import LineRenderer, StyledText, address, file_address

WIDTHS = (40, 80, 120)
NAMES = ("Whole-slide", "肺分割ツール", "Name of several words that is longer than a narrow line", "x" * 50)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
GUIDE = "# Reach\n\n## Deep section of a guide\n\nIt opens | pipes. A **password** is rotated by hand.\n"
DEEP = "a-folder-with-a-long-name/another-folder-with-a-long-name/a-guide-to-passwords.md"


@pytest.fixture
def guides(tmp_path: Path, retrieve: Program) -> Path:
    path = tmp_path / "docs" / DEEP
    path.parent.mkdir(parents=True)
    path.write_text(GUIDE)
    assert retrieve("build", "--docs-dir", "docs").code == 0
    return path


@pytest.fixture
def named(tmp_path: Path, retrieve: Program) -> list[dict[str, Any]]:
    """An index of records with names that are hard to lay out."""
    text = "A lung is segmented 肺の分割です。 " * 9
    records = [
        {"id": f"r{at}", "name": name, "description": text, "url": f"https://x.org/{at}"}
        for at, name in enumerate(NAMES)
    ]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "named.jsonl", records)).code == 0
    return records


def test_a_record_is_a_block_of_name_address_score_sentence_and_reasons(index: Path, retrieve: Program) -> None:
    lines = retrieve("query", "stitch tiles", "-k", "1", "--mode", "bm25").out.splitlines()
    score = retrieve("query", "stitch tiles", "-k", "1", "--mode", "bm25", "--json").json["results"][0]["score"]
    assert lines == [
        f"{' 1  TileJoin  id stitch  example.org/tilejoin'.ljust(100 - len(significant(score)))}{significant(score)}",
        "    Stitches microscope tiles into one large mosaic image.",
        "    bm25 #1",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_name_path_or_address_is_broken_at_any_width(
    guides: Path, named: list[dict[str, Any]], retrieve: Program, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = retrieve("query", "lung").out
    for word in [word for name in NAMES for word in name.split()] + [f"x.org/{at}" for at in range(len(NAMES))]:
        assert word in out.split(), out
    retrieve("build", "--docs-dir", "docs")
    assert f"{DEEP}:1-5" in retrieve("query", "password").out.split()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal_but_for_a_longer_name(
    named: list[dict[str, Any]], retrieve: Program, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = retrieve("query", "lung", "--explain").out.splitlines()
    assert [line for line in lines if cell_len(line) > width and "x" * 50 not in line] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_and_a_pipe_have_the_same_lines(
    named: list[dict[str, Any]], retrieve: Program, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    styled = at_terminal(width, "query", "lung", "--explain")
    assert "\x1b[" in styled
    monkeypatch.setenv("COLUMNS", str(width))
    assert ESCAPE.sub("", styled) == retrieve("query", "lung", "--explain").out


def test_a_terminal_links_to_the_file_and_to_the_address_and_a_pipe_does_not(
    guides: Path, index: Path, retrieve: Program
) -> None:
    assert "\x1b]8;;https://example.org/tilejoin\x1b\\" in at_terminal(80, "query", "stitch tiles")
    assert "\x1b" not in retrieve("query", "stitch tiles").out
    coloured = retrieve("query", "stitch tiles", "--color", "always").out
    assert "\x1b[" in coloured
    assert "\x1b]8" not in coloured
    retrieve("build", "--docs-dir", "docs")
    assert f"\x1b]8;;file://{guides}\x1b\\" in at_terminal(80, "query", "password")


@pytest.mark.parametrize(
    ("words", "environment"), [(["--color", "never"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})]
)
@pytest.mark.usefixtures("index")
def test_a_terminal_that_wants_no_colour_gets_plain_text(words: list[str], environment: dict[str, str]) -> None:
    assert "\x1b" not in at_terminal(80, "query", "stitch tiles", *words, **environment)


def test_only_addresses_of_the_web_are_links(tmp_path: Path, retrieve: Program) -> None:
    record = {"id": "a", "name": "Lung", "description": "A lung.", "url": "javascript:alert(1)"}
    retrieve("build", "--catalog", write_catalog(tmp_path / "one.jsonl", [record]))
    out = at_terminal(80, "query", "lung")
    assert "javascript:alert(1)" in out
    assert "\x1b]8" not in out


def test_a_link_holds_nothing_that_ends_it() -> None:
    assert address("https://x/\x1b\\ü ") == "https://x/%1B\\%C3%BC%20"
    assert file_address("/a b/50%?#é.md") == "file:///a b/50%25%3F%23é.md"
    page = LineRenderer(80, styled=True, linked=True)
    assert page.render([[StyledText("a\x1b[2J", "name", "https://x/\x07")]]) == (
        "\x1b]8;;https://x/%07\x1b\\\x1b[1ma\ufffd[2J\x1b[0m\x1b]8;;\x1b\\\n"
    )


def test_text_from_right_to_left_is_isolated_in_a_terminal_alone() -> None:
    line = [
        StyledText("1  ", "dim"),
        StyledText("ספר ", "name"),
        StyledText("lung "),
        StyledText("כתב"),
        StyledText(" 0.5"),
    ]
    plain = "1  ספר lung כתב 0.5\n"
    assert LineRenderer(80).render([line]) == plain
    assert LineRenderer(80, styled=True).render([[each._replace(style="") for each in line]]) == (
        "1  \u2068ספר lung כתב\u2069 0.5\n"
    )


def test_a_batch_has_each_query_above_its_results(
    index: Path, retrieve: Program, stdin: Callable[[str | bytes], None]
) -> None:
    stdin("lungs\nqqq zzz\n")
    lines = retrieve("query", "-", "-k", "1", "--mode", "bm25").out.splitlines()
    assert lines[0] == "1: lungs"
    at = lines.index("2: qqq zzz")
    assert lines[at - 1 : at + 3] == ["", "2: qqq zzz", "no results", "query 2 has no results:"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("lungmask —requires→ simpleitk (0.70)", "required by lungmask"),
        ("a —requires→ b —requires→ c (0.49)", "required by b, which is required by a"),
        ("a —domain→ domain:radiology ←domain— b (0.1)", "shares domain:radiology with a"),
    ],
)
def test_a_path_is_told_in_words(path: str, words: str) -> None:
    assert path_in_words(path) == words
