"""Keys of the configuration: bounds and further facts about them, kept as metadata beside their defaults;
and spans of time, as in 90s, 10m, 1.5h, 2d."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from msgspec import StructMeta

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen

LARGEST = 1_000_000.0
"""The largest number that a key takes; anything larger is a typing error."""
LONGEST_TEXT = 100_000
"""Characters of a query, and of each of its variants."""


class SettingsKey(NamedTuple):
    """A key of a section, its type in the source text, and the metadata beside its default."""

    name: str
    type: str
    metadata: Mapping[str, Any]


class _Noted(NamedTuple):
    default: Any
    metadata: Mapping[str, Any]


class _Sections(StructMeta):
    """Takes the metadata off the defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> Any:
        noted = {key: value for key, value in body.items() if isinstance(value, _Noted)}
        made: Any = super().__new__(
            cls, name, bases, body | {key: each.default for key, each in noted.items()}, **options
        )
        made.metadata = {key: each.metadata for key, each in noted.items()}
        return made


class SettingsSection(Frozen, metaclass=_Sections):
    """A section of the settings, or the settings themselves."""

    metadata: ClassVar[Mapping[str, Mapping[str, Any]]]


def keys_of(section: SettingsSection | type[SettingsSection]) -> list[SettingsKey]:
    """Return the keys of a section, in their order."""
    kind = section if isinstance(section, type) else type(section)
    return [
        SettingsKey(name, kind.__annotations__[name], kind.metadata.get(name, {})) for name in kind.__struct_fields__
    ]


def key(default: Any, **metadata: Any) -> Any:
    """A key with metadata: its bounds, `choices` (a function), `names`, `reaches` (see trust.py), `changes`."""
    return _Noted(default, metadata)


def bounded(default: float | None, low: float, high: float = LARGEST) -> Any:
    return key(default, low=low, high=high)


def reaching(way: str, *, default: Any) -> Any:
    """A key whose values may reach out of the folder of their file, which its name and its type do not tell: see
    trust.py."""
    return key(default, reaches=way)


def named(default: str, *choices: str, reaches: str | None = None) -> Any:
    """A key that takes one of these, or the name of a plug-in; `reaches` as in `reaching`."""
    way = {} if reaches is None else {"reaches": reaches}
    return key(default, choices=lambda: choices, **way)


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 366 * 86400.0


def seconds(value: object, what: str) -> float:
    """Return a span of time in seconds; `off` is 0.

    Raises:
        UsageError: it is not a span of time, or longer than a year; the message names `what`.
    """
    text = str(value).strip().lower()
    if value is False or text == "off":
        return 0.0
    number = text[:-1] if text[-1:] in _SECONDS else text
    try:
        span = float(number) * _SECONDS.get(text[-1:], 1.0)
    except ValueError:
        span = -1.0
    if isinstance(value, bool) or not 0 <= span <= _LONGEST:
        raise UsageError(f"{what} takes a span of time, not {quoted(value)}", hint="for example 90s, 10m, 2h, or off")
    return span
