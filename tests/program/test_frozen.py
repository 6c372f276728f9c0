"""Classes of `retrieve_cli.frozen` behave as the standard frozen dataclasses do."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, astuple, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest

from retrieve_cli import frozen

T = TypeVar("T")
Decorate = Callable[..., Any]


def point(dataclass: Decorate, **options: Any) -> Any:
    """A class with every kind of field that the program has."""

    @dataclass(frozen=True, **options)
    class Point(Generic[T]):
        """A point."""

        x: int
        y: float = 1.5
        tags: Mapping[str, int] = field(default_factory=dict, compare=False)
        secret: str = field(default="s", repr=False, metadata={"low": 1})
        kind: ClassVar[str] = "point"

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below zero")

        @property
        def sum(self) -> float:
            return self.x + self.y

    return Point


def single(dataclass: Decorate) -> Any:
    @dataclass(frozen=True, slots=True)
    class Single:
        only: object

    return Single


def empty(dataclass: Decorate) -> Any:
    @dataclass(frozen=True)
    class Empty:
        pass

    return Empty


@frozen.dataclass(frozen=True, slots=True)
class Stored:
    """One that pickle finds by its name."""

    name: str
    items: tuple[int, ...] = ()


BOTH = pytest.mark.parametrize("slots", [False, True])


@BOTH
def test_a_value_prints_compares_and_hashes_as_a_standard_one(slots: bool) -> None:
    standard, ours = point(dataclasses.dataclass, slots=slots), point(frozen.dataclass, slots=slots)
    for given in [(1,), (1, 2.5), (1, 2.5, {"a": 1}), (1, 2.5, {}, "t")]:
        assert repr(ours(*given)).partition("<locals>")[2] == repr(standard(*given)).partition("<locals>")[2]
        assert hash(ours(*given)) == hash(standard(*given))
        for other in [(1,), (1, 2.5, {"b": 2}), (2,)]:
            assert (ours(*given) == ours(*other)) == (standard(*given) == standard(*other))
    assert ours(1) != standard(1)


@BOTH
def test_its_fields_are_those_of_a_standard_one(slots: bool) -> None:
    standard, ours = point(dataclasses.dataclass, slots=slots), point(frozen.dataclass, slots=slots)
    assert [(f.name, f.type, f.default, f.repr, dict(f.metadata)) for f in fields(ours)] == [
        (f.name, f.type, f.default, f.repr, dict(f.metadata)) for f in fields(standard)
    ]
    assert (asdict(ours(3)), astuple(ours(3))) == (asdict(standard(3)), astuple(standard(3)))
    assert ours.__match_args__ == standard.__match_args__
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(standard).parameters)
    assert get_type_hints(ours) == get_type_hints(standard)
    assert (ours.kind, ours.__doc__, hasattr(ours(1), "__dict__")) == ("point", "A point.", not slots)
    assert ours(1).tags is not ours(1).tags


@BOTH
def test_nothing_is_assigned_or_deleted(slots: bool) -> None:
    value = point(frozen.dataclass, slots=slots)(1)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(value, name, 2)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(value, name)


@BOTH
def test_a_copy_with_changes_is_checked_like_a_new_one(slots: bool) -> None:
    value = point(frozen.dataclass, slots=slots)(1)
    assert replace(value, x=4).sum == 5.5
    with pytest.raises(ValueError, match="below zero"):
        replace(value, x=-1)
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"):
        type(value)()
    assert copy.deepcopy(value) == copy.copy(value) == value


def test_a_value_survives_pickling() -> None:
    value = Stored("a", (1, 2))
    assert pickle.loads(pickle.dumps(value)) == value


def test_identity_compares_where_equality_is_switched_off() -> None:
    ours = point(frozen.dataclass, slots=True, eq=False)
    assert ours(1) != ours(1)
    assert len({ours(1), ours(1)}) == 2


def test_a_class_of_one_field_or_none_compares_by_value() -> None:
    nan = float("nan")
    for make in (single(dataclasses.dataclass), single(frozen.dataclass)):
        assert (make(nan) == make(nan), make(1) == make(1), make(1) == make(2)) == (True, True, False)
    assert hash(single(frozen.dataclass)(1)) == hash(single(dataclasses.dataclass)(1))
    none = empty(frozen.dataclass)
    assert (none() == none(), hash(none())) == (True, hash(empty(dataclasses.dataclass)()))


def test_a_method_of_the_class_itself_stays() -> None:
    @frozen.dataclass(frozen=True)
    class Named:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and other.name.lower() == self.name.lower()

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "named"

    assert Named("A") == Named("a")
    assert (hash(Named("A")), repr(Named("A"))) == (7, "named")


def test_a_standard_frozen_dataclass_can_inherit_from_one() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Child(Stored):
        more: int = 0

    assert Child("a", (1,), 2) == replace(Child("a", (1,)), more=2)
    with pytest.raises(FrozenInstanceError):
        Child("a").name = "b"  # type: ignore[misc]


def test_what_is_not_supported_is_rejected_at_the_definition() -> None:
    decorate: Decorate = frozen.dataclass
    with pytest.raises(TypeError, match="only frozen"):
        decorate(frozen=False)
    with pytest.raises(TypeError, match="inherits from a dataclass"):
        decorate(frozen=True)(type("Child", (Stored,), {}))
    for kind, default in (("int", field(default=1, kw_only=True)), ("int", field(init=False)), ("InitVar[int]", 1)):
        with pytest.raises(TypeError, match="not supported"):
            decorate(frozen=True)(type("Odd", (), {"__annotations__": {"a": kind}, "a": default}))


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, frozen.dataclass])
def test_what_is_wrong_with_a_class_is_said_at_the_definition(dataclass: Decorate) -> None:
    for kinds, values in (
        ({"a": "int", "b": "int"}, {"a": 1}),
        ({"a": "int", "b": "int"}, {"a": field(default_factory=int)}),
        ({}, {"a": field(default=1)}),
    ):
        with pytest.raises(TypeError, match=r"non-default argument 'b'|'a' is a field but has no type"):
            dataclass(frozen=True)(type("Odd", (), {"__annotations__": kinds, **values}))
    with pytest.raises(ValueError, match="mutable default <class 'list'> for field a"):
        dataclass(frozen=True)(type("Odd", (), {"__annotations__": {"a": "list"}, "a": []}))


@BOTH
def test_a_class_is_compiled_when_several_values_are_made(slots: bool) -> None:
    made = point(frozen.dataclass, slots=slots)
    values = [made(1), made(x=1, y=1.5), made(1, secret="s")]
    assert not inspect.isfunction(vars(made)["__init__"])
    values += [made(1), made(1, 1.5, {}, "s")]
    assert inspect.isfunction(vars(made)["__init__"])
    assert all(value == values[0] and value.tags == {} for value in values)
    assert len({id(value.tags) for value in values}) == len(values)


WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((), {"y": 1.0}), ((1, 2.0, {}, "s", 5), {}), ((1,), {"x": 1}), ((1,), {"z": 1}),
    ((1,), {"self": 1}), ((-1,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "named"), WRONG)
def test_wrong_arguments_are_rejected_in_the_same_words_by_the_first_value_and_the_last(
    given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    said = []
    for dataclass, values in ((dataclasses.dataclass, 0), (frozen.dataclass, 0), (frozen.dataclass, 9)):
        made = point(dataclass)
        for _ in range(values):
            made(1)
        with pytest.raises((TypeError, ValueError)) as caught:
            made(*given, **named)
        said.append(str(caught.value))
    assert len(set(said)) == 1


def test_a_class_that_inherits_without_being_a_dataclass_is_made_and_compared_alike() -> None:
    class Child(Stored):
        def __init__(self, name: str) -> None:
            super().__init__(name.upper(), (1,))

    assert (Child("a").name, Child("a").items) == ("A", (1,))
    assert Child("a") == Child("a")
    assert Child("a") != Stored("A", (1,))


def test_threads_that_make_the_first_values_at_once_get_equal_ones() -> None:
    for _ in range(50):
        made = point(frozen.dataclass, slots=True)
        with ThreadPoolExecutor(4) as workers:
            assert set(workers.map(made, [1] * 8)) == {made(1)}
