"""Jupyter notebooks of both formats."""

from __future__ import annotations

import json

import pytest
from sources.formats.layouts import levelled

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.notebook import parse as parse_notebook


def parse(notebook: Json) -> Parsed:
    content = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
    return parse_notebook(content, name="a.ipynb", limits=ParsingLimits(), on_page=lambda page: None)


MARKDOWN = (
    "# Lungs #\nIntro\n\nOther\n-----\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```\n# code\n\nend\n```\n"
)
NOTEBOOK = {
    "nbformat": 4,
    "metadata": {"kernelspec": {"language": "Python"}, "authors": [{"name": "Ada"}]},
    "cells": [
        {"cell_type": "markdown", "source": MARKDOWN.splitlines(keepends=True)},
        {
            "cell_type": "code",
            "source": ["import numpy\n", "\n", "numpy.ones(3)\n"],
            "outputs": [
                {"output_type": "stream", "text": ["10%\r", "100%\n", "\x1b[31mred\x1b[0m\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "array([1.])", "text/html": "<b>"}},
                {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "AAAA"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[0;31m..."]},
            ],
        },
    ],
}


def test_cells_and_their_text_outputs_are_read_in_order() -> None:
    assert levelled(parse(NOTEBOOK)) == [
        ("heading", 1, "Lungs"), ("paragraph", 0, "Intro"), ("heading", 2, "Other"), ("list", 0, "- a\n- b"),
        ("table", 0, "| x | y |\n|---|---|\n| 1 | 2 |"), ("code", 0, "```\n# code\n\nend\n```"),
        ("code", 0, "import numpy\n\nnumpy.ones(3)"), ("code", 0, "100%\nred"), ("code", 0, "array([1.])"),
        ("code", 0, "ValueError: no"),
    ]  # fmt: skip
    assert parse(NOTEBOOK).metadata == {"title": "Lungs", "language": "python", "author": "Ada"}


def test_notebooks_of_format_3_are_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Old"},
        {
            "cell_type": "code",
            "input": "1 + 1",
            "language": "python",
            "outputs": [{"output_type": "pyout", "text": "2"}],
        },
    ]
    notebook = {"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}
    assert levelled(parse(notebook)) == [("heading", 2, "Old"), ("code", 0, "1 + 1"), ("code", 0, "2")]


def test_outputs_are_bounded_and_that_is_said() -> None:
    output = {"output_type": "stream", "text": "x y\n" * 100_000}
    parsed = parse({"cells": [{"cell_type": "code", "source": "run()", "outputs": [output] * 100}]})
    assert len(parsed.text) < 1_100_000
    assert any("cut" in notice for notice in parsed.notices)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"cells": [\n}', "line 2"),
        (b"[" * 100_000, "nested"),
        (b'{"a": 1}', "no list of cells"),
        (b"[]", "no list of cells"),
        (b'{"cells": [1, null, {"cell_type": "code", "source": 5, "outputs": [{"data": 4}]}]}', "no text"),
        (b"\xff", "UTF-8"),
        (b'{"cells": ' + b"9" * 5000 + b"}", "number"),
    ],
)
def test_a_file_that_is_not_a_notebook_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        parse(content)
