"""The user's agreement to what a configuration or an index reaches: asked for once, and kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.trusted import record
from retrieve_cli.config.trust import KINDS, Trust
from retrieve_cli.errors import printable, shortened

if TYPE_CHECKING:
    from retrieve_cli.config.settings import SourceSetting
    from retrieve_cli.operations.unapproved import UnapprovedTool

_LONGEST = 300
"""Longest value that is shown in full; a longer one is marked as cut."""


def asked(trust: Trust, *, quiet: bool) -> bool:
    """Return True if the user agrees to the places that a configuration reaches. Asked once, only on a terminal."""
    if not can_ask(quiet=quiet) or trust.declined:
        return False
    show([trust])
    agreed = confirmed()
    record(trust, "agreed" if agreed else "declined")
    return agreed


def can_ask(*, quiet: bool) -> bool:
    """Return True if a user can see a question and answer it."""
    return not quiet and sys.stdin.isatty() and sys.stderr.isatty()


def confirmed() -> bool:
    """Return the answer to the question."""
    print("Agree to that? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def show(found: Iterable[Trust]) -> None:
    """Print the places outside of the folder, for a decision. Letters that only look like others are escaped."""
    for trust in found:
        print(printable(f"{trust.place} runs code or reaches out of its folder:"), file=sys.stderr)
        for reach in trust.reaches:
            texts = [text.encode("unicode_escape").decode() for text in (reach.value, reach.target)]
            # Of what is started, no argument is hidden.
            value, target = texts if reach.kind == "server" else (shortened(text, _LONGEST) for text in texts)
            arrow = f" -> {target}" if target else ""
            print(printable(f"  {reach.key} {value}{arrow}: {KINDS[reach.kind]}"), file=sys.stderr)


def show_tools(tools: Iterable[UnapprovedTool]) -> None:
    """Print the differences of tools from what the user approved, escaped as above."""
    for tool in tools:
        for line in tool.lines():
            print(printable(line.encode("unicode_escape").decode()), file=sys.stderr)


def ask_for_servers(entries: Iterable[SourceSetting], *, quiet: bool) -> None:
    """Ask the user, on a terminal, to agree to the servers of tools that files name; without an agreement a fetch of
    them fails."""
    for found in of_servers(entries):
        if not found.agreed:
            asked(found, quiet=quiet)


def of_servers(entries: Iterable[SourceSetting]) -> list[Trust]:
    """Return the trust of each client's configuration among some sources. Raises: UsageError: one cannot be read."""
    from retrieve_cli.assemble.trusted import trust_of_servers

    files = [entry.path for entry in entries if entry.kind == "mcp" and entry.path and not entry.command]
    return [trust_of_servers(file)[0] for file in files]


def of_configuration(file: Path | None) -> list[Trust]:
    """Return the trust of the configuration file, if it reaches anything. Raises: UsageError: it cannot be read."""
    from retrieve_cli.config.loading import trust_of_file

    return [found] if (found := trust_of_file(file)) else []
