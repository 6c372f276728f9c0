"""Dates with the precision that is known."""

from datetime import date

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.websearch import dates


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("2024", "Mar", "5"), "2024-03-05"),
        ((2024, 3, 5), "2024-03-05"),
        (("2024", "September"), "2024-09"),
        (("2024", "13", "5"), "2024"),
        (("2024", "2", "30"), "2024-02"),
        (("2024", "", "5"), "2024"),
        (("24", "3", "5"), ""),
        (("next year", "3"), ""),
    ],
)
def test_parts_that_make_no_date_are_left_out(parts: tuple[str | int, ...], expected: str) -> None:
    assert dates.of_parts(*parts) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", "2024"),
        ("2024-03", "2024-03"),
        ("2024/3/5", "2024-03-05"),
        ("2024-03-05T10:00:00Z", "2024-03-05"),
        ("20240305", ""),
        ("Spring 2024", ""),
        ("", ""),
    ],
)
def test_the_date_at_the_beginning_of_a_text_is_read(text: str, expected: str) -> None:
    assert dates.of_text(text) == expected


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("2024", "2024-06-01", True),
        ("2023", "2024", False),
        ("2024-05", "2024-06", False),
        ("2024-06-01", "2024-06", True),
        ("", "2024", True),
        ("2024", "", True),
    ],
)
def test_dates_are_compared_as_far_as_both_are_known(text: str, since: str, *, expected: bool) -> None:
    assert dates.is_since(text, since) is expected


@given(st.dates(min_value=date(1000, 1, 1), max_value=date(2200, 12, 31)))
def test_every_day_is_read_as_written(day: date) -> None:
    text = str(day)
    year, month, number = text.split("-")
    assert dates.of_text(text) == dates.of_parts(year, month, number) == text
