"""`dataclass` for frozen classes, defined in a tenth of the time: every command defines a hundred of them at startup.

The standard library compiles seven methods per class from source. Here only `__init__` is compiled, once several values
were created, and the other methods are shared; the standard library computes `fields` when they are first read. Type
checkers see the standard `dataclass`, and `fields`, `replace`, `asdict`, `copy` and `pickle` accept the classes.
tests/program/test_frozen.py checks that the behaviour is the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
        """Return a decorator for a class whose fields are set only by `__init__`.

        Raises:
            TypeError: the class uses an unsupported feature.
            ValueError: a default is mutable.
        """
        if not frozen:
            raise TypeError("only frozen classes are supported; use the standard `dataclass`")

        def decorate(cls: type) -> type:
            if any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__):
                raise TypeError(f"{cls.__qualname__} inherits from a dataclass, which is not supported")
            declared = _declared(cls)
            members = {
                "__match_args__": tuple(declared),
                "__dataclass_params__": _PARAMETERS,
                **_SHARED,
                **(_STATE if slots else {}),
                **(_compared(declared) if eq else {}),
            }
            own = vars(cls)
            members = {name: member for name, member in members.items() if own.get(name) is None}
            made = _with_slots(cls, declared, members) if slots else _without_slots(cls, declared, members)
            if own.get("__init__") is None:
                made.__init__ = _LaterInit(made, declared)
            made.__dataclass_fields__ = _Later(made, "__dataclass_fields__", lambda: _fields(made, declared))
            return made

        return decorate


class _Later:
    """A member of a class that is created on first use."""

    def __init__(self, cls: type, name: str, make: Callable[[], Any]) -> None:
        self._cls = cls
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: type) -> Any:
        member = self._make()
        setattr(self._cls, self._name, member)
        return member.__get__(instance, owner) if hasattr(member, "__get__") else member


class _LaterInit:
    """`__init__` of a class: the first few values are filled in without compiling it."""

    def __init__(self, cls: type[Any], declared: Mapping[str, Any]) -> None:
        self._cls = cls
        self._declared = declared
        self._made = 0

    def __get__(self, instance: Any, owner: type) -> Callable[..., None]:
        self._made += 1
        return self._compiled(instance) if instance is None or self._made > _FEW else partial(self._fill, instance)

    def _compiled(self, instance: Any) -> Callable[..., None]:
        init: Any = _init(self._cls, self._declared)
        self._cls.__init__ = init
        bound: Callable[..., None] = init.__get__(instance, self._cls)
        return bound

    def _fill(self, instance: Any, /, *given: Any, **named: Any) -> None:
        values = dict(zip(self._declared, given, strict=False)) | named
        if len(values) < len(given) + len(named) or not values.keys() <= self._declared.keys():
            self._compiled(instance)(*given, **named)  # raises the error
            return
        for name, default in self._declared.items():
            if name not in values:
                values[name] = _default(default)
        if any(value is MISSING for value in values.values()):
            self._compiled(instance)(*given, **named)
            return
        for name in self._declared:
            object.__setattr__(instance, name, values[name])
        if hasattr(self._cls, "__post_init__"):
            instance.__post_init__()


class _Parameters:
    """Parameters that the standard library reads from a dataclass when another one inherits from it."""

    init = repr = eq = frozen = match_args = True
    order = unsafe_hash = kw_only = slots = weakref_slot = False


_PARAMETERS = _Parameters()
_FEW = 3
"""Number of values up to which filling them in costs less than compiling `__init__`."""


def _declared(cls: type) -> dict[str, Any]:
    """Return for each field its default, its `field()`, or MISSING."""
    own, kinds = vars(cls), cls.__annotations__
    declared: dict[str, Any] = {}
    optional = False
    for name, kind in kinds.items():
        if _of_the_class(kind):
            continue
        declared[name] = default = own.get(name, MISSING)
        if isinstance(default, Field):
            if not default.init or default.kw_only not in (MISSING, False) or default.hash is not None:
                raise TypeError(f"{cls.__qualname__}.{name}: `init`, `kw_only` and `hash` are not supported")
            default = default.default if default.default_factory is MISSING else None
        if type(default).__hash__ is None:
            raise ValueError(f"mutable default {type(default)} for field {name} is not allowed: use default_factory")
        if optional and default is MISSING:
            raise TypeError(f"non-default argument {name!r} follows default argument")
        optional = default is not MISSING
    if loose := [name for name, value in own.items() if isinstance(value, Field) and name not in kinds]:
        raise TypeError(f"{loose[0]!r} is a field but has no type annotation")
    return declared


def _of_the_class(kind: object) -> bool:
    """Return True for the annotation of a class variable."""
    if isinstance(kind, str):
        if kind.startswith(("InitVar", "KW_ONLY", "dataclasses.")):
            raise TypeError(f"{kind} is not supported")
        return kind.startswith(("ClassVar", "typing.ClassVar"))
    return kind is ClassVar or get_origin(kind) is ClassVar


def _with_slots(cls: Any, declared: Mapping[str, Any], members: Mapping[str, Any]) -> Any:
    """Return a copy of the class with slots for its fields."""
    inherited = {name for base in cls.__mro__[1:-1] for name in _slots(base)}
    dropped = {*declared, "__dict__", "__weakref__"}
    body = {name: member for name, member in vars(cls).items() if name not in dropped}
    body |= {**members, "__slots__": tuple(name for name in declared if name not in inherited)}
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _slots(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _without_slots(cls: Any, declared: Mapping[str, Any], members: Mapping[str, Any]) -> Any:
    """Return the class, with its fields in the `__dict__` of its values."""
    for name, default in declared.items():
        if isinstance(default, Field) and default.default is MISSING:
            delattr(cls, name)
        elif isinstance(default, Field):
            setattr(cls, name, default.default)
    for name, member in members.items():
        setattr(cls, name, member)
    return cls


def _fields(cls: type, declared: Mapping[str, Any]) -> Any:
    """Return the `Field` objects that the standard library creates for these fields."""
    body = {name: default for name, default in declared.items() if default is not MISSING}
    kinds = {name: cls.__annotations__[name] for name in declared}
    copy: Any = type(cls.__name__, (), {**body, "__annotations__": kinds, "__module__": cls.__module__, "__doc__": "-"})
    return dataclasses.dataclass(copy, init=False, repr=False, eq=False).__dataclass_fields__


def _default(given: Any) -> Any:
    """Return the default value of a field; MISSING if there is none."""
    if not isinstance(given, Field):
        return given
    return given.default if given.default_factory is MISSING else given.default_factory()


def _init(cls: type, declared: Mapping[str, Any]) -> Callable[..., None]:
    """Return `__init__` of a class, compiled from its fields."""
    names: dict[str, Any] = {"__set": object.__setattr__, "__missing": MISSING}
    parameters, body = ["self"], []
    for name, given in declared.items():
        value = name
        factory, default = (given.default_factory, given.default) if isinstance(given, Field) else (MISSING, given)
        if factory is not MISSING:
            names[f"__make_{name}"] = factory
            parameters.append(f"{name}=__missing")
            value = f"__make_{name}() if {name} is __missing else {name}"
        elif default is not MISSING:
            names[f"__default_{name}"] = default
            parameters.append(f"{name}=__default_{name}")
        else:
            parameters.append(name)
        body.append(f"__set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(source, names)  # noqa: S102  only names of fields, as in the standard library
    made: Callable[..., None] = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {name: cls.__annotations__[name] for name in declared} | {"return": None}
    return made


def _compared(declared: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return `__eq__` and `__hash__` over the fields that take part in comparisons."""
    names = [name for name, default in declared.items() if not isinstance(default, Field) or default.compare]
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


def _reject_setting(_: Any, name: str, __: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _reject_deleting(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__repr__": _repr,
    "__setattr__": _reject_setting,
    "__delattr__": _reject_deleting,
    "__replace__": dataclasses.replace,
}
_STATE: dict[str, Callable[..., Any]] = {"__getstate__": _state, "__setstate__": _set_state}
"""Functions for copying and pickling values with slots, which have no `__dict__`."""
