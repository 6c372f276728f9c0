"""The analyzer: what stays whole, what is split as well, and what no text can do to it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, strategies as st

from retrieve_cli.contracts.terms.words import WORD
from retrieve_cli.retrieval.retrievers.analyzer import END_OF_TEXT, TextAnalyzer, fold, is_cut_by_blanks, pieces_of

PLAIN = TextAnalyzer(stemming="none", stop_words="none")

texts = st.text(st.characters(codec=None)) | st.text("aBcÉß_-:.,+#1½ﬁİ \n", max_size=30)


WORDS = {
    "a name stays whole": {
        "3D": "3d",
        "C++": "c++",
        "C#": "c#",
        "NIfTI": "nifti",
        "ImageJ": "imagej",
        "1.2.3": "1.2.3",
        "10,000": "10,000",
        "UNIVERSITÉPARIS": "universiteparis",
    },
    "a compound is kept whole and split": {
        "scRNA-seq": "scrna-seq scrna seq",
        "snake_case_name": "snake_case_name snake case name",
        "TotalSegmentator": "totalsegmentator total segmentator",
        "readImage_fromDisk": "readimage_fromdisk readimage fromdisk read image from disk",
    },
    "of a key and its value only the value stands alone": {
        "format:DICOM": "format:dicom dicom",
        "fileFormat:DICOM": "fileformat:dicom dicom",
    },
}


@pytest.mark.parametrize("rule", WORDS)
def test_a_word_and_its_parts_are_terms(rule: str) -> None:
    assert {text: PLAIN.terms(text) for text in WORDS[rule]} == {
        text: said.split() for text, said in WORDS[rule].items()
    }


def test_either_spelling_of_a_compound_meets_the_other() -> None:
    assert set(PLAIN.terms("scRNA seq")) <= set(PLAIN.terms("scRNA-seq"))
    assert set(PLAIN.terms("Total Segmentator")) <= set(PLAIN.terms("TotalSegmentator"))


def test_stop_words_are_dropped_unless_they_are_asked_for() -> None:
    assert TextAnalyzer(stemming="none").terms("The mask of the lung") == ["mask", "lung"]
    assert PLAIN.terms("The mask of the lung") == ["the", "mask", "of", "the", "lung"]


def test_words_are_stemmed_unless_they_are_wanted_as_they_are() -> None:
    assert TextAnalyzer().terms("segmented segmenting") == ["segment", "segment"]
    assert TextAnalyzer(stemming="none").terms("segmented segmenting") == ["segmented", "segmenting"]


def test_what_is_not_made_of_letters_is_not_stemmed() -> None:
    assert TextAnalyzer().terms("mp3s C++ x-rays") == ["mp3s", "c++", "x-rays", "x", "ray"]


@pytest.mark.parametrize(
    ("word", "folded"),
    [("Müller", "muller"), ("ÉCOLE", "ecole"), ("ﬁle", "file"), ("ＣＴ", "ct"), ("Straße", "strasse")],
)
def test_accents_case_and_compatible_letters_are_folded(word: str, folded: str) -> None:
    assert fold(word) == folded
    assert PLAIN.terms(word) == [folded]


@given(text=texts)
def test_the_same_text_gives_the_same_terms_from_a_fresh_analyzer_and_from_a_used_one(text: str) -> None:
    used = TextAnalyzer()

    assert used.terms(text) == used.terms(text) == TextAnalyzer().terms(text)


@given(text=texts)
def test_spans_stand_in_order_inside_the_text_and_carry_its_terms(text: str) -> None:
    analyzer = TextAnalyzer()
    spans = list(analyzer.spans(text))

    assert [term for _, _, terms in spans for term in terms] == analyzer.terms(text)
    start_before, end_before = -1, 0
    for start, end, terms in spans:
        assert start_before < start < end <= len(text)
        assert end_before < end
        assert end_before <= start or not text[start:end_before].isascii()  # pairs overlap
        assert terms == analyzer.terms_of_word(text[start:end])
        start_before, end_before = start, end


def test_spans_point_at_the_words() -> None:
    text = "The scRNA-seq of a lung."

    assert [text[start:end] for start, end, _ in TextAnalyzer().spans(text)] == ["scRNA-seq", "lung"]


@given(st.text(st.characters(codec="ascii"), max_size=40) | st.text("aB1_-:.,+#v \n", max_size=30))
def test_words_of_texts_that_are_cut_by_blanks_are_those_of_their_pieces(text: str) -> None:
    assume(is_cut_by_blanks(text))
    *pieces, end = pieces_of([text])

    assert [word for piece in pieces for word in WORD.findall(piece)] == WORD.findall(text)
    assert end == END_OF_TEXT
    assert PLAIN.forms_of_row(text) == []
