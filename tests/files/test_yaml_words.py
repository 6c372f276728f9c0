"""A bare word or number is the value that YAML gives it, without loading the parser."""

from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from retrieve_cli.untrusted import yaml_text

WORDS = (
    "true True false no off null y ~ e5 1e5 0x1F 0o7 010 1_000 12:30 2024-01-02 .5 5. .inf - -- --- ... % a:".split()
)
NEAR = st.lists(st.sampled_from([*"aeoxn019-_./:#~ \n"]), max_size=6).map("".join)


@given(text=st.sampled_from(WORDS) | st.sampled_from(["yes", "on", "None", "<<", "=", ""]) | NEAR)
def test_what_is_read_without_the_parser_is_what_the_parser_reads(text: str) -> None:
    value: Any = yaml_text._simple(text)
    if value is not None:
        parsed = yaml.safe_load(text)
        assert (value, type(value)) == (parsed, type(parsed))


@pytest.mark.parametrize(
    ("text", "value"),
    [("hashed", "hashed"), ("12", 12), ("true", True), ("/srv/models", "/srv/models"), ("a/b.c", "a/b.c")],
)
def test_words_numbers_and_paths_need_no_parser(text: str, value: object) -> None:
    assert yaml_text._simple(text) == value
