"""Numbers as people read them."""

from hypothesis import given, strategies as st

from retrieve_cli.contracts.terms.figures import age, count, rounded, size


def test_a_count_agrees_with_its_noun() -> None:
    assert [count(number, "query", "queries") for number in (0, 1, 2)] == ["0 queries", "1 query", "2 queries"]
    assert count(1490, "chunk") == "1,490 chunks"


def test_three_significant_digits_are_kept() -> None:
    values = [0.8104, 0.01444, 0.9996, 13.04, 1494.0, 0.0, -2.345]
    assert [rounded(value) for value in values] == ["0.810", "0.0144", "1.00", "13.0", "1,490", "0", "-2.35"]


@given(st.floats(1e-9, 1e9))
def test_rounding_moves_a_number_by_less_than_a_percent(value: float) -> None:
    assert abs(float(rounded(value).replace(",", "")) - value) <= 0.00501 * value


def test_sizes_and_ages_are_in_a_unit_that_suits_them() -> None:
    assert [size(number) for number in (1, 999, 1000, 3_328_000, 10**15)] == [
        "1 byte", "999 bytes", "1.00 kB", "3.33 MB", "1.00 PB"
    ]  # fmt: skip
    ages = [age(seconds) for seconds in (5, 60, 7300, 90000)]
    assert ages == ["just now", "1 minute ago", "2 hours ago", "1 day ago"]
