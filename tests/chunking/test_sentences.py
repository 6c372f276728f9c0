from __future__ import annotations

import time

import pytest

from retrieve_cli.chunking.sentences import sentence_starts
from retrieve_cli.errors import UsageError


def test_sentences_begin_behind_a_full_stop() -> None:
    text = "It grew by 3.5 mm. Was it seen? Yes!  All saw it."
    assert [text[start:].split(maxsplit=1)[0] for start in sentence_starts(text)] == ["It", "Was", "Yes!", "All"]


@pytest.mark.parametrize("text", ["", " ", "no stop"])
def test_a_text_without_a_stop_is_one_sentence(text: str) -> None:
    assert sentence_starts(text) == [0]


def test_the_language_can_be_chosen() -> None:
    assert len(sentence_starts("Das ist z. B. eins. Das ist zwei.", "de")) == 2


def test_a_language_that_spacy_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="`qq`"):
        sentence_starts("One. Two.", "qq")


def test_a_text_longer_than_spacy_takes_is_read_in_parts() -> None:
    text = "One more sentence stands here. " * 40_000
    starts = sentence_starts(text)
    assert len(starts) == 40_000
    assert all(text.startswith("One", start) for start in starts[::997])


@pytest.mark.parametrize("unit", ["#", "_", "'s", ":)", "\N{GRINNING FACE}", "x"])
def test_a_long_run_of_marks_is_read_in_bounded_time(unit: str) -> None:
    text = f"One. Two {unit * 40_000} two. Three."
    began = time.process_time()
    assert [text[start : start + 3] for start in sentence_starts(text)] == ["One", "Two", "Thr"]
    assert time.process_time() - began < 5
