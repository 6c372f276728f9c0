"""A document crosses from one process to another as bytes that are checked: the sender is not trusted."""

import json
from random import Random
from typing import Any

import pytest
from sources.formats.sandbox.odd_parsers import RICH

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Block, Layout, Words
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.messages import packed, unpacked

PLAIN = Parsed("plain\n", None, {"a": [1, {"b": None}]})


@pytest.mark.parametrize(
    "parsed", [RICH, PLAIN, Parsed(""), Parsed("x", Layout(())), Parsed("y", Layout((), (), Words()))]
)
def test_a_document_is_the_same_afterwards(parsed: Parsed) -> None:
    again = unpacked(packed(parsed))
    assert again == parsed
    assert packed(again) == packed(parsed)


def test_lone_surrogates_become_question_marks_and_offsets_still_hold() -> None:
    again = unpacked(packed(Parsed("a\ud800b", Layout((Block(2, 3, "paragraph"),)), {"title": "\udfff"})))
    assert (again.text, again.metadata["title"]) == ("a?b", "?")
    assert again.layout == Layout((Block(2, 3, "paragraph"),))


def forged(**changes: Any) -> bytes:
    """Return a packed document with other values in its structure."""
    content = packed(RICH)
    head, text, words = messages._SIZES.unpack_from(content)
    start = messages._SIZES.size
    structure = json.dumps({**json.loads(content[start : start + head]), **changes}).encode()
    return messages._SIZES.pack(len(structure), text, words) + structure + content[start + head :]


def is_rejected(content: bytes) -> bool:
    """Return True if the bytes are not taken for a document."""
    try:
        unpacked(content)
    except ValueError:
        return True
    return False


BLOCK, PAGE = [0, 5, "heading", 1, "", ""], [1, "", 1.0, 1.0, 0, 19, False, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks": [[0, 20, "paragraph", 0, "", ""]]},
        {"blocks": [[-1, 5, "paragraph", 0, "", ""]]},
        {"blocks": [[5, 0, "paragraph", 0, "", ""]]},
        {"blocks": [[0.0, 5, "paragraph", 0, "", ""]]},
        {"blocks": [[True, 5, "paragraph", 0, "", ""]]},
        {"blocks": [BLOCK, BLOCK]},
        {"blocks": [[0, 5, "picture", 0, "", ""]]},
        {"blocks": [[0, 5, [], 0, "", ""]]},
        {"blocks": [[0, 5, "heading", 9, "", ""]]},
        {"blocks": [[0, 5, "heading", 1, "a" * 2000, ""]]},
        {"blocks": [[0, 5, "heading", 1]]},
        {"blocks": {}},
        {"blocks": None},
        {"pages": [[1, "", 1.0, 1.0, 0, 20, False, False]]},
        {"pages": [PAGE, PAGE]},
        {"pages": [[0, "", 1.0, 1.0, 0, 19, False, False]]},
        {"pages": [[2**60, "", 1.0, 1.0, 0, 19, False, False]]},
        {"pages": [[1, None, 1.0, 1.0, 0, 19, False, False]]},
        {"pages": [[1, "", -1.0, 1.0, 0, 19, False, False]]},
        {"pages": [[1, "", 1e300, 1.0, 0, 19, False, False]]},
        {"pages": [[1, "", 1.0, 1.0, 0, 19, 0, False]]},
        {"pages": [PAGE]},
        {"pages": "none"},
        {"words": False},
        {"words": 1},
        {"title": None},
        {"title": "\ud800"},
        {"body_start": 99},
        {"body_start": -1},
        {"notices": [1]},
        {"notices": "one"},
        {"metadata": []},
        {"metadata": {"n": 2**70}},
        {"metadata": {"n": float("nan")}},
        {"metadata": {"n": [float("inf")]}},
        {"metadata": {"\udc00": 1}},
    ],
)
def test_a_structure_that_does_not_fit_the_text_is_rejected(changes: dict[str, Any]) -> None:
    assert is_rejected(forged(**changes))


def test_numbers_and_nesting_without_end_are_rejected() -> None:
    for value in ("1e999", "[" * 100_000 + "]" * 100_000, "9" * 100_000, "[" * 50 + "]" * 50):
        structure = forged(metadata={"n": "here"}).replace(b'"here"', value.encode())
        head = len(value) - len('"here"')
        sizes = list(messages._SIZES.unpack_from(structure))
        content = messages._SIZES.pack(sizes[0] + head, *sizes[1:]) + structure[messages._SIZES.size :]
        assert is_rejected(content)


@pytest.mark.parametrize(
    ("column", "value"), [(0, 20), (1, 20), (2, 0), (2, 3), (3, float("nan")), (3, float("inf")), (3, 1e30)]
)
def test_words_outside_the_text_or_its_pages_are_rejected(column: int, value: float) -> None:
    words = Words()
    row = [0, 5, 1, 1.0]
    row[column] = value
    words.add(*map(int, row[:3]), 0.0, 0.0, float(row[3]), 9.0)
    assert RICH.layout is not None
    with pytest.raises(ValueError, match="a word"):
        unpacked(packed(Parsed(RICH.text, Layout((), RICH.layout.pages, words))))


def test_no_damage_of_the_bytes_passes_for_a_document_with_places_outside_its_text() -> None:
    dice, content, read = Random("transfer"), packed(RICH), 0
    for _ in range(2000):
        damaged = bytearray(content)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.choice((0, 255, dice.randrange(256)))
        try:
            parsed = unpacked(bytes(damaged[: dice.choice((len(damaged), dice.randrange(len(damaged))))]))
        except ValueError:
            continue
        read += 1
        size = len(parsed.text)
        assert parsed.layout is not None
        assert all(0 <= block.start <= block.end <= size for block in parsed.layout.blocks)
        assert all(0 <= page.start <= page.end <= size for page in parsed.layout.pages)
        assert all(0 <= start <= end <= size and box.page <= 2 for start, end, box in parsed.layout.words or ())
        parsed.layout.place(0, size)
    assert read
