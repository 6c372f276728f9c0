"""Text files in UTF-8."""

from __future__ import annotations

from retrieve_cli.errors import BadDocument


def utf8(content: bytes) -> str:
    """Return the text of a file, with its byte order mark if it has one.

    Raises:
        BadDocument: it is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{content[error.start]:02x} at position {error.start}"
        raise BadDocument(f"it is not UTF-8 ({place}); convert it with iconv") from error
