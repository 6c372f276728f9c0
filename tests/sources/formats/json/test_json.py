"""JSON as text, and catalogs that are not read as documents."""

from __future__ import annotations

import pytest
from sources.formats.layouts import blocks

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats import json_text
from retrieve_cli.sources.formats.formats import ParsingLimits


def parse(text: str) -> Parsed:
    return json_text.parse(text.encode(), name="a b.jsonl", limits=ParsingLimits(), on_page=lambda page: None)


@pytest.mark.parametrize(
    "text",
    ['{"name": "a", "description": "b"}\n' * 2, '[{"title": "a", "text": "b"}]', '\ufeff{"title":"a","abstract":"b"}'],
)
def test_a_catalog_is_not_read(text: str) -> None:
    with pytest.raises(BadDocument, match="looks like a catalog") as error:
        parse(text)
    assert error.value.hint == "retrieve build --catalog a b.jsonl"


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ('{\n "name": "a",\n "description": "b"\n}', "JSON is indexed as plain text"),
        ('[1, "x"]', "JSON is indexed as plain text"),
        ('{"name": "a"}\n\n{"name": "b"}\n', "JSON is indexed as plain text"),
        ("[]x", "line 1, column 3"),
        ('{"a": 1,\n oops}', "line 2, column 2"),
        ("[" * 100_000 + "a", "nested"),
        ('{"a": 1}\n{"b"}\n', "line 2"),
        ("1" * 5000, "too long"),
    ],
)
def test_other_json_is_text_with_a_notice_even_if_it_is_invalid(text: str, notice: str) -> None:
    parsed = parse(text)
    assert parsed.text == text
    assert blocks(parsed) == [("code", text)]
    assert notice in parsed.notices[0]


def test_a_file_without_text_is_rejected() -> None:
    with pytest.raises(BadDocument, match="no text"):
        parse("[{}, []]")
