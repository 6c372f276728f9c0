"""`retrieve query --picture`: the page of the first result with its passage marked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError, printable, unwritable

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared
    from retrieve_cli.search.answer import Answer
    from retrieve_cli.search.opened import Opened


def draw(path: Path, answer: Answer, opened: Opened, shared: Shared) -> None:
    """Write the picture of the first result, or report why there is no picture."""
    from retrieve_cli.search import pictures

    if not answer.results:
        _tell(shared, reason="there are no results")
        return
    result = answer.results[0]
    try:
        drawn = pictures.passage(opened, result.hit.record, result.chunk)
    except RetrieveError as error:
        _tell(shared, reason=error.message, hint=error.hint)
        return
    write_picture(path, drawn)
    pages = pictures.pages_of(result.chunk)[: pictures.MOST]
    if shared.talk.json:
        _print({"file": str(path), "id": result.id, "pages": list(pages)})
    named = f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]}–{pages[-1]}"
    shared.talk.say(f"{path}: {named} of {result.doc_id}")


def _tell(shared: Shared, *, reason: str, hint: str = "") -> None:
    if shared.talk.json:
        _print({"file": None, "reason": reason, "hint": hint})
    else:
        said = f"warning: no picture: {reason}{f'; {hint}' if hint else ''}"
        print(printable(said), file=sys.stderr)


def expect_png(path: Path) -> None:
    """Raises: UsageError if a file has the suffix of another format."""
    if path.suffix.lower() not in (".png", ""):
        raise UsageError(f"pictures of pages are PNG files, not {path.suffix}", hint=f"--picture {path.stem}.png")


def write_picture(path: Path, content: bytes) -> None:
    """Write a picture to a file that the user names. Raises: RetrieveError."""
    expect_png(path)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise unwritable(path, error) from error


def _print(value: dict[str, Json]) -> None:
    print(json.dumps({"picture": value}), file=sys.stderr)
