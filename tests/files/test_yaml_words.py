"""Plain scalars are read by the rules of YAML 1.2, with and without the parser."""

import json

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.untrusted import yaml_text

WORDS = (
    "true True false no off null y ~ e5 1e5 0x1F 0o7 010 1_000 12:30 2024-01-02 .5 5. .inf - -- --- ... % a:".split()
)
NEAR = st.lists(st.sampled_from([*"aeoxn019-_./:#~"]), max_size=6).map("".join)


@given(text=st.sampled_from(WORDS) | st.sampled_from(["yes", "on", "None", "<<", "="]) | NEAR)
def test_what_is_read_without_the_parser_is_what_the_parser_reads(text: str) -> None:
    for number in (yaml_text.core_number, yaml_text.printed_number):
        if yaml_text._SIMPLE.fullmatch(text) and text[-1] != ":":
            (parsed,) = yaml_text.load(f"- {text}", values=10, number=number)
            assert repr(yaml_text.load(text, values=10, number=number)) == repr(parsed)


@pytest.mark.parametrize("text", ["yes", "on", "no", "y", "2024-01-02", "12:30:45", "1_000", "0x1F", "1:30", "<<"])
def test_what_only_yaml_1_1_reads_as_another_value_is_a_string(text: str) -> None:
    assert yaml_text.load(f"a: {text}", values=10) == {"a": text}


@given(st.from_regex(r"[-+]?[0-9]{1,20}(\.[0-9]{1,20})?(e[0-9]{1,2})?", fullmatch=True))
def test_a_printed_number_is_one_that_json_prints_the_same_way(text: str) -> None:
    value = yaml_text.printed_number(text)
    assert value is None or json.dumps(value) == text
