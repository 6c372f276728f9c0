"""The sentence that is shown of a result: markup and tokens of the index are no part of it."""

import re

import pytest

from retrieve_cli.output.plain_text import inline, one_line, pieces
from retrieve_cli.output.snippet import best


def matching(*words: str):
    def matches(text: str) -> list[tuple[int, int]]:
        return [found.span() for word in words for found in re.finditer(rf"\b{word}\w*", text, re.IGNORECASE)]

    return lambda text: sorted(matches(text))


def shown(text: str, *words: str, room: int = 60, **choices: bool) -> str:
    return best(pieces(text), matching(*words), room=room, **choices).text


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("See [the guide](https://x.org/a) and ![a picture](p.png).", "See the guide and a picture."),
        ("**Bold**, *soft*, __strong__ and _low_ words", "Bold, soft, strong and low words"),
        ("`code` with snake_case_name and 2 * 3 * 4", "code with snake_case_name and 2 * 3 * 4"),
        ("a<br/>b <b>c</b> vector<int> 1 < 2", "a b c vector<int> 1 < 2"),
        ("text[^1] \\*stars\\* &amp; more", "text *stars* & more"),
        ("<https://x.org> ~~gone~~", "https://x.org gone"),
    ],
)
def test_marks_of_markdown_and_html_are_no_part_of_a_sentence(marked: str, plain: str) -> None:
    assert one_line(inline(marked)) == plain


def test_blocks_are_read_as_paragraphs_items_rows_code_and_headings() -> None:
    text = """---
title: A page
---
# Heading

A paragraph
of two lines.

> quoted words

* first item
2. second item

| Name | Port |
|------|-----:|
| api  | 6443 |

```sh
run me
```
<!-- hidden -->
{{< note >}}
[ref]: https://x.org
"""
    assert [(piece.kind, piece.text) for piece in pieces(text)] == [
        ("heading", "Heading"),
        ("prose", "A paragraph of two lines."),
        ("prose", "quoted words"),
        ("prose", "first item"),
        ("prose", "second item"),
        ("heading", "Name · Port"),
        ("row", "api · 6443"),
        ("code", "run me"),
    ]


def test_the_sentence_with_the_most_matched_words_is_shown() -> None:
    text = "It reads files. It segments lungs in CT scans. It writes masks."
    assert shown(text, "segment", "lung", room=30).startswith("It segments lungs")


def test_a_snippet_starts_with_a_sentence_whatever_matches_in_it() -> None:
    text = (
        "A first one, e.g. by J. Smith, of vol. 3. Then a second sentence, which is long, names the lungs at its end."
    )
    assert shown(text, "lung", room=80).startswith("Then a second sentence")
    assert shown(text, "Smith").startswith("A first one, e.g. by J. Smith")


def test_code_is_shown_only_if_no_sentence_matches() -> None:
    text = "Run this.\n\n```\nrotate --now\nother\n```\n"
    assert shown(text, "rotate") == "rotate --now"
    assert shown(f"{text}\nPasswords rotate.", "rotate") == "Run this. Passwords rotate."
    assert shown(text, "nothing") == "Run this."


def test_matches_are_marked_where_they_stand() -> None:
    found = best(pieces("Nothing here. It maps *lungs* and lobes."), matching("lung", "lobe"), room=60)
    assert [found.text[start:end] for start, end in found.marks] == ["lungs", "lobes"]


def test_nothing_in_a_snippet_drives_a_terminal() -> None:
    assert "\x1b" not in shown("Lungs \x1b[2J\u202e here.", "lung")
