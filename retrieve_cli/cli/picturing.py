"""`retrieve query --picture`: the page of a result with its passage marked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError, printable, unwritable

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared
    from retrieve_cli.search.answer import Answer
    from retrieve_cli.search.opened import Opened


class Picturing(NamedTuple):
    """The picture that a call asks for."""

    path: Path
    rank: int
    """Number of the result, from 1."""

    def check(self) -> None:
        """Raises: UsageError if it names no result or no PNG."""
        if self.rank < 1:
            raise UsageError(f"--picture-of is {self.rank}; it takes a whole number from 1", hint="--picture-of 1")
        expect_png(self.path)

    def draw(self, answer: Answer, opened: Opened, shared: Shared) -> None:
        """Write the picture, or report why there is no picture."""
        from retrieve_cli.search import pictures

        if len(answer.results) < self.rank:
            self._tell(shared, reason=f"there is no result {self.rank}")
            return
        result = answer.results[self.rank - 1]
        try:
            drawn = pictures.passage(opened, result.hit.record, result.chunk)
        except RetrieveError as error:
            self._tell(shared, reason=error.message, hint=error.hint)
            return
        write_picture(self.path, drawn)
        pages = pictures.pages_of(result.chunk)[: pictures.MOST]
        if shared.talk.json:
            _print({"file": str(self.path), "id": result.id, "pages": list(pages)})
        named = f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]}–{pages[-1]}"
        shared.talk.say(f"{self.path}: {named} of {result.doc_id}")

    def _tell(self, shared: Shared, *, reason: str, hint: str = "") -> None:
        if shared.talk.json:
            _print({"file": None, "reason": reason, "hint": hint})
        else:
            said = f"warning: no picture of result {self.rank}: {reason}{f'; {hint}' if hint else ''}"
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
