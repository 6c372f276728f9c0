"""Files and YAML from outside: whatever a path leads to and whatever a text holds, reading it ends."""

import io
import os
import re
import socket
from itertools import pairwise
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import Unavailable, UsageError, escaped_json, printable, quoted, shortened
from retrieve_cli.untrusted import files, yaml_text
from retrieve_cli.untrusted.foreign_json import foreign_object
from retrieve_cli.untrusted.nearest import nearest


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def listening(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda folder: folder, "a folder"),
        (lambda folder: fifo(folder / "pipe"), "a named pipe"),
        (lambda _: Path("/dev/zero"), "a device"),
    ],
)
def test_what_is_not_a_regular_file_is_named_and_never_waited_for(tmp_path: Path, make, kind: str) -> None:
    with pytest.raises(OSError, match=kind) as raised:
        files.read_bytes(make(tmp_path), limit=10)
    assert raised.value.strerror == f"it is {kind}, not a regular file"


def test_a_socket_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011  the system's own word
        files.read_bytes(listening(tmp_path / "s"), limit=10)


def test_a_link_to_a_device_is_a_device(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="a device"):
        files.read_text(tmp_path / "config.yaml", limit=files.CONFIG)


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**43)
    with pytest.raises(OSError, match=r"8,388,608\.0 MB; the limit is 1 MB"):
        files.read_bytes(path, limit=files.CONFIG)


@given(st.binary(max_size=60), st.integers(1, 20))
def test_lines_are_those_of_the_file_and_a_long_one_keeps_its_beginning(content: bytes, limit: int) -> None:
    found = list(files.lines(io.BytesIO(content), limit=limit))
    assert found == [line[: limit + 1] for line in io.BytesIO(content)]


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 50_000,
        "- " * 50_000,
        "{a: " * 50_000,
        "? " * 50_000,
        "\n".join(" " * depth + "a:" for depth in range(500)),
        "a: &a [x, x, x]\n" + "\n".join(f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}]" for p, c in pairwise("abcdefghijkl")),
        "b: &b {x: 1}\n" + "\n".join(f"b{n}: &b{n} {{<<: [*b{n - 1 or ''}, *b{n - 1 or ''}]}}" for n in range(1, 30)),
        "&a [*a]",
        "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 5000 + "]",
        "[" + "a," * 100_000 + "]",
    ],
    ids=lambda text: text[:20],
)
def test_yaml_that_is_too_deep_or_unfolds_to_too_much_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"levels|expanded|inside its own anchor") as raised:
        yaml_text.load(text, values=10_000)
    assert len(str(raised.value)) < 400
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["0x" + "f" * 4000, "1:" * 100_000 + "1", "9" * 5000, "2024-13-45"])
def test_a_number_that_no_number_is_stays_a_text(text: str) -> None:
    assert isinstance(yaml_text.load(f"a: {text}", values=10)["a"], str)


def outcome(text: str) -> str:
    """The message of the error that a text gives, empty without one."""
    try:
        yaml_text.load(text, values=100)
    except ValueError as error:
        return str(error)
    return ""


@given(st.text(st.characters(codec="utf-8"), max_size=200) | st.text("[]{}:,-&*!|>'\"%@?# \nab01<", max_size=200))
def test_any_text_is_yaml_or_an_error_of_one_line(text: str) -> None:
    assert "\n" not in outcome(text)


@given(st.text())
def test_what_is_printed_neither_drives_a_terminal_nor_reorders_its_text(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in shown)
    assert all(category(char)[0] in "LMNPS" or char == " " for char in re.sub("[\ufffd\u200c\u200d]", "", shown))
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029")
    shown.encode()


@given(st.text(st.characters(codec="utf-8")))
def test_escaped_json_is_the_same_value_without_control_characters(text: str) -> None:
    import orjson

    written = escaped_json(orjson.dumps({"text": text}).decode())
    assert orjson.loads(written) == {"text": text}
    assert not any(category(char)[0] == "C" or char in "\u2028\u2029\u3164" for char in written)


@pytest.mark.parametrize(
    "hidden", ["\U000e0041", "\u200b", "\u200d", "\x9b", "\u202e", "\u3164", "\U000e0100", "\ue000"]
)
def test_a_character_that_shows_nothing_is_replaced_and_letters_of_all_languages_pass(hidden: str) -> None:
    seen = "Ünïcode नमस्ते 日本語 العربية 😀\ufe0f ∑"
    assert printable(seen) == seen
    assert printable(f"a{hidden}b\n\u00a0", "\n") == "a\ufffdb\n "


@pytest.mark.parametrize(
    "body", [b"", b"NaN", b"-1e400", b"[" * 100_000, b"[" * 70 + b"]" * 70, b"\xff", b"[1]", b"1" * 999]
)
def test_an_answer_that_is_no_usable_object_is_an_error_that_names_the_server(body: bytes) -> None:
    with pytest.raises(Unavailable, match="the answer of http://there is not") as caught:
        foreign_object(body, "http://there", "look")
    assert caught.value.message.isprintable()


def test_a_quoted_value_and_a_shortened_text_have_a_bounded_length() -> None:
    value = {"a": ["x" * 10**6] * 10**5}
    assert len(quoted(value)) <= 80
    assert len(shortened("x " * 10**6)) <= 80
    assert quoted("short") == "'short'"
    assert len(str(UsageError("x" * 10**6, hint="y" * 10**6))) <= 2000


def test_a_name_that_nobody_would_type_is_compared_with_nothing() -> None:
    assert nearest("sarch", ["search", "sources"]) == "search"
    assert nearest("x" * 10**6, ["x" * (10**6 - 1)]) is None
