"""Control tags: what is one, what is text, and that neither gets lost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.retrieval.queries.tags import Tagged, read_tags

KINDS = {"EXCLUDE": "excluded", "INCLUDE": "included", "FORMAT": "formats", "FILTER": "filters"}

words = st.text(st.characters(codec="utf-8", exclude_characters="[]|"), min_size=1).map(str.strip).filter(bool)
tags = st.tuples(st.sampled_from(list(KINDS)), st.lists(words, min_size=1, max_size=3))
shouted = st.lists(st.sampled_from("[ ] : | EXCLUDE exclud FORMAT filter a".split(" ")), max_size=12).map("".join)


def tagged(text: str, **said: tuple[str, ...]) -> Tagged:
    return Tagged(text, **said)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("segment lungs [EXCLUDE:toolA]", tagged("segment lungs", excluded=("toolA",))),
        ("[EXCLUDED:a | b] lungs", tagged("lungs", excluded=("a", "b"))),
        ("lungs [include:a|b] in CT", tagged("lungs in CT", included=("a", "b"))),
        ("lungs[FORMAT:CT|DICOM]heart", tagged("lungs heart", formats=("CT", "DICOM"))),
        ("lungs\t[Filter: a=MIT ]\n[FILTER:dims>=3]  heart", tagged("lungs heart", filters=("a=MIT", "dims>=3"))),
        ("[EXCLUDE:a][EXCLUDE:b]", tagged("", excluded=("a", "b"))),
        ("[ exclude : https://x.org/a:b ]", tagged("", excluded=("https://x.org/a:b",))),
        ("  two  spaces [FORMAT:CT] here  ", tagged("  two  spaces here  ", formats=("CT",))),
    ],
)  # fmt: skip
def test_a_tag_is_taken_out_of_the_text(text: str, expected: Tagged) -> None:
    assert read_tags(text) == expected


@pytest.mark.parametrize(
    "text",
    ["see [1]", "a[i] and a[i:j]", "[see: notes]", "[Ca2+] imaging",
     "[EXCLUDE]", "[[x]]", "[", "]:[", "[omit:x]", "[:x]"],
)  # fmt: skip
def test_other_brackets_are_text_and_no_problem(text: str) -> None:
    assert read_tags(text) == tagged(text)


@pytest.mark.parametrize(
    ("text", "clean", "problem"),
    [
        ("lungs [EXCLUDE:toolA", "lungs [EXCLUDE:toolA", "[EXCLUDE:toolA is not closed"),
        ("lungs [EXCLUDE:] x", "lungs x", "[EXCLUDE:] names nothing: write [EXCLUDE:value]"),
        ("lungs [include: | ]", "lungs", "names nothing: write [INCLUDE:value]"),
        ("lungs [EXCLUD:x]", "lungs [EXCLUD:x]", "did you mean EXCLUDE?"),
        ("lungs [fitler:a=b]", "lungs [fitler:a=b]", "did you mean FILTER?"),
        ("lungs [FORMTA:CT]", "lungs [FORMTA:CT]", "did you mean FORMAT?"),
    ],
)
def test_a_malformed_tag_is_a_problem_that_says_what_to_write(text: str, clean: str, problem: str) -> None:
    found = read_tags(text)

    assert found.text == clean
    assert len(found.problems) == 1
    assert problem in found.problems[0]


@given(st.text() | shouted)
def test_every_text_is_read_and_none_that_is_no_tag_is_lost(text: str) -> None:
    found = read_tags(text)

    if not any((found.excluded, found.included, found.formats, found.filters, found.problems)):
        assert found.text == text
    left = iter(text)
    assert all(char.isspace() or char in left for char in found.text), "only whole stretches are taken out"


@given(st.lists(st.tuples(st.text(st.characters(exclude_characters="[]")), tags)), st.data())
def test_tags_that_are_written_are_read_again(
    parts: list[tuple[str, tuple[str, list[str]]]], data: st.DataObject
) -> None:
    cased = [
        (text, data.draw(st.sampled_from([key, key.lower(), key.title()])), values) for text, (key, values) in parts
    ]
    found = read_tags("".join(f"{text}[{key}:{'|'.join(values)}]" for text, key, values in cased))

    assert found.problems == ()
    assert found.text.split() == [word for text, _ in parts for word in text.split()]
    for key, kind in KINDS.items():
        expected = [value for _, (own, values) in parts if own == key for value in values]
        assert list(getattr(found, kind)) == expected
