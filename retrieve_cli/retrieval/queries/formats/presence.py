"""Check that a file which a request names is there and can be read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.retrieval.queries.formats.content import no_wait
from retrieve_cli.untrusted.nearest import nearest

_ALIKE = 0.6
"""Similarity from which on the name of another file in the folder is suggested."""


def expect_file(name: str) -> None:
    """Hold the path of a file or folder to what can be read; nothing is read of it.

    Raises:
        UsageError: nothing is there, or it cannot be opened; names the file beside it that has the nearest name.
    """
    path = Path(name)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
        elif stat.S_ISREG(mode):
            os.close(no_wait(name, os.O_RDONLY))
        else:
            raise UsageError(f"{quoted(name)} is not a file: it is a pipe, a socket or a device", hint="name a file")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no file {quoted(name)}", hint=_suggestion(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise UsageError(f"cannot read the file {quoted(name)}: {reason}", hint="check the path") from error


def _suggestion(path: Path) -> str:
    """A hint with the nearest name in the folder of a path."""
    folder = path.parent
    try:
        with os.scandir(folder) as entries:
            near = nearest(path.name, (entry.name for entry in entries), cutoff=_ALIKE)
    except OSError:
        return f"there is no folder {quoted(str(folder))}"
    return f"did you mean {quoted(str(folder / near))}?" if near else "check the path"
