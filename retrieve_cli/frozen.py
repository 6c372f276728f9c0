"""The base of frozen values: `msgspec.Struct`, which is defined in a tenth of the time of a dataclass. Every command
defines some hundreds of them at startup.

`dataclass` is the one of the standard library, for plug-ins that import it from here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, dataclass_transform

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = ["Described", "Frozen", "asdict", "dataclass", "field", "replace"]


class _DataclassFields:
    """The fields of a class as the standard library describes them, made when they are first looked at."""

    def __get__(self, _: object, kind: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
        return _described(kind)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, frozen=True):
    """A value whose fields are set once; `replace` makes a changed copy, which is checked like a new one.

    Plug-ins may use `dataclasses.replace`, `fields` and `asdict` as well.
    """

    __dataclass_fields__ = _DataclassFields()


class Described(Frozen, eq=False):
    """A frozen value with fields that do not belong to its identity: they are neither compared nor printed."""

    apart: ClassVar[tuple[str, ...]]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _values_of(self.__class__)
        return bool(values(self) == values(other))

    def __hash__(self) -> int:
        return hash(_values_of(self.__class__)(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in _names(self.__class__))
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


def asdict(value: Struct) -> dict[str, Any]:
    """Return the fields by name, including the fields of values inside of lists, tuples and mappings."""
    return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


@cache
def _described(kind: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
    written = {
        name: said for each in reversed(kind.__mro__) for name, said in vars(each).get("__annotations__", {}).items()
    }
    made: Any = dataclasses.make_dataclass(kind.__name__, [(name, written[name]) for name in kind.__struct_fields__])
    return {each.name: each for each in dataclasses.fields(made)}


def _names(kind: type[Described]) -> list[str]:
    return [name for name in kind.__struct_fields__ if name not in kind.apart]


@cache
def _values_of(kind: type[Described]) -> attrgetter[Any]:
    return attrgetter("__class__", *_names(kind))
