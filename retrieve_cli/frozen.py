"""`dataclass` for frozen classes, made in a quarter of the time: every command defines a hundred of them at its start.

The standard library compiles seven methods a class from source, one by one. Here one is compiled, `__init__`, and the
others are shared. Type checkers see the standard `dataclass`; `fields`, `replace`, `asdict`, `copy` and `pickle` take
the classes as its own. tests/program/test_frozen.py holds both to the same behaviour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
        """Return the decorator of a class whose fields are set by `__init__` and never again.

        Raises:
            TypeError: the class asks for something that is not supported here.
        """
        if not frozen:
            raise TypeError("only frozen classes are supported; take the standard `dataclass`")

        def decorate(cls: type) -> type:
            if any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__):
                raise TypeError(f"{cls.__qualname__} inherits from a dataclass, which is not supported")
            own = {name for name, value in vars(cls).items() if value is not None}
            cls.__doc__ = cls.__doc__ or cls.__qualname__  # or the standard one would put a signature together
            made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
            made.__dataclass_params__.frozen = True  # a standard frozen dataclass may inherit from it
            methods = {
                "__init__": _init(made),
                **_SHARED,
                **(_STATE if slots else {}),
                **(_compared(made) if eq else {}),
            }
            for name, method in methods.items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return decorate


def _init(cls: type[Any]) -> Callable[..., None]:
    """Return `__init__` of a class, compiled from its fields."""
    names: dict[str, Any] = {"__set": object.__setattr__, "__missing": MISSING}
    parameters, body = ["self"], []
    for field in fields(cls):
        name = value = field.name
        if not field.init or field.kw_only or field.hash is not None:
            raise TypeError(f"{cls.__qualname__}.{name}: `init`, `kw_only` and `hash` are not supported")
        if field.default_factory is not MISSING:
            names[f"__make_{name}"] = field.default_factory
            parameters.append(f"{name}=__missing")
            value = f"__make_{name}() if {name} is __missing else {name}"
        elif field.default is not MISSING:
            names[f"__default_{name}"] = field.default
            parameters.append(f"{name}=__default_{name}")
        else:
            parameters.append(name)
        body.append(f"__set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(source, names)  # noqa: S102  of the names of fields alone, as the standard library does
    made: Callable[..., None] = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields(cls)} | {"return": None}
    return made


def _compared(cls: type[Any]) -> dict[str, Callable[..., Any]]:
    """Return `__eq__` and `__hash__` over the fields of a class that are compared."""
    names = [field.name for field in fields(cls) if field.compare]
    values: Callable[[Any], Any] = attrgetter(*names) if len(names) > 1 else _few(names)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _few(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of the values of one field, or of none, as a tuple."""
    return lambda value: tuple(getattr(value, name) for name in names)


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_setting(_: Any, name: str, __: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__repr__": _repr,
    "__setattr__": _refuse_setting,
    "__delattr__": _refuse_deleting,
}
_STATE: dict[str, Callable[..., Any]] = {"__getstate__": _state, "__setstate__": _set_state}
"""How a value with slots, which has no `__dict__`, is copied and pickled."""
