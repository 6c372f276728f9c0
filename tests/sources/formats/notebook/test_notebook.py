"""Jupyter notebooks."""

from __future__ import annotations

import json

import pytest
from sources.formats.layouts import levelled, read

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.errors import BadDocument


def parse(notebook: Json) -> Parsed:
    return read("notebook", json.dumps(notebook).encode())


MARKDOWN = "# Lungs #\nIntro\n\n- a\n- b\n\n| x |\n|---|\n| 1 |\n\n![p](attachment:p)\n\n```\n# never closed\n"
OUTPUTS = [
    {"output_type": "stream", "text": ["10%\r", "100%\n", "\x1b[31mred\x1b[0m\n"]},
    {"output_type": "execute_result", "data": {"text/plain": "array([1.])", "text/html": "<b>"}},
    {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "AAAA"}},
    {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[0;31m..."]},
]
NOTEBOOK = {
    "metadata": {"kernelspec": {"language": "Python"}, "authors": [{"name": "Ada"}]},
    "cells": [
        {"cell_type": "markdown", "source": MARKDOWN, "attachments": {"p": {"image/png": "A"}}},
        {"cell_type": "code", "source": ["import numpy\n", "\n", "'''```'''\n"], "outputs": OUTPUTS},
        {"cell_type": "raw", "source": "as it is"},
    ],
}


def test_cells_and_their_text_outputs_are_markdown_in_order() -> None:
    made = parse(NOTEBOOK)
    assert levelled(made) == [
        ("heading", 1, "# Lungs #"), ("paragraph", 0, "Intro"), ("list", 0, "- a\n- b"),
        ("table", 0, "| x |\n|---|\n| 1 |"), ("caption", 0, "![p](attachment:p)"),
        ("code", 0, "```\n# never closed"), ("code", 0, "````python\nimport numpy\n\n'''```'''\n````"),
        ("code", 0, "```\n100%\nred\n```"), ("code", 0, "```\narray([1.])\n```"),
        ("code", 0, "```\nValueError: no\n```"), ("paragraph", 0, "as it is"),
    ]  # fmt: skip
    assert made.metadata == {"language": "python", "author": "Ada"}
    assert made.title == "Lungs"
    assert [(text.reason, text.text) for text in made.dropped] == [("picture", "p"), ("picture", "image/png")]


def test_outputs_are_bounded_and_that_is_said() -> None:
    output = {"output_type": "stream", "text": "x y\n" * 100_000}
    parsed = parse({"cells": [{"cell_type": "code", "source": "run()", "outputs": [output] * 100}]})
    assert len(parsed.text) < 1_100_000
    assert parsed.notices == ("its outputs are cut at 20,000 characters each",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"cells": [\n}', "line 2"),
        (b"[" * 100_000, "nested"),
        (b'{"a": 1}', "no list of cells"),
        (b"[]", "no list of cells"),
        (b'{"worksheets": [{"cells": []}]}', "format 3"),
        (b'{"cells": [1, null, {"cell_type": "code", "source": 5, "outputs": [{"data": 4}]}]}', "no text"),
        (b"\0\xff", "not a text"),
        (b'{"cells": ' + b"9" * 5000 + b"}", "number"),
    ],
)
def test_a_file_that_is_not_a_notebook_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        read("notebook", content)
