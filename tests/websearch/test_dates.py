"""Dates with the precision that is known."""

import pytest

from retrieve_cli.websearch import dates


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
