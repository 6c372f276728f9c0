"""Bounds of configuration keys, kept as metadata beside their defaults."""

from __future__ import annotations

from dataclasses import field
from typing import Any

LARGEST = 1_000_000.0
"""The largest number that a key takes; anything larger is a typing error."""
LONGEST_TEXT = 100_000
"""Characters of a query, and of each of its variants."""
LONGEST_TEXT = 100_000
"""Characters of a query, and of each of its variants."""


def bounded(default: float | None, low: float, high: float = LARGEST) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


def reaching(way: str, *, default: Any) -> Any:
    """A key whose values may reach out of the folder of their file, which its name and its type do not tell: see
    trust.py."""
    return field(default=default, metadata={"reaches": way})


def named(default: str, *choices: str, reaches: str | None = None) -> Any:
    """A key that takes one of these, or the name of a plug-in; `reaches` as in `reaching`."""
    way = {} if reaches is None else {"reaches": reaches}
    return field(default=default, metadata={"choices": lambda: choices, **way})
