"""The filter language: what a condition says, that it prints as it was written, and what errors say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.queries.filters import Condition, parse

printing = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
names = st.text(printing, min_size=1).map(lambda text: re.sub("[!=<>]", "", text).strip()).filter(bool)
texts = st.text(printing | st.sampled_from('*?",= '), min_size=1).filter(str.strip)
expressions = st.lists(st.sampled_from([*'!=<>,"*? a', "dims", "3", "MIT", "\n"]), max_size=10).map("".join)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("license=MIT", Condition("license", "=", ("MIT",))),
        (" license != MIT ", Condition("license", "!=", ("MIT",))),
        ("modality=CT, MRI", Condition("modality", "=", ("CT", "MRI"))),
        ("dims>=3", Condition("dims", ">=", ("3",))),
        ("dims <= 2.5", Condition("dims", "<=", ("2.5",))),
        ("year>1999", Condition("year", ">", ("1999",))),
        ("delta<-1e-3", Condition("delta", "<", ("-1e-3",))),
        ("dims>=3D", Condition("dims", ">=", ("3D",))),
        ("path=guides/**", Condition("path", "=", ("guides/**",), globs=frozenset({"guides/**"}))),
        ("name=a?,b", Condition("name", "=", ("a?", "b"), globs=frozenset({"a?"}))),
        ("!group=archive", Condition("group", "=", ("archive",), negated=True)),
        ("! group=archive", Condition("group", "=", ("archive",), negated=True)),
        ('name="a, b",c', Condition("name", "=", ("a, b", "c"))),
        ('name="what?" , "say ""hi"""', Condition("name", "=", ("what?", 'say "hi"'))),
        ("url=https://x.org/?a=b", Condition("url", "=", ("https://x.org/?a=b",), globs=frozenset({"https://x.org/?a=b"}))),
        ('size=5"', Condition("size", "=", ('5"',))),
        ('op="<"', Condition("op", "=", ("<",))),
    ],
)  # fmt: skip
def test_an_expression_is_read_as_a_condition(expression: str, expected: Condition) -> None:
    assert parse(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("license=", "empty value", "write license=value"),
        ("license=a,", "empty value", "write license=value"),
        ("license=,a", "empty value", "!license=*"),
        ('license=""', "empty value", "write license=value"),
        ("dims>=x", "needs a number", "write dims>=3"),
        ("dims>=2,3", "needs a number", "write dims>=3"),
        ("dims>=nan", "needs a number", "write dims>=3"),
        ("=MIT", "names no field", "license=MIT"),
        ("!=MIT", "names no field", "license=MIT"),
        ("  >=3", "names no field", "license=MIT"),
        ("license", "has no operator", "license=MIT"),
        ("", "has no operator", "license=MIT"),
        ("!archive", "has no operator", "license=MIT"),
        ("license==MIT", "no value after 'license='", "write license=value"),
        ("dims=>3", "no value after 'dims='", 'dims=">…"'),
        ('name="a', "quotation marks", 'name="a, b"'),
        ('name="a"b', "quotation marks", 'name="a, b"'),
        ("name=a\x1b[2Jb", "control character", "license=MIT"),
        ("name=a\nb", "control character", "license=MIT"),
    ],
)
def test_what_is_no_condition_is_named_with_what_to_write(expression: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(expression)

    assert repr(expression) in raised.value.message
    assert message in raised.value.message
    assert hint in raised.value.hint


def outcome(expression: str) -> Condition | UsageError:
    try:
        return parse(expression)
    except UsageError as error:
        return error


@given(expressions | st.text())
def test_every_text_is_a_condition_that_prints_and_reads_the_same_or_an_error(expression: str) -> None:
    found = outcome(expression)

    if isinstance(found, Condition):
        assert parse(str(found)) == found
    else:
        assert repr(expression) in found.message
        assert found.hint
