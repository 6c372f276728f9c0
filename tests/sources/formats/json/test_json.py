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
    "text", ['{\n "name": "a",\n "description": "b"\n}', '{"name": "a"}\n\n{"name": "b"}\n', "[]x", "[" * 100_000 + "a"]
)
def test_other_json_is_text_with_a_notice_even_if_it_is_invalid(text: str) -> None:
    parsed = read("json", text.encode())
    assert blocks(parsed) == [("code", text)]
    assert parsed.notices == ("JSON is indexed as plain text",)


def test_a_file_without_text_is_rejected() -> None:
    with pytest.raises(BadDocument, match="no text"):
        read("json", b"[{}, []]")
