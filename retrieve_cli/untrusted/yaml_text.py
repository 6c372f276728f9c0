"""YAML from outside, read within bounds of depth and size.

libyaml's constructor recurses on the C stack, so 50,000 opening brackets end the process; a page of aliases expands to
billions of values; and Python's integers take quadratic time to read. Therefore the events of the parser are counted
first, without recursion, and only a document within the bounds is constructed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import shortened

_LONGEST_NUMBER = 64
"""Maximum characters of a scalar that is read as a number or a date; longer ones stay strings."""
_LONGEST_MESSAGE = 300
"""Maximum characters of the parser's message."""


_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_WORD = re.compile("[A-Za-z/][A-Za-z0-9_./-]*")
_OTHER_WORDS = {"true": True, "false": False, **dict.fromkeys(("yes", "no", "on", "off", "null", "y", "n"))}
"""Words that are not strings in YAML 1.1, with their values; None for those that the parser decides."""


def load(text: str, *, values: int, levels: int = 64) -> Json:
    """Return the value of a YAML document.

    Raises:
        ValueError: it is not valid YAML, nested deeper than `levels`, or has more than `values` values after expanding
            its aliases; the message is one line.
    """
    if (value := _simple(text)) is not None:
        return value
    import yaml

    try:
        _check(text, values, levels)
        return yaml.load(text, _loader())  # noqa: S506  a safe loader
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(shortened(str(error), _LONGEST_MESSAGE)) from error
    except Exception as error:  # the constructors of tags fail in many ways: KeyError, IndexError, TypeError
        raise ValueError(f"a value does not match its tag ({shortened(str(error))})") from error


def _simple(text: str) -> str | int | None:
    """Return the value of a bare word, a path or a whole number, such as an environment variable; None if it needs the
    parser, which takes 15 ms to load."""
    if _NUMBER.fullmatch(text):
        return int(text)
    lower = text.lower()
    if lower in _OTHER_WORDS:
        return _OTHER_WORDS[lower] if text == lower else None
    return text if _WORD.fullmatch(text) else None


def _check(text: str, values: int, levels: int) -> None:
    """Count the values of the expanded document, event by event.

    Raises:
        ValueError: it is nested too deeply, or too large.
    """
    import yaml

    count = _Count()
    for event in yaml.parse(text, _loader()):
        if isinstance(event, yaml.AliasEvent):
            count.alias(str(event.anchor))
        elif isinstance(event, yaml.ScalarEvent):
            count.scalar(event.anchor, event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            count.open(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            count.close()
        if len(count.unfinished) > levels:
            raise ValueError(f"it is nested deeper than {levels} levels")
        if count.values > values:
            raise ValueError(f"it has more than {values:,} values once its aliases are expanded")


class _Count:
    """Number of values of the expanded document read so far."""

    def __init__(self) -> None:
        self.values = 0
        self.unfinished: list[tuple[str | None, int]] = []
        """Anchor of each open collection, with the count at its beginning."""
        self._sizes: dict[str, int] = {}

    def alias(self, anchor: str) -> None:
        """Count the values behind an alias. Raises: ValueError if it is inside its own anchor."""
        if any(anchor == other for other, _ in self.unfinished):
            raise ValueError(f"the alias *{shortened(anchor)} is inside its own anchor")
        self.values += self._sizes.get(anchor, 1)

    def scalar(self, anchor: str | None, text: str) -> None:
        self.values += 1
        if anchor is not None:
            self._sizes[anchor] = 1 + len(text) // 64  # repeating a long text costs more than one value

    def open(self, anchor: str | None) -> None:
        self.unfinished.append((anchor, self.values))
        self.values += 1

    def close(self) -> None:
        anchor, begun = self.unfinished.pop()
        if anchor is not None:
            self._sizes[anchor] = self.values - begun


@cache
def _loader() -> Any:
    """Return the safe loader, by libyaml if available, with a limit on the length of numbers."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # chosen at run time
        pass

    for kind in ("int", "float", "timestamp"):
        tag = f"tag:yaml.org,2002:{kind}"
        Loader.add_constructor(tag, _short(base.yaml_constructors[tag]))
    return Loader


def _short(construct: Any) -> Any:
    """Return a constructor that leaves long or invalid scalars as strings."""

    def constructed(loader: Any, node: Any) -> Json:
        text = loader.construct_scalar(node)
        if len(text) > _LONGEST_NUMBER:
            return text
        try:
            return construct(loader, node)
        except (ValueError, OverflowError, LookupError):  # `2024-13-45` looks like a date
            return text

    return constructed
