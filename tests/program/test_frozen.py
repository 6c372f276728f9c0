"""Frozen values are set once, compared by what they are, printed as what made them, copied and stored."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest

from retrieve_cli import frozen
from retrieve_cli.api.answers import IndexResult
from retrieve_cli.config.bounds import SettingsKey, SettingsSection, bounded, key, keys_of
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


class Named(Frozen):
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "named"


class Same(Frozen, eq=False):
    items: list[int]


class Empty(Frozen):
    pass


@pytest.mark.parametrize("made", [Point, Asked])
def test_values_of_equal_fields_are_equal_and_those_of_other_classes_are_not(made: Any) -> None:
    assert (made(1) == made(1), made(1) == made(2), made(1) == made(1, 2.5)) == (True, False, made is Asked)
    assert made(1) != Empty()
    assert Empty() == Empty()
    assert len({Asked("a"), Asked("a", "de"), Asked("b")}) == 2
    assert hash(Empty()) == hash(Empty())


def test_a_value_prints_as_the_call_that_made_it() -> None:
    assert repr(Point(1, 2.5)) == "Point(x=1, y=2.5, tags={})"
    assert eval(repr(Point(1, 2.5))) == Point(1, 2.5)


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


@pytest.mark.parametrize("value", [Point(1, 2.5, {"a": 1}), Asked("a", "de", [1], (2,)), Named("a"), Empty()])
def test_a_value_survives_pickling(value: Any) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert (again, asdict(again)) == (value, asdict(value))


def test_identity_compares_where_equality_is_switched_off() -> None:
    assert Same([1]) != Same([1])
    assert len({Same([1]), Same([1])}) == 2


def test_a_method_of_the_class_itself_stays() -> None:
    assert Named("A") == Named("a")
    assert (hash(Named("A")), repr(Named("A"))) == (7, "named")


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), ((), {"y": 1.0}), ((1, 2.0, {}, 5), {}), ((1,), {"x": 1}), ((1,), {"z": 1})]
)
def test_wrong_arguments_are_rejected(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"[Aa]rgument"):
        Point(*given, **named)


def test_a_class_says_what_it_takes() -> None:
    assert list(inspect.signature(Point).parameters) == ["x", "y", "tags"]
    assert Point.__match_args__ == ("x", "y", "tags")
    assert get_type_hints(Point)["y"] is float
    assert (Point.kind, Point.__doc__, hasattr(Point(1), "__dict__")) == ("point", "A point.", False)


def test_values_inside_of_values_become_mappings_too() -> None:
    inner = Point(1, 2.0, {"a": 1})
    flat = {"x": 1, "y": 2.0, "tags": {"a": 1}}
    made = asdict(Same([inner, (inner, 3), {"b": inner}]))  # type: ignore[list-item]
    assert made == {"items": [flat, (flat, 3), {"b": flat}]}
    assert made["items"][0]["tags"] is not inner.tags


def test_keys_of_a_section_keep_what_is_said_beside_their_defaults() -> None:
    class Section(SettingsSection):
        kind: str = key(field(), names=("a",))
        size: int = bounded(3, 1, 5)
        plain: bool = True

    assert Section("a") == Section("a", 3, plain=True)
    with pytest.raises(TypeError, match="kind"):
        Section()
    assert keys_of(Section) == [
        SettingsKey("kind", str, {"names": ("a",)}),  # type: ignore[arg-type]
        SettingsKey("size", int, {"low": 1, "high": 5}),  # type: ignore[arg-type]
        SettingsKey("plain", bool, {}),  # type: ignore[arg-type]
    ]


def test_a_provider_of_a_plug_in_may_be_a_dataclass_of_the_standard_library() -> None:
    assert frozen.dataclass is dataclasses.dataclass


def test_functions_of_the_standard_library_take_frozen_values() -> None:
    asked = Asked("lungs", found=[1])
    assert dataclasses.is_dataclass(asked)
    assert [each.name for each in dataclasses.fields(Asked)] == ["text", "language", "found", "limits"]
    assert dataclasses.replace(asked, text="heart") == Asked("heart")
    assert dataclasses.replace(asked, text="heart").found == [1]
    assert dataclasses.asdict(asked) == asdict(asked)
    with pytest.raises(ValueError, match="below zero"):
        dataclasses.replace(Point(1), x=-1)
    for kind in every_kind(Frozen):  # also those with names that only a type checker knows
        if kind is IndexResult:  # a mapping, of whose keys pandas makes the columns
            continue
        assert [each.name for each in dataclasses.fields(kind)] == list(kind.__struct_fields__)


def every_kind(kind: type[Frozen]) -> list[type[Frozen]]:
    """All classes of frozen values that are loaded."""
    return [each for own in kind.__subclasses__() for each in (own, *every_kind(own))]
