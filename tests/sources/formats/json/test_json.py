"""JSON as text, and catalogs that are not read as documents."""

from __future__ import annotations

import pytest

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
    "text", ['{\n "name": "a",\n "description": "b"\n}', '[1, "x"]', '{"name": "a"}\n{"name": "b"}', '"word"', "[]x"]
)
def test_other_json_is_text_with_a_notice(text: str) -> None:
    parsed = parse(text)
    assert parsed.text == text
    assert parsed.layout is None
    assert len(parsed.notices) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1,\n oops}', "line 2, column 2"),
        ("[" * 100_000 + "a", "nested"),
        ('{"a": 1}\n{"b"}\n', "line 2"),
        ("1" * 5000, "too long"),
    ],
)
def test_invalid_json_is_text_with_the_place_of_the_error(text: str, reason: str) -> None:
    assert reason in parse(text).notices[0]


def test_a_file_without_text_is_rejected() -> None:
    with pytest.raises(BadDocument, match="no text"):
        parse("[{}, []]")
