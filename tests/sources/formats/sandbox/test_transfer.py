"""A document or a picture crosses from one process to another as bytes that are checked: the sender is not trusted."""

import json
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from sources.formats.sandbox.odd_parsers import END, HEADER, PIXELS, POINT, RICH, SIGNATURE, chunk

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Block, Layout, Words
from retrieve_cli.sources.formats.processes.messages import packed, unpacked
from retrieve_cli.untrusted.pictures import checked_picture

PLAIN = Parsed("plain\n", None, {"a": [1, {"b": None}]})


@pytest.mark.parametrize(
    "parsed", [RICH, PLAIN, Parsed(""), Parsed("x", Layout((), in_lines=True)), Parsed("y", Layout((), (), Words()))]
)
def test_a_document_is_the_same_afterwards(parsed: Parsed) -> None:
    again = unpacked(packed(parsed))
    assert again == parsed
    assert packed(again) == packed(parsed)


def test_lone_surrogates_become_question_marks_and_offsets_still_hold() -> None:
    again = unpacked(packed(Parsed("a\ud800b", Layout((Block(2, 3, "paragraph"),)), {"title": "\udfff"})))
    assert (again.text, again.metadata["title"]) == ("a?b", "?")
    assert again.layout == Layout((Block(2, 3, "paragraph"),))


def is_rejected(content: bytes) -> bool:
    """Return True if the bytes are not taken for a document."""
    try:
        unpacked(content)
    except (ValueError, RecursionError):
        return True
    return False


BLOCK, PAGE = [0, 5, "heading", 1, "", ""], [1, "", 1.0, 1.0, 0, 19, False, False]
WRONG: dict[str, Sequence[Any]] = {
    "blocks": (
        [[0, 20, "list", 0]], [[-1, 5, "list", 0]], [[5, 0, "list", 0]], [[0.5, 5, "list", 0]], [[True, 5, "list", 0]],
        [BLOCK, BLOCK], [[0, 5, "picture", 0]], [[0, 5, [], 0]], [[0, 5, "heading", 9]], {}, None,
    ),
    "pages": (
        [[1, "", 1, 1, 0, 20]], [PAGE, PAGE], [[0, "", 1, 1, 0, 19]], [[2**60, "", 1, 1, 0, 19]], [PAGE], "none",
        [[1, None, 1, 1, 0, 19]], [[1, "", -1, 1, 0, 19]], [[1, "", 1e300, 1, 0, 19]], [[1, "", 1, 1, 0, 19, 0]],
    ),
    "title": (None, "\ud800"), "notices": ([1], "one"), "in_lines": (1, None),
    "dropped": ([["running head"]], [["running head", "a", "b"]]),
    "metadata": ([], {"n": 10**400}, {"n": float("nan")}, {"n": [float("inf")]}),
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_a_structure_that_does_not_fit_the_text_is_rejected(key: str, value: object) -> None:
    head, text, words = msgspec.msgpack.decode(packed(RICH))
    forged = json.dumps({**json.loads(head), key: value}).encode()
    assert is_rejected(msgspec.msgpack.encode((forged, text, words)))


def test_numbers_and_nesting_without_end_are_rejected() -> None:
    head, text, words = msgspec.msgpack.decode(packed(RICH))
    for value in ("1e999", "[" * 100_000 + "]" * 100_000, "9" * 100_000, "[" * 100 + "]" * 100):
        metadata = b'"metadata": {"n": ' + value.encode() + b"}, "
        forged = head.replace(b'"metadata": {', b'"other": {', 1).replace(b"{", b"{" + metadata, 1)
        assert is_rejected(msgspec.msgpack.encode((forged, text, words)))


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
        except (ValueError, RecursionError):
            continue
        read += 1
        size = len(parsed.text)
        assert parsed.layout is not None
        assert all(0 <= block.start <= block.end <= size for block in parsed.layout.blocks)
        assert all(0 <= page.start <= page.end <= size for page in parsed.layout.pages)
        assert all(0 <= start <= end <= size and box.page <= 2 for start, end, box in parsed.layout.words or ())
        parsed.layout.place(0, size)
    assert read


HEAD = chunk(b"IHDR", HEADER)


PICTURES = (
    b"", b"<svg/>", POINT[:-1], SIGNATURE, SIGNATURE + END, SIGNATURE + PIXELS + END, POINT + b"<script>",
    POINT + POINT[len(SIGNATURE) :], SIGNATURE + HEAD + END,
    SIGNATURE + HEAD + chunk(b"iCCP", b"x") + PIXELS + END, SIGNATURE + chunk(b"IHDR", HEADER[:-1]) + PIXELS + END,
    SIGNATURE + chunk(b"IHDR", HEADER + b"\0") + PIXELS + END, SIGNATURE + HEAD + PIXELS + chunk(b"IEND", b"more"),
    SIGNATURE + struct.pack(">I4s", 0xFFFFFFFF, b"IHDR") + POINT,
    SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 1 << 30, 1, 8, 2, 0, 0, 0)) + PIXELS + END,
    SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 6, 0, 0, 1)) + PIXELS + END,
)  # fmt: skip


@pytest.mark.parametrize("content", PICTURES)
def test_a_picture_with_other_parts_than_header_and_pixels_is_rejected(content: bytes) -> None:
    assert checked_picture(POINT) == POINT
    with pytest.raises(ValueError, match=r"picture|PNG"):
        checked_picture(content)
