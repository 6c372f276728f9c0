"""Smaller tries that show the same: delta debugging over whatever a try holds, with a bounded number of attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hostile.tries import CHANGES, MAKES, Try

MOST = 100
"""Attempts."""
SECONDS = 30.0
OPERATIONS = {*MAKES, *CHANGES, "forge", "raw", "drip", "stall", "endless", "fit"}
_PIECES = 8
"""Into so many pieces a sequence is cut at the finest, again and again while that helps."""


def shrunk(attack: Try, shows: Callable[[Try], bool], *, most: int = MOST, seconds: float = SECONDS) -> Try:
    """Return a smaller try for which `shows` still holds; the same one if there is none."""
    left, until = most, time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in _smaller_tries(attack):
            if left <= 0 or time.monotonic() > until:
                return attack
            left -= 1
            if shows(candidate):
                attack, progress = candidate, True
                break
    return attack


def _smaller_tries(attack: Try) -> Iterator[Try]:
    for commands in filter(None, _without(attack.commands)):
        yield replace(attack, commands=commands)
    for files in _smaller(attack.files):
        yield replace(attack, files=files)
    for stdin in _smaller(attack.stdin):
        yield replace(attack, stdin=stdin)
    if attack.answers:
        for answers in _smaller_items(attack.answers, _smaller):
            yield replace(attack, answers=answers)
    for commands in _smaller_items(attack.commands, lambda command: _smaller_items(command, _smaller)):
        yield replace(attack, commands=commands)


def _smaller_items(items: tuple[Any, ...], smaller: Callable[[Any], Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield the items with one, or some, left out, but not all; then with one of them smaller."""
    yield from filter(None, _without(items))
    for place, item in enumerate(items):
        for less in smaller(item):
            yield (*items[:place], less, *items[place + 1 :])


def _smaller(value: Any) -> Iterator[Any]:
    """Yield smaller values of the same kind, the smallest steps last."""
    if isinstance(value, (bytes, str)):
        yield from _without(value)
    elif isinstance(value, Mapping):
        for key in value:
            yield {name: part for name, part in value.items() if name != key}
        for key, part in value.items():
            yield from ({**value, key: less} for less in _smaller(part))
    elif isinstance(value, tuple | list):
        operation = isinstance(value, tuple) and bool(value) and isinstance(value[0], str) and value[0] in OPERATIONS
        if not operation:
            yield from _without(value)
        for place in range(1 if operation else 0, len(value)):
            yield from (type(value)((*value[:place], less, *value[place + 1 :])) for less in _smaller(value[place]))
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1000:
        yield value // 2


def _without(value: Any) -> Iterator[Any]:
    """Yield a sequence without a piece of it: halves first, then ever smaller ones."""
    pieces = 2
    while pieces <= max(_PIECES, min(len(value), 64)) and len(value) >= pieces // 2 and value:
        size = max(1, len(value) // pieces)
        for start in range(0, len(value), size):
            yield value[:start] + value[start + size :]
        if size == 1:
            return
        pieces *= 2
