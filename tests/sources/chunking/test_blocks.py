from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.sources.chunking.blocks import TextBlock, text_blocks
from retrieve_cli.untrusted.markdown_text import structure


def scan(text: str) -> list[TextBlock]:
    return text_blocks(text, structure(text)[0])


@given(
    st.lists(st.sampled_from(["# a", "b", "b | c", "--- | ---", "===", "```", "- d", "  e", "> f", "", "\t"])).map(
        "\n".join
    )
)
def test_blocks_lie_end_to_end(text: str) -> None:
    blocks = scan(text)
    assert all(before.end == after.start for before, after in pairwise(blocks))
    assert "".join(text[block.start : block.end] for block in blocks).strip() == text.strip()


def test_headings_make_a_path_from_the_outermost_inwards() -> None:
    blocks = scan("# A\n\n## B\n\ntext\n\n### C\n\ntext\n\n## D\n\ntext\n")
    assert [block.path for block in blocks if block.kind == "paragraph"] == [("A", "B"), ("A", "B", "C"), ("A", "D")]


@pytest.mark.parametrize("fence", ["```", "~~~~", "   ```"])
def test_headings_inside_a_code_fence_are_no_headings(fence: str) -> None:
    blocks = scan(f"# A\n\n{fence}\n# comment\n\n## more\n{fence}\n\ntext")
    assert [block.kind for block in blocks] == ["heading", "code", "paragraph"]
    assert {block.path for block in blocks} == {("A",)}


KINDS = {
    "a rule behind a blank line is no heading": ("text\n\n---\n\nmore", 2 * "paragraph "),
    "a number sign needs a space to be a heading": ("#hashtag\n\n####### seven\n\n    # indented", 3 * "paragraph "),
    "a fence is closed by one of its own kind and length": ("````\n```\n~~~~\n# a\n````\ntext", "code paragraph"),
    "a fence left open runs to the end": ("text\n```\n# a\n\nb", "paragraph code"),
    "a list has what is indented under its items": ("* a\n  more\n\n  - b\n\n    text\n* c\n\nend", "list paragraph"),
    "a table has a delimiter row": ("a | b\n--- | ---\n1 | 2\n\na | b\n1 | 2", "table paragraph"),
    "a table may have no body and follow a paragraph": ("text\n| a |\n|---|", "paragraph table"),
    "a quote goes on over lazy lines": ("> a\nb\n> c\n\nd", "quote paragraph"),
    "comments and shortcodes are text": ("<!-- body -->\n\n{{< note >}}\ntext\n{{< /note >}}", "paragraph paragraph"),
}


@pytest.mark.parametrize(("text", "kinds"), KINDS.values(), ids=KINDS)
def test_the_kinds_of_blocks(text: str, kinds: str) -> None:
    assert [block.kind for block in scan(text)] == kinds.split()


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("## Plain ##\n", "Plain"),
        ("# C#\n", "C#"),
        ("## Anchored {#the-anchor}\r\n", "Anchored"),
        ("### The [`kubectl`](https://x.y/z) **tool**", "The kubectl tool"),
        ("#", ""),
        ("Two\nlines\n=====\n", "Two lines"),
    ],
)
def test_the_words_of_a_heading_are_without_its_marks(heading: str, words: str) -> None:
    layout, title = structure(heading)
    assert ([block.title for block in layout.blocks], title) == ([words], words)
