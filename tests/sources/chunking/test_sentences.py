from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.sources.chunking.sentences import sentence_starts


@pytest.mark.parametrize(
    "sentences",
    [
        ("It grew by 3.5 mm. ", "Was it seen? ", "Yes!  ", "All saw it."),
        ("Mr. Day saw it, e.g. here. ", "then (so!) ", "it ended."),
        ('He said "no." ', "Then J. Smith et al. went (far.) ", "Home..."),
        ("See a.example.org/xy. ", "Dr. Day came... ", "Why?"),
        ("Das ist z. B. eins. ", "Das ist zwei."),
        ("今日は晴れ。", "「明日は雨！」", "そうですか？", "はい。"),
        ("यह है। ", "और। ", "هل هذا؟ ", "نعم۔"),
        ("One.\n", "Two.\n\n", "Three"),
    ],
)
def test_sentences_of_all_languages_begin_behind_a_stop(sentences: tuple[str, ...]) -> None:
    text = "".join(sentences)
    starts = [*sentence_starts(text), len(text)]
    assert [text[start:end] for start, end in pairwise(starts)] == list(sentences)


@given(st.text(alphabet="Ab .!?…。।\n\"')", max_size=40))
def test_starts_are_in_order_and_within_the_text(text: str) -> None:
    starts = sentence_starts(text)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert starts[-1] < max(1, len(text))
