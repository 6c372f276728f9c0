"""Markdown as people write it: titles, front matter, tags and links of notes, pictures in the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from samples import DATA, Program, pieces

from retrieve_cli.contracts import Parsed, Record
from retrieve_cli.sources.folders.docs_folder import FolderSource
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import parse
from retrieve_cli.sources.formats.reader import SandboxedReader
from retrieve_cli.untrusted.front_matter import front_matter
from retrieve_cli.untrusted.markdown_text import structure
from retrieve_cli.untrusted.texts import user_text


def read(text: str | bytes, name: str = "a.md") -> Parsed:
    content = text.encode() if isinstance(text, str) else text
    return parse(content, name=name, limits=ParsingLimits(), on_page=lambda _: None)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("```sh\n# a comment\n```\n# Real", "Real"),
        ("<!--\n# draft\n-->\n\n# Real", "Real"),
        ("<pre>\n# output\n</pre>\n\n# Real", "Real"),
        ("Setext title\n===\n\nText", "Setext title"),
        ('<h1 align="center">Of <b>HTML</b> &amp; co</h1>\n\nText', "Of HTML & co"),
        ("# [Link](https://a.b) ![badge](b.svg) `code` **bold** {#anchor .class}", "Link code bold"),
        ("# Text <!-- note --> more ##", "Text more"),
        ("\ufeff# Behind a mark", "Behind a mark"),
        ("\ufeff---\r\ntitle: T\r\n---\r\n# Heading", "Heading"),
        ("#\n\n## Second", "Second"),
        ("no heading", ""),
    ],
)
def test_the_title_is_the_first_heading_that_a_reader_sees(text: str, title: str) -> None:
    assert read(text).title == title


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_text_is_the_same_in_every_encoding_and_with_every_line_end(encoding: str, end: str) -> None:
    text = "---\ntitle: Größe\n---\n\n# Überschrift\n\nText über Öfen.\n"
    content = text.replace("\n", end).encode(encoding)
    assert user_text(content) is not None
    parsed = read(content)
    assert (parsed.metadata["title"], parsed.title, parsed.text.count("\n")) == ("Größe", "Überschrift", 7)


def test_front_matter_keeps_values_that_no_number_is() -> None:
    yaml = (
        'zip: 01234\nversion: 1.10\ntime: 12:30:45\nno: off\ntags: [on, no, ~]\nn: 3\nx: 0.5\nday: 2024-05-01\nt: "7"'
    )
    metadata, *_ = front_matter(f"---\n{yaml}\n---\n")
    assert metadata == {
        "zip": "01234", "version": "1.10", "time": "12:30:45", "no": "off", "tags": ["on", "no", None],
        "n": 3, "x": 0.5, "day": "2024-05-01", "t": "7",
    }  # fmt: skip
    toml, *_ = front_matter('+++\ntitle = "T"\nday = 2024-05-01\n[extra]\nn = 3\n+++\n')
    assert toml == {"title": "T", "day": "2024-05-01", "extra": {"n": 3}}


@given(st.integers(min_value=-(10**18), max_value=10**18) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_of_front_matter_is_the_number_that_json_has(number: float) -> None:
    metadata, *_ = front_matter(f"---\nn: {number!r}\n---\n")
    value: Any = metadata["n"]
    assert value == number or value == str(number)


@pytest.mark.parametrize("matter", ["a: [unclosed", "title: a: b", "x: !custom {}", "+"])
def test_front_matter_that_is_none_is_text_and_makes_no_heading(matter: str) -> None:
    fence = "+++" if matter == "+" else "---"
    parsed = read(f"{fence}\n{matter}\n{fence}\n\n# Title\n\nText.")
    assert parsed.title == "Title"
    assert matter in parsed.text
    assert "indexed as text" in parsed.notices[0]


def test_pictures_in_the_text_are_cut_and_counted() -> None:
    data = "data:image/png;base64," + "iVBORw0KGgo" * 500
    parsed = read(f"# A\n\nBefore.\n\n![shot]({data})\n\n[ref]: <{data}>\n\nBehind.")
    assert len(parsed.text) < 200
    assert [part.reason for part in parsed.dropped] == ["base64 picture"] * 2
    assert parsed.text.count("\n") == 8


BLOCKS = [
    *("# A", "text #tag", "- a\n  - b", "> q", "```\n# c\n```", "a | b\n--- | ---\n1 | 2", "<div>\nx\n</div>"),
    *("[r]: https://a.b", "***", "**Bold line**", "![i](i.png)", "    code", "<!-- c -->", "1) x\n\n   y"),
]


@given(st.lists(st.sampled_from(BLOCKS), max_size=8), st.sampled_from(["\n", "\n\n"]))
def test_every_letter_of_a_text_is_in_one_block(parts: list[str], between: str) -> None:
    text = between.join(parts)
    blocks = structure(text)[0].blocks
    covered = [False] * len(text)
    for block in blocks:
        assert not any(covered[block.start : block.end])
        covered[block.start : block.end] = [True] * (block.end - block.start)
    assert not [char for char, inside in zip(text, covered, strict=True) if char.isalnum() and not inside]


# ------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def records(tmp_path: Path) -> Callable[..., dict[str, Record]]:
    def made(**texts: str) -> dict[str, Record]:
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        source = FolderSource(tmp_path, SandboxedReader(ParsingLimits()), name_weight=2.0)
        return {item.id: item for item in pieces(source) if isinstance(item, Record)}

    return made


def test_the_prose_of_front_matter_is_searched_and_lines_keep_their_numbers(
    records: Callable[..., dict[str, Record]],
) -> None:
    front = "name: pdf-tools\ndescription: Fill in forms.\nsummary: Short.\naliases: [acrobat]\ntags: [office, forms]"
    text = f"---\n{front}\n---\n\n# PDF\n\nBody."
    made = records(skill=text)["skill.md"]
    for words in ("pdf-tools", "Fill in forms.", "Short.", "acrobat", "office"):
        assert words in made.text
    assert made.text.split("\n").index("Body.") == text.split("\n").index("Body.")


def test_tags_and_links_of_notes_are_metadata(records: Callable[..., dict[str, Record]]) -> None:
    text = "See [[Page]], [[x/Deep|alias]] and [b](../b.md#part 't'). #topic/sub #12 `#no` [w](https://a.b/c.md)"
    made = records(x__a=f"---\ntags: [own]\n---\n{text}\n\n```\n[[Code]] #code\n```\n")["x/a.md"]
    assert made.metadata["tags"] == ["own", "topic/sub"]
    assert made.metadata["links_to"] == ["Page", "x/Deep", "b.md"]
    assert made.keywords == ("own", "topic/sub")


@pytest.mark.parametrize("name", ["markdown-title", "front-matter"])
def test_given_files_have_the_titles_and_values_that_their_authors_meant(name: str) -> None:
    folder = DATA.parent / "cases" / name / "docs"
    if not folder.is_dir():
        pytest.skip(f"the given files are not at {folder}")
    source = FolderSource(folder, SandboxedReader(ParsingLimits()), name_weight=2.0)
    made = {item.id: item for item in pieces(source) if isinstance(item, Record)}
    if name == "markdown-title":
        assert made["fence.md"].name == "Kiosk handbook"
        assert made["inline.md"].name == "Kiosk link code bold"
        assert made["hash.md"].name == "#1 Kiosk"
    else:
        values = made["num.md"].metadata
        assert (values["zip"], values["time"], values["version"]) == ("01234", "12:30:45", "1.10")
        assert {"on", "no"} <= set(made["date.md"].keywords)


def test_links_of_notes_are_edges_of_the_graph(tmp_path: Path, retrieve: Program) -> None:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "Pump.md").write_text("# Centrifugal pumps\n\nSee [[Valve]] and [seals](sub/Seal.md).")
    (folder / "sub" / "Seal.md").write_text("Rings of rubber. [[Nowhere]]")
    (folder / "Valve.md").write_text("# Big valves\n\nThey close.")
    built = retrieve("build", "--docs-dir", folder)
    assert "1 dangling reference" in built.err
    graph = retrieve("inspect", "graph", "Pump.md", "--json").json
    assert {"Valve.md", "sub/Seal.md"} <= set(str(graph).replace("'", " ").split())
