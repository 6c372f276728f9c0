"""Equality of values: numbers as numbers, dates as dates, texts by NFC and case."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from unicodedata import normalize

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts.canonical import canonical, displayed, meanings, range_of

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime.fromisoformat("1000-01-02"), datetime.fromisoformat("9000-01-01"))


@given(st.integers(-(2**53), 2**53))
def test_an_integer_is_equal_to_its_float(number: int) -> None:
    assert canonical(str(number)) == canonical(repr(float(number)))


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_printed_numbers_are_equal_exactly_if_they_are_equal_as_numbers(one: float, other: float) -> None:
    assert (canonical(repr(one)) == canonical(repr(other))) is (one == other)
    assert canonical(canonical(repr(one))) == canonical(repr(one))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32).map(abs))
def test_a_person_may_write_a_number_in_any_way(number: float) -> None:
    for written in (f"{number:e}", f"+{number!r}", f"{number:.60f}", f"{number:E}"):
        if float(written) == number:
            assert canonical(repr(number)) in meanings(written)


@pytest.mark.parametrize("text", ["007", "1.10", "1e1", "1,200", "v2", "2024-13-01", "24:00", "--", "1.2.3", "0x10"])
def test_codes_and_versions_are_texts(text: str) -> None:
    assert canonical(text) == text
    assert displayed(text) == text


@given(MOMENTS, ZONES, ZONES)
def test_a_moment_is_equal_to_itself_in_every_zone(moment: datetime, one: timezone, other: timezone) -> None:
    here = moment.replace(tzinfo=one)
    there = here.astimezone(other)
    assert canonical(here.isoformat()) == canonical(there.isoformat()) == canonical(here.isoformat(" "))


@given(MOMENTS, MOMENTS)
def test_canonical_dates_are_in_the_order_of_time(one: datetime, other: datetime) -> None:
    assert (canonical(one.isoformat()) < canonical(other.isoformat())) is (one < other)


@given(st.dates(date(1000, 1, 1)))
def test_a_date_is_equal_to_its_midnight_and_to_itself_without_padding(day: date) -> None:
    forms = (day.isoformat(), f"{day}T00:00:00", f"{day} 00:00", f"{day}T00:00:00Z", f"{day:%Y}-{day.month}-{day.day}")
    assert {canonical(form) for form in forms} == {day.isoformat()}


@given(st.text())
def test_a_text_is_equal_to_itself_in_both_forms_and_any_case(text: str) -> None:
    assert canonical(normalize("NFC", text)) == canonical(normalize("NFD", text))
    assert canonical(text.casefold()) == canonical(text)


@pytest.mark.parametrize(("text", "ends"), [("5..10", ("5", "10")), ("2024-01..2024-06", ("2024-01", "2024-06"))])
def test_two_dots_between_numbers_or_dates_are_a_range(text: str, ends: tuple[str, str]) -> None:
    assert range_of(text) == ends


@pytest.mark.parametrize("text", ["a..b", "..", "1..", "..2", "1...2", "../x"])
def test_two_dots_elsewhere_are_text(text: str) -> None:
    assert range_of(text) is None
