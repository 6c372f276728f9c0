"""Misspelled words: a word that no record has is corrected to one that a record has, and the answer says so."""

import random
import string
from hashlib import sha1

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rapidfuzz.distance import OSA
from samples import Program

from retrieve_cli import open as opened
from retrieve_cli.contracts import Field
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
from retrieve_cli.retrieval.retrievers.spelling import WordSpelling

WORDS = st.text(st.sampled_from("abcde"), min_size=3, max_size=9)


class Texts:
    """The texts of a generation, one chunk each."""

    def __init__(self, texts: list[str]) -> None:
        self.chunks = [{"text": text} for text in texts]
        self.starts = np.arange(len(texts) + 1)
        self.contents = np.array([list(sha1(text.encode()).digest()) for text in texts], np.uint8)


def spelling(texts: list[str], *, is_word: str = "", **analyzer: str) -> WordSpelling:
    writer = Bm25Writer(analyzer=TextAnalyzer(**analyzer), unit="record")  # type: ignore[arg-type]
    for text in texts:
        writer.add([Field("text", text)])
    return WordSpelling(Bm25Index([writer.stored()]), Texts(texts), is_word=lambda word: word == is_word)  # type: ignore[arg-type]


@given(st.lists(WORDS, min_size=1, max_size=30), st.text(st.sampled_from("abcde"), min_size=4, max_size=9))
def test_corrections_are_those_of_a_naive_oracle(words: list[str], typed: str) -> None:
    """Without stems: the words at one edit, of a long word else those at two; most records first."""
    text, found = spelling(words, stemming="none", stop_words="none").corrected(typed)
    distances = {word: OSA.distance(word, typed) for word in words}
    near = [word for word, distance in distances.items() if distance == 1]
    far = [word for word, distance in distances.items() if distance == 2 and len(word) >= 7 and word[:3] == typed[:3]]
    expected = near or (far if len(typed) >= 8 else [])
    if typed in words or not expected:
        assert (text, found) == (typed, ())
        return

    def rank(word: str) -> tuple[float, str]:
        return (-words.count(word) * (1.0 if word[0] == typed[0] else 0.1), word)

    best = sorted(expected, key=rank)[:3]
    assert found[0].searched == tuple(best)
    assert text == found[0].to == (best[0] if near else typed)
    assert all(0 < weight < 1 for _, weight in found[0].others)


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("segmentaton of lungs", "segmentation of lungs"),
        ("Segmentaton", "segmentation"),
        ("SEGMENTATON OF LUNGS", "segmentation OF LUNGS"),
        ("segmantaton", "segmantaton"),
        ("𐐔𐐯𐑅𐐨𐑉𐐯𐐻𐐔𐐯𐑅𐐨", "𐐔𐐯𐑅𐐨𐑉𐐯𐐻𐐔𐐯𐑅𐐨"),
        ("lungs wiht contrast", "lungs with contrast"),
        ("the segmetnations", "the segmentation"),
    ],
)
def test_inflections_and_stop_words_are_corrected(typed: str, corrected: str) -> None:
    texts = ["segmentation of the lungs", "lungs with a contrast agent", "segmentation again"]
    assert spelling(texts).corrected(typed)[0] == corrected


def test_words_of_other_languages_are_corrected() -> None:
    german = spelling(["Untersuchung der Lunge"], stemming="de")
    assert german.corrected("Untersuhcung")[0] == "untersuchung"
    assert spelling(["исследование лёгких"], stemming="ru").corrected("иследование")[0] == "исследование"


@pytest.mark.parametrize(
    "typed",
    [
        "l2ngs", "lungs_x", "x/segmentaton", "segmentaton.py", "segmentaton-x", "SegMentaton", "a@segmentaton.org",
        "format:segmentaton", "segmentation", "lungs", "qqqqqq", "召回率评估", "", " ", "known", "segmentaton" * 40,
    ],
)  # fmt: skip
def test_codes_names_short_and_known_words_stay(typed: str) -> None:
    texts = ["segmentation of the lungs", "lungs", "knowns"]
    assert spelling(texts, is_word="known").corrected(typed) == (typed, ())


def test_a_tenant_has_no_words_of_others() -> None:
    texts = ["segmentation of lungs", "segregation of duties"]
    both = spelling(texts)
    assert both.corrected("segregaton")[0] == "segregation"
    own = both.of(np.array([True, False]))
    alone = spelling(texts[:1])
    for typed in ("segregaton", "segmentaton", "segregation", "duites", "lugns"):
        assert own.corrected(typed) == alone.corrected(typed)


def test_hostile_text_is_bounded() -> None:
    chance = random.Random(3)
    words = ["".join(chance.choices(string.ascii_lowercase, k=24)) for _ in range(20_000)]
    asked = " ".join(words)
    text, found = spelling(["segmentation"]).corrected(asked)
    assert (text, found) == (asked, ())


def test_the_answer_says_what_was_searched_for_and_exact_words_are_kept(index: object, retrieve: Program) -> None:
    bm25 = ("--mode", "bm25", "--json")
    meant, typed = (retrieve("query", text, *bm25).json for text in ("segment ribs", "segmment ribs"))
    exact = retrieve("query", "segmment ribs", "--exact-words", *bm25).json
    assert [hit["id"] for hit in typed["results"]] == [hit["id"] for hit in meant["results"]]
    (correction,) = typed["corrections"]
    assert (correction["word"], typed["query"]) == ("segmment", "segmment ribs")
    assert any("'segmment'" in notice and correction["searched"][0] in notice for notice in typed["notices"])
    assert "corrections" not in {**meant, **exact}
    assert exact["clean_query"] == "segmment ribs"
    assert "corrections" not in retrieve("query", "segmment ribs", "--mode", "dense", "--json").json
    with opened("artifacts") as held:
        assert held.search("segmment ribs").question.corrections[0].to == correction["searched"][0]
        assert held.search("segmment ribs", exact_words=True).question.corrections == ()


def test_words_of_hidden_records_correct_nothing_and_corrections_are_highlighted(
    index: object, retrieve: Program
) -> None:
    found = retrieve("query", "lugns", "--mode", "bm25", "--json").json
    (correction,) = found["corrections"]
    first = found["results"][0]
    marked = {first["content"][start:end].lower() for start, end in first["highlights"]}
    assert correction["searched"][0] in marked
    hidden = " ".join(f"[EXCLUDE:{hit['doc_id']}]" for hit in found["results"])
    assert all(
        "lungs" not in each["searched"]
        for each in retrieve("query", f"lugns {hidden}", "--mode", "bm25", "--json").json.get("corrections", [])
    )
