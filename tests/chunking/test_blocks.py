from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.chunking.blocks import scan, title


def kinds(text: str) -> list[str]:
    return [block.kind for block in scan(text)]


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


def test_a_level_left_out_does_not_break_the_path() -> None:
    assert scan("# A\n\n###### B\n\n### C\n\ntext")[-1].path == ("A", "C")


def test_underlined_lines_are_headings() -> None:
    assert [block.path for block in scan("Title\n=====\nPart\n----\r\ntext")][-1] == ("Title", "Part")


def test_a_rule_behind_a_blank_line_is_no_heading() -> None:
    assert kinds("text\n\n---\n\nmore") == ["paragraph", "paragraph", "paragraph"]


def test_a_number_sign_needs_a_space_to_be_a_heading() -> None:
    assert kinds("#hashtag\n\n####### seven\n\n    # indented") == ["paragraph"] * 3


@pytest.mark.parametrize("fence", ["```", "~~~~", "   ```"])
def test_headings_inside_a_code_fence_are_no_headings(fence: str) -> None:
    blocks = scan(f"# A\n\n{fence}\n# comment\n\n## more\n{fence}\n\ntext")
    assert [(block.kind, block.path) for block in blocks] == [
        ("heading", ("A",)),
        ("code", ("A",)),
        ("paragraph", ("A",)),
    ]


def test_a_fence_is_closed_by_one_of_its_own_kind_and_length() -> None:
    assert kinds("````\n```\n~~~~\n# a\n````\ntext") == ["code", "paragraph"]


def test_a_fence_left_open_runs_to_the_end() -> None:
    assert kinds("text\n```\n# a\n\nb") == ["paragraph", "code"]


def test_a_fence_inside_a_list_belongs_to_the_list() -> None:
    assert kinds("1. one\n\n   ```sh\n# comment\n   ```\n\n2. two\n\ntext") == ["list", "paragraph"]


def test_items_and_what_is_indented_under_them_are_one_list() -> None:
    assert kinds("* a\n  more\n\n  - b\n\n    text\n* c\n\nend") == ["list", "paragraph"]


def test_a_table_has_a_delimiter_row() -> None:
    assert kinds("a | b\n--- | ---\n1 | 2\n\na | b\n1 | 2") == ["table", "paragraph"]


def test_a_table_may_have_no_body_and_follow_a_paragraph() -> None:
    assert kinds("text\n| a |\n|---|") == ["paragraph", "table"]


def test_a_quote_goes_on_over_lazy_lines() -> None:
    assert kinds("> a\nb\n> c\n\nd") == ["quote", "paragraph"]


def test_comments_and_shortcodes_are_text() -> None:
    assert kinds("<!-- body -->\n\n{{< note >}}\ntext\n{{< /note >}}") == ["paragraph", "paragraph"]


def test_scanning_begins_where_the_body_begins() -> None:
    text = "---\ntitle: x\n---\n# A\n"
    assert [(block.start, block.path) for block in scan(text, 17)] == [(17, ("A",))]


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
    assert title(heading) == words


def test_a_giant_heading_is_cut_short_in_paths() -> None:
    assert len(title("# " + "word " * 1_000)) == 200
