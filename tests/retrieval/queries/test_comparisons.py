"""Comparisons that other programs send keep exactly the records that they describe, or are an error."""

from collections.abc import Callable, Iterator
from operator import contains, ge, gt, le, lt
from typing import Any

import pytest
from hypothesis import given, strategies as st
from servers import built

import retrieve_cli
from retrieve_cli.api.comparisons import Comparison, Junction, filters_of
from retrieve_cli.api.index import Index
from retrieve_cli.errors import UsageError

RECORDS: list[dict[str, Any]] = [
    {"colour": "red", "size": 3, "open": True, "tags": ["a,b", 'say "x"']},
    {"colour": "Dark red", "size": 3.0, "open": False, "tags": ["=a"]},
    {"colour": "blue", "size": 2.5, "tags": ["plain", "red"]},
    {"colour": "*", "size": -4, "open": True},
    {"size": 1e21, "colour": "a?b"},
    {"open": False, "tags": ["x"]},
]
WORDS = ["red", "Dark red", "blue", "*", "a?b", "a,b", 'say "x"', "=a", "plain", "none", " red "]
NUMBERS = [3, 3.0, 2.5, -4, 1e21, 0]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    rows = [{"id": f"r{n}", "name": f"record {n}", "metadata": record} for n, record in enumerate(RECORDS)]
    with retrieve_cli.open(built(tmp_path_factory.mktemp("comparisons"), rows)) as opened:
        yield opened


ORDERS: dict[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
PARTS: dict[str, Callable[[str, str], bool]] = {
    "contains": contains,
    "not contains": contains,
    "starts": str.startswith,
    "ends": str.endswith,
}


def holds(comparison: Comparison, record: dict[str, Any]) -> bool:
    """A comparison, evaluated plainly."""
    relation, value = comparison.relation, record.get(comparison.field)
    own = [folded(item) for item in (value if isinstance(value, list) else [] if value is None else [value])]
    wanted = [folded(item) for item in comparison.values]
    if relation in ORDERS:
        return any(type(item) in (int, float) and ORDERS[relation](item, wanted[0]) for item in own)
    if relation in PARTS:
        texts = [item for item in own if isinstance(item, str)]
        return any(PARTS[relation](text, part) for text in texts for part in wanted) is not relation.startswith("not")
    if relation in ("empty", "not empty"):
        return bool(own) is (relation == "not empty")
    kinds = [(isinstance(item, bool), item) for item in own]
    return any((isinstance(item, bool), item) in kinds for item in wanted) is (relation == "=")


def folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def evaluated(tree: Comparison | Junction, record: dict[str, Any]) -> bool:
    if isinstance(tree, Comparison):
        return holds(tree, record)
    parts = [evaluated(part, record) for part in tree.parts]
    return all(parts) if tree.operator == "and" else any(parts)


words, numbers, parts = (st.sampled_from(values) for values in (WORDS, NUMBERS, ["red", "d", "b", " re"]))
textual, equality = st.sampled_from(["colour", "tags"]), st.sampled_from(["=", "!="])
any_field, presence = st.sampled_from(["colour", "size", "open"]), st.sampled_from(["empty", "not empty"])
comparisons = st.one_of(
    st.builds(Comparison, textual, equality, st.lists(words, min_size=1, max_size=3)),
    st.builds(Comparison, st.just("size"), equality, st.lists(numbers, min_size=1, max_size=2)),
    st.builds(Comparison, st.just("open"), equality, st.lists(st.booleans(), min_size=1)),
    st.builds(Comparison, st.just("size"), st.sampled_from(list(ORDERS)), st.lists(numbers, min_size=1)),
    st.builds(Comparison, textual, st.sampled_from(list(PARTS)), st.lists(parts, min_size=1, max_size=2)),
    st.builds(Comparison, any_field, presence, st.just(())),
)
trees = st.recursive(
    comparisons,
    lambda inner: st.builds(Junction, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=5,
)


@given(trees)
def test_the_filters_of_a_comparison_keep_exactly_its_records(index: Index, tree: Comparison | Junction) -> None:
    try:
        filters = filters_of(tree)
    except UsageError:
        return  # said, and never dropped
    kept = {row["id"] for row in index.records(filters=filters)}
    assert kept == {f"r{number}" for number, record in enumerate(RECORDS) if evaluated(tree, record)}, filters


@pytest.mark.parametrize(
    "tree",
    [
        Junction("or", [Comparison("colour", "=", ["red"]), Comparison("size", "=", [3])]),
        Junction("or", [Comparison("colour", "!=", ["red"]), Comparison("colour", "!=", ["blue"])]),
        Junction("or", [Comparison("size", ">", [3]), Comparison("size", "<", [1])]),
        Junction("or", []),
        Comparison("colour", "=", []),
        Comparison("colour", "=", [""]),
        Comparison("colour", "=", [None]),
        Comparison("colour", ">", ["2024-01-01"]),
        Comparison("colour", "contains", ["a*b"]),
        Comparison("colour", "contains", ["a,b"]),
        Comparison("path", "contains", ["guides"]),
        Comparison("!colour", "=", ["red"]),
        Comparison("a=b", "=", ["red"]),
        Comparison("", "=", ["red"]),
        Comparison("colour\n", "=", ["red"]),
    ],
)
def test_a_comparison_that_cannot_be_expressed_is_an_error(tree: Comparison | Junction) -> None:
    with pytest.raises(UsageError):
        filters_of(tree)
