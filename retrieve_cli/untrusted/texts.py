"""The one decoder of texts that people write: documents, ignore files, synonyms, judgments."""

from __future__ import annotations

import codecs
from pathlib import Path

from retrieve_cli.untrusted import files

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = ("cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256", "cp932",
           "euc_jp", "gb18030", "big5", "cp949")  # fmt: skip
_LOOKED_AT = 1 << 18
"""Bytes at the beginning from which a legacy encoding is guessed."""
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b")


def read_user_text(path: Path | str, *, limit: int) -> str:
    """Return a text of a person in any encoding, see `user_text`.

    Raises:
        OSError: it cannot be read, is larger than `limit`, or is not a text; `strerror` has the reason.
    """
    decoded = user_text(files.read_bytes(path, limit=limit))
    if decoded is None:
        raise files.UnreadableFile(path, "it is not a text")
    return decoded[0]


def user_text(content: bytes) -> tuple[str, str] | None:
    """Return a text and the name of its encoding; None if the bytes are not a text.

    Without a byte order mark; lines end with "\\n", and U+0000 is U+FFFD as in CommonMark 0.31, 2.3.
    """
    decoded = decode(content)
    if decoded is None:
        return None
    text, encoding = decoded
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff").replace("\0", "\ufffd"), encoding


def decode(content: bytes) -> tuple[str, str] | None:
    """Return a text, unchanged, and the name of its encoding; None if the bytes are not a text.

    Bytes that are not in the encoding of the beginning make the whole text `latin-1`; in UTF-16
    they become U+FFFD.
    """
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        name = None if has_controls(content) else encoding_of(content)
    if name is None or name == "utf-16":
        return None if name is None else (content.decode(name, "replace"), name)
    try:
        return content.decode(name), name
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def encoding_of(head: bytes) -> str | None:
    """Return the name of Python's codec for a text, from its first bytes; None if it is not a text.

    A text in UTF-8 may be cut within a character. `latin-1`, which any bytes are, is the last
    resort.
    """
    if (name := encoding_mark(head)) is not None:
        return name
    if b"\0" in head:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return _legacy(head[:_LOOKED_AT])
    return "utf-8"


def _legacy(head: bytes) -> str:
    """Return the most likely encoding; Windows-1252 if no other one is likelier."""
    from charset_normalizer import from_bytes

    matches = list(from_bytes(head, cp_isolation=list(_LEGACY)))
    likely = [match.encoding for match in matches if match.chaos <= matches[0].chaos]
    return next((name for name in likely if name == _LEGACY[0]), next(iter(likely), "latin-1"))


def has_controls(content: bytes) -> bool:
    """Return True if bytes have control characters that no text has, unless they begin as UTF-16, which has any."""
    if encoding_mark(content):
        return False
    return len(content.translate(None, _CONTROLS)) < len(content)


def encoding_mark(head: bytes) -> str | None:
    """Return the encoding that a byte order mark names; None without one."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def label_of(encoding: str) -> str:
    """Return the name of an encoding for people."""
    return encoding.upper().replace("CP125", "Windows-125").replace("_", "-").replace("LATIN", "Latin")
