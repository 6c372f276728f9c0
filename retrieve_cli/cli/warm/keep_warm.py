"""`query.keep_warm`: a query without a warm process starts one for the next queries."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from retrieve_cli.cli.options import Shared


def keep_warm(shared: Shared, seconds: float) -> None:
    """Start the warm process for later commands without waiting for it, unless one runs or cannot run."""
    from retrieve_cli.cli.warm import client

    if client.state != "absent" or not os.access(shared.artifacts, os.W_OK | os.X_OK):
        return
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = [*command(), "serve", "--background", "--idle", f"{seconds:g}", "--quiet", *flags(shared)]
    with suppress(OSError):
        os.posix_spawn(words[0], words, os.environ, file_actions=null)


def command() -> list[str]:
    """Return the command that started this program, without its arguments."""
    given = len(sys.argv) - 1
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - given]]


def flags(shared: Shared) -> list[str]:
    """Return the flags that name the index and the configuration of a command."""
    config = [] if shared.config is None else ["--config", str(shared.config)]
    return ["--artifacts", str(shared.artifacts), *config]
