"""Filters as objects: the same conditions as in the filter language, and no value ever becomes part of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.queries.filters import Condition, filters_of, parse

printing = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('*?",=!<>: ')
fields = st.text(printing, min_size=1).map(lambda text: re.sub("[!=<>]", "", text).strip()).filter(bool)
texts = st.text(printing, min_size=1).filter(str.strip)


def conditions(item: dict[str, Any]) -> list[Condition]:
    return [parse(expression) for expression in filters_of(item, "it")]


@given(fields, st.lists(texts, min_size=1, max_size=3), st.sampled_from(["", "eq", "in", "not"]))
def test_a_value_is_taken_literally(field: str, values: list[str], operator: str) -> None:
    assert conditions({field: {operator: values} if operator else values}) == [
        Condition(field, "=", tuple(values), negated=operator == "not")
    ]


@given(fields, texts.filter(lambda text: not re.match("[<>]", text)))
def test_a_text_alone_is_taken_literally_too(field: str, value: str) -> None:
    assert conditions({field: value}) == [Condition(field, "=", (value,))]


@given(st.text(), st.text())
def test_an_object_is_a_filter_or_an_error(field: str, value: str) -> None:
    for given_value in (value, [value], {"not": value}, {"gte": value}):
        try:
            (condition,) = conditions({field: given_value})
        except UsageError:
            continue
        assert condition.field == field
        assert not condition.globs


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"license": "MIT"}, ["license=MIT"]),
        ({"modality": ["CT", "MRI"]}, ["modality=CT,MRI"]),
        ({"dims": ">=3"}, ["dims>=3"]),
        ({"dims": "<= 3D"}, ["dims<=3D"]),
        ({"dims": {"gte": 2, "lt": 4}}, ["dims>=2", "dims<4"]),
        ({"dims": 3}, ["dims=3"]),
        ({"open": True}, ["open=true"]),
        ({"group": {"not": "archive"}}, ["!group=archive"]),
        ({"group": {"not": ["a", "b"]}}, ["!group=a,b"]),
        ({"name": ">= half"}, ['name=">= half"']),
        ({"name": {"eq": ">=3"}}, ['name=">=3"']),
        ({"path": "guides/**"}, ['path="guides/**"']),
        ({"license": "MIT", "dims": {"gt": 2}}, ["license=MIT", "dims>2"]),
        ({}, []),
    ],
)
def test_an_object_says_what_the_language_says(item: dict[str, Any], expected: list[str]) -> None:
    assert list(filters_of(item, "it")) == expected


@pytest.mark.parametrize(
    "item",
    [
        {"": "a"}, {" a": "b"}, {"!a": "b"}, {"a!": "b"}, {"a=b": "c"}, {"a>": 3}, {"a\n": "b"}, {"a": ""}, {"a": " "},
        {"a": "b\nc"}, {"a": None}, {"a": []}, {"a": [None]}, {"a": {"gte": "many"}}, {"a": {"gte": True}},
        {"a": {"not": {"gte": 3}}}, {"a": {"$ne": "b"}}, {"a": float("nan"), "b": {"lt": float("inf")}},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_a_filter_is_an_error_that_names_the_field(item: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"of it|it has the field"):
        filters_of(item, "it")
