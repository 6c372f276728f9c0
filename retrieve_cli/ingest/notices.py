"""Notices on the files of a source: the first of each kind are shown, the others are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from retrieve_cli.contracts import Notice
from retrieve_cli.ingest.counts import counted

_SHOWN = 3
"""Files whose notice is shown if several have the same one."""


class Notices:
    """The notices on one source after the other."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._counts: Counter[str] = Counter()

    def add(self, notice: Notice) -> None:
        """Show a notice, unless several files had the same one."""
        self._counts[notice.message] += 1
        if self._counts[notice.message] <= _SHOWN:
            self._say(f"{notice.source}: {notice.message}")

    def finish(self, name: str) -> None:
        """Say how many notices on the source of that name were not shown."""
        for message, count in self._counts.items():
            if count > _SHOWN:
                self._say(f"{name}: {counted(count - _SHOWN, 'more file')}: {message}")
        self._counts.clear()
