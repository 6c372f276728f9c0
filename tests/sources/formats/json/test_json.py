"""JSON as text, and catalogs that are not read as documents."""

from __future__ import annotations

import pytest
from sources.formats.layouts import blocks, read

from retrieve_cli.errors import BadDocument


@pytest.mark.parametrize(
    "text",
    ['{"name": "a", "description": "b"}\n' * 2, '[{"title": "a", "text": "b"}]', '\ufeff{"title":"a","abstract":"b"}'],
)
def test_a_catalog_is_not_read(text: str) -> None:
    with pytest.raises(BadDocument, match="looks like a catalog") as error:
        read("json", text.encode())
    assert error.value.hint == "retrieve build --catalog a b.json"


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
    parsed = read("json", text.encode())
    assert parsed.text == text
    assert blocks(parsed) == [("code", text)]
    assert notice in parsed.notices[0]


def test_a_file_without_text_is_rejected() -> None:
    with pytest.raises(BadDocument, match="no text"):
        read("json", b"[{}, []]")
