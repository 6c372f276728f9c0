"""Frozen values are set once, compared by what they are, printed as what made them, copied and stored."""

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from retrieve_cli.frozen import Described, Frozen, asdict, field, replace

T = TypeVar("T")


class Point(Frozen, Generic[T]):
    """A point."""

    x: int
    y: float = 1.5
    tags: Mapping[str, int] = {}
    kind: ClassVar[str] = "point"

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("below zero")

    @property
    def sum(self) -> float:
        return self.x + self.y


class Asked(Described):
    """A question, in a language that does not matter."""

    apart: ClassVar = ("language", "found")

    text: str
    language: str = "en"
    found: list[int] = field(default_factory=list)
    limits: tuple[int, ...] = ()


def test_what_does_not_belong_to_a_value_is_neither_compared_nor_printed() -> None:
    assert Asked("a", "de", [1]) == Asked("a")
    assert Asked("a", limits=(1,)) != Asked("a")
    assert repr(Asked("a", "de", [1], (1,))) == "Asked(text='a', limits=(1,))"
    nan = float("nan")
    assert Asked("a", limits=(nan,)) == Asked("a", limits=(nan,))  # type: ignore[arg-type]


def test_nothing_is_assigned_or_deleted() -> None:
    for value in (Point(1), Asked("a")):
        for name in (value.__struct_fields__[0], "other"):
            with pytest.raises(AttributeError, match=r"immutable type|has no attribute"):
                setattr(value, name, 2)
            with pytest.raises(AttributeError, match=r"immutable type|has no attribute"):
                delattr(value, name)


def test_a_copy_with_changes_is_checked_like_a_new_one() -> None:
    value: Point[int] = Point(1)
    assert replace(value, x=4).sum == 5.5
    with pytest.raises(ValueError, match="below zero"):
        replace(value, x=-1)
    assert copy.deepcopy(value) == copy.copy(value) == value
    assert value.tags is not Point(1).tags
    assert Asked("a").found is not Asked("a").found


@pytest.mark.parametrize("value", [Point(1, 2.5, {"a": 1}), Asked("a", "de", [1], (2,))])
def test_a_value_survives_pickling(value: Any) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert (again, asdict(again)) == (value, asdict(value))


def test_functions_of_the_standard_library_take_frozen_values() -> None:
    asked = Asked("lungs", found=[1])
    assert dataclasses.is_dataclass(asked)
    assert [each.name for each in dataclasses.fields(Asked)] == ["text", "language", "found", "limits"]
    assert dataclasses.replace(asked, text="heart") == Asked("heart")
    assert dataclasses.replace(asked, text="heart").found == [1]
    assert dataclasses.asdict(asked) == asdict(asked)
    with pytest.raises(ValueError, match="below zero"):
        dataclasses.replace(Point(1), x=-1)
