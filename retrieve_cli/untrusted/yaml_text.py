"""YAML from outside, read within bounds of depth and size.

libyaml's constructor recurses on the C stack, so 50,000 opening brackets end the process; a page of aliases expands to
billions of values; and Python's integers take quadratic time to read. Therefore the events of the parser are counted
first, without recursion, and only a document within the bounds is constructed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import shortened

_LONGEST_NUMBER = 64
"""Maximum characters of a scalar that is read as a number; longer ones stay strings."""
_LONGEST_MESSAGE = 300
"""Maximum characters of the parser's message."""
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""Plain scalars that are not strings or numbers (YAML 1.2.2, 10.3.2)."""
_INTEGER = r"[-+]?[0-9]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_PRINTED = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_SIMPLE = re.compile("[A-Za-z0-9/][A-Za-z0-9_./-]*")
Number = Callable[[str], int | float | None]


def core_number(text: str) -> int | float | None:
    """Return the number that a plain scalar is in the core schema of YAML 1.2; None for other texts."""
    if text.lower().lstrip("+-") in (".inf", ".nan"):
        return float(text.replace(".", ""))
    if re.fullmatch(_INTEGER, text):
        return int(text)
    return float(text) if re.fullmatch(_FLOAT, text) else None


def printed_number(text: str) -> int | float | None:
    """Return the number that JSON would print as this text; None for all others: `01234` is a code, `1.10` a version,
    and `12:30:45` a time."""
    if not re.fullmatch(_PRINTED, text):
        return None
    number: int | float = json.loads(text)
    return number if json.dumps(number) == text else None


def load(text: str, *, values: int, levels: int = 64, number: Number = core_number) -> Json:
    """Return the value of a YAML document by the rules of YAML 1.2: `on`, `no` and dates are strings. `number` reads
    the plain scalars that may be numbers.

    Raises:
        ValueError: it is not valid YAML, nested deeper than `levels`, or has more than `values` values after expanding
            its aliases; the message is one line.
    """
    if _SIMPLE.fullmatch(text):  # a variable of the environment: the parser takes 15 ms to load
        return _plain(text, number)
    import yaml

    try:
        _check(text, values, levels)
        return yaml.load(text, _loader(number))  # noqa: S506  a safe loader
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(shortened(str(error), _LONGEST_MESSAGE)) from error
    except Exception as error:  # the constructors of tags fail in many ways: KeyError, IndexError, TypeError
        raise ValueError(f"a value does not match its tag ({shortened(str(error))})") from error


def _plain(text: str, number: Number) -> Json:
    """Return the value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    found = number(text) if len(text) <= _LONGEST_NUMBER else None
    return text if found is None else found


def _check(text: str, values: int, levels: int) -> None:
    """Count the values of the expanded document, event by event.

    Raises:
        ValueError: it is nested too deeply, or too large.
    """
    import yaml

    count = _Count()
    for event in yaml.parse(text, _loader(core_number)):
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
def _loader(number: Number) -> Any:
    """Return the safe loader, by libyaml if available, which reads plain scalars by the rules of YAML 1.2."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # chosen at run time
        yaml_implicit_resolvers: dict[str | None, list[Any]] = {}  # noqa: RUF012  as the base class has it

    Loader.add_implicit_resolver("!plain", re.compile(""), None)
    Loader.add_constructor("!plain", lambda _, node: _plain(node.value, number))
    return Loader
