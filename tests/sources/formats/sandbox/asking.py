"""Files for `odd_parsers`, and what comes of them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.sources.formats.processes.pool import ParserPool

MB = 1 << 20


def answer(form: str, number: int, content: bytes = b"", *, size: int | None = None) -> str:
    """Return an answer of a process, which may lie about the size of its content."""
    head = json.dumps({"form": form, "number": number, "last": False}).encode()
    sizes = len(head).to_bytes(4, "little") + (len(content) if size is None else size).to_bytes(8, "little")
    return (sizes + head + content).decode("latin-1")


def request(
    folder: Path, do: str, argument: Any = None, *, page: int = 0, name: str = "a.odd", **limits: Any
) -> ParseRequest:
    """Return the request for a file on which the parser does something."""
    path = folder / name
    path.write_text(json.dumps({"do": do, "with": argument, "page": page}))
    sha1 = hashlib.sha1(path.read_bytes()).digest()
    return ParseRequest("sources.formats.sandbox.odd_parsers", path, sha1, name, ParsingLimits(**limits), 10 * MB)


def text_of(pool: ParserPool, asked: ParseRequest) -> str:
    """Return what the parser says, without the words in front of it."""
    return pool.begin(asked).result().text.partition(": ")[2]


def reason_of(pool: ParserPool, asked: ParseRequest) -> str:
    """Return the reason why a file is rejected."""
    try:
        parsed = pool.begin(asked).result()
    except BadDocument as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message
    raise AssertionError(f"it was read: {parsed.text}")
