"""Conditions against plain Python: what a record has, read in the simplest way, and globs by trying all there is."""

from __future__ import annotations

import operator as operators
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from column_samples import Row, columns, dimensions, row_values, tables, texts
from hypothesis import assume, given, strategies as st

from retrieve_cli.contracts.canonical import canonical, meanings
from retrieve_cli.errors import UsageError

globs = st.text("aAb/*?. ", min_size=1, max_size=7) | st.lists(
    st.sampled_from(["**", "a", "*", "a*", "?"]), min_size=1, max_size=5
).map("/".join)
fields = st.sampled_from(["id", "path", "license", "keyword", "dimension", "x", "y.z", "metadata.license", "é", "kind"])
COMPARISONS = {">=": operators.ge, "<=": operators.le, ">": operators.gt, "<": operators.lt}


def spelt(value: Any) -> list[str]:
    """A value as the texts that it is compared by."""
    if isinstance(value, list):
        return [text for part in value for text in spelt(part)]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [] if value is None else [str(value)]


def held(row: Row, field: str) -> list[str]:
    """What a record has in a field, read from its row in the simplest way."""
    extra: dict[str, list[str]] = {}
    for key, value in row["metadata"].items():
        for name, part in ((f"{key}.{k}", v) for k, v in value.items()) if isinstance(value, dict) else [(key, value)]:
            extra.setdefault(name, []).extend(spelt(part))
    path = row["id"] if row["kind"] == "catalog" else row["source"]
    own = {
        "id": [row["id"]],
        "path": [path],
        "kind": [row["kind"]],
        "license": spelt(row["license"]) or extra.get("license", []),
        "keyword": row["keywords"] or extra.get("Keywords", []),
        "dimension": row["supporting_data"]["dimensions"],
    }
    return own[field] if field in own else extra.get(field.removeprefix("metadata."), [])


def number(field: str, text: str) -> float | None:
    try:
        return float(re.sub(r"-?[dD]$", "", text) if field == "dimension" else text)
    except ValueError:
        return None


def matches(pattern: str, text: str) -> bool:
    """Whether a glob without parts matches, by trying all there is."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return matches(pattern[1:], text) or (text != "" and matches(pattern, text[1:]))
    return text != "" and pattern[0] in ("?", text[0]) and matches(pattern[1:], text[1:])


def matches_path(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        below = pattern == ["**"] and "/".join(path) != ""
        return below or any(
            matches_path(pattern[1:], path[skipped:]) for skipped in range(len(path) if pattern[1:] else 0)
        )
    return path != [] and matches(pattern[0], path[0]) and matches_path(pattern[1:], path[1:])


def same(field: str, wanted: str, text: str) -> bool:
    alike = field == "dimension" and number(field, wanted) is not None and number(field, wanted) == number(field, text)
    return alike or canonical(text) in meanings(wanted)


def known(table: Sequence[Row], field: str) -> bool:
    return field in ("id", "path", "kind", "license", "keyword", "dimension") or any(held(row, field) for row in table)


@given(tables, fields, st.lists(texts | dimensions, min_size=1, max_size=2), st.booleans())
def test_equality_is_that_of_plain_python(table: list[Row], field: str, wanted: list[str], differs: bool) -> None:
    assume(known(table, field))
    expected = [any(same(field, value, text) for value in wanted for text in held(row, field)) for row in table]

    found = columns(table).select(field, "!=" if differs else "=", wanted)

    assert found.dtype == np.bool_
    assert found.tolist() == [value != differs for value in expected]


@given(tables, fields, globs)
def test_globs_are_those_of_plain_python(table: list[Row], field: str, glob: str) -> None:
    assume(known(table, field))
    folded = glob.casefold()
    if field == "path":
        parts = folded.removeprefix("./").split("/")
        expected = [any(matches_path(parts, text.casefold().split("/")) for text in held(row, field)) for row in table]
    else:
        expected = [any(matches(folded, text.casefold()) for text in held(row, field)) for row in table]

    assert columns(table).select(field, "=", [glob], globs={glob}).tolist() == expected


@given(tables, fields, st.sampled_from(list(COMPARISONS)), st.sampled_from(["3", "0.5", "-2", "1e16", "2D"]))
def test_comparisons_are_those_of_plain_python(table: list[Row], field: str, operator: str, bound: str) -> None:
    assume(
        known(table, field) or not any(isinstance(value, dict) for row in table for value in row["metadata"].values())
    )
    limit = number(field, bound)
    numbers = [[number(field, text) for text in held(row, field)] for row in table]

    if limit is None or not any(value is not None for found in numbers for value in found):
        with pytest.raises(UsageError):
            columns(table).select(field, operator, [bound])
    else:
        compare = COMPARISONS[operator]
        expected = [any(value is not None and compare(value, limit) for value in found) for found in numbers]
        assert columns(table).select(field, operator, [bound]).tolist() == expected


@given(tables, fields)
def test_values_and_counts_are_those_of_the_records(table: list[Row], field: str) -> None:
    assume(known(table, field))
    opened = columns(table)
    distinct = [list({canonical(text): None for text in held(row, field)}) for row in table]

    assert [[canonical(text) for text in row_values(opened, field, place)] for place in range(len(table))] == distinct
    counts = opened.find(field).counts()
    assert {canonical(text): count for text, count in counts.items()} == Counter(
        text for row in distinct for text in row
    )
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
