"""Words of every script: each is found again, different ones stay apart, forms of one meet; English is as before."""

import re
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from retrieve_cli.contracts import Field
from retrieve_cli.contracts.terms.languages import declared_language, language_of
from retrieve_cli.contracts.terms.words import fold
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer


def rows_in(name: str) -> list[list[str]]:
    return [line.split("\t") for line in Path(__file__).with_name(name).read_text("utf-8").splitlines()]


ROWS = rows_in("languages.tsv")
"""Codes of languages and two sentences in each: the first article of the Universal Declaration of Human Rights, and
others."""
AUTO = TextAnalyzer(stemming="auto", stop_words="auto")


def impacts_of(rows: list[tuple[str, str]], analyzer: TextAnalyzer = AUTO) -> Bm25Index:
    """An index of texts, each with its language."""
    writer = Bm25Writer(analyzer=analyzer, unit="record")
    for code, text in rows:
        writer.add([Field("text", text)], code)
    return Bm25Index([writer.stored()])


def finds(index: Bm25Index, query: str, row: int) -> bool:
    return bool(index.score(query, np.array([row]))[0] > 0)


# ------------------------------------------------------------------------------------------------- all scripts

_UNBROKEN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u4e00-\u9fff]+")


def words_in(text: str) -> list[str]:
    """Words by blanks and punctuation; of scripts without blanks every stretch of one to four characters."""
    words = []
    for word in re.split(r"[\s.,;:!?'’()«»„“”。、，।؛،۔։၊-]+", text):
        for run in _UNBROKEN.findall(word):
            characters = re.findall(
                r"(?:.[\u1039\u17d2])*.[\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3]*",
                run,
            )
            ends = range(1, 5)
            words += ["".join(characters[at : at + n]) for at in range(len(characters)) for n in ends]
        words += [part for part in re.split(_UNBROKEN, word) if part]
    return words


def words_and_missed(rows: list[list[str]]) -> tuple[int, list[tuple[str, str]]]:
    """Number of words of all texts, and those that do not find theirs."""
    index = impacts_of([(code, text) for code, text in rows])
    missed, number = [], 0
    for row, (code, text) in enumerate(rows):
        for word in words_in(text):
            if AUTO.among((code,)).terms(word):  # and not a stop word
                number += 1
                missed += [] if finds(index, word, row) else [(code, word)]
    return number, missed


def test_every_word_of_a_document_in_forty_languages_finds_it() -> None:
    number, missed = words_and_missed(ROWS)
    assert len({code for code, _ in ROWS}) >= 40
    assert number > 2_500
    assert len(missed) <= number / 1_000, missed


def test_a_word_is_found_in_any_form_of_unicode_and_without_what_readers_leave_out() -> None:
    index = impacts_of([(code, text) for code, text in ROWS])
    for row, (_, text) in enumerate(ROWS):
        for form in ("NFC", "NFD", "NFKC"):
            (found,) = index.search([unicodedata.normalize(form, text)], depth=1)
            assert found.rows.tolist() == [row], (form, text)
    pairs = {"كِتَاب": "كتاب", "كتــاب": "كتاب", "שָׁלוֹם": "שלום", "ёлка": "елка", "за́мок": "замок", "ﾊﾟﾊﾟ": "パパ"}
    pairs |= {"ＣＴ": "ct", "می‌خواهم": "میخواهم", "re\xadtrieval": "retrieval", "ΣΟΦΌΣ": "σοφός", "한국": "한국"}
    assert [word for word, plain in pairs.items() if AUTO.terms(word) != AUTO.terms(plain)] == []


MINIMAL_PAIRS = """
パパ ババ|パパ ハハ|ハハ ババ|ビル ビール|おばさん おばあさん|カキ ガキ|かき かぎ|はし ばし
きって きて|びょういん びよういん|日本 本日|土 士
май маи|мой мои|йод иод|їжа іжа|рій рії|чай чаи|боец боёк|ўсё усё
दिन दीन|कम काम|कल काल|बल बाल|सुत सूत|खाना खान|मेल मैल|क़लम कलम|பல் பால்|கல் கால்|மணி மாணி|কল কাল|দিন দীন
มา ม้า|ขาว ข่าว|ใกล้ ไกล|เสือ เสื้อ|ກາ ກ້າ|ကာ ကား|បាន បន|가방 가발|물 불|사랑 사람
אב עב|كلب قلب|سيف صيف|کر گر|דוד דור|θέμα θύμα|кит кіт|хлеб хлев|գիր գին|დედა დიდა
"""


def test_different_words_stay_apart() -> None:
    pairs = [pair.split() for line in MINIMAL_PAIRS.split("\n") for pair in line.split("|") if pair]
    assert len(pairs) >= 40
    assert [(one, other) for one, other in pairs if set(AUTO.terms(one)) == set(AUTO.terms(other))] == []
    assert [(one, other) for one, other in pairs if fold(one) == fold(other)] == []


STEMMED = {
    "de": "Lungen Lunge|Häuser Haus|Behandlungen Behandlung",
    "fr": "générales général|maisons maison|cherchée cherché",
    "es": "canciones canción|niños niño|páginas página",
    "pt": "professores professor|meninos menino|rápidas rápido",
    "it": "ragazzi ragazzo|case casa|lingue lingua",
    "nl": "longen long|huizen huis|boeken boek",
    "sv": "flickorna flicka|bilar bil|husen hus",
    "da": "bilerne biler|husene huse|pigerne pige",
    "nb": "bilene biler|husene hus|jentene jente",
    "fi": "taloissa talo|kirjat kirja|autoissa auto",
    "hu": "házak ház|könyvekben könyvek|autók autó",
    "ro": "fetele fete|copiilor copii|caselor casele",
    "tr": "kitaplar kitap|evler ev|kitapları kitap",
    "pl": "książki książka|kobiety kobieta|domów domu",
    "cs": "knihy kniha|ženy žena|města město",
    "ru": "книги книга|лёгких легкие|поиском поиск",
    "el": "σπίτια σπίτι|ανθρώπους άνθρωπος|βιβλίων βιβλίου",
    "ar": "الكتاب كتاب|المدرسة مدرسة|المريض مريض",
    "hi": "किताबें किताब|लड़कों लड़का|दवाओं दवा",
    "ca": "gats gat",
    "id": "bukunya buku|makanan makan|membaca baca",
}


@pytest.mark.parametrize("code", STEMMED)
def test_forms_of_a_word_find_each_other(code: str) -> None:
    index = impacts_of([*((other, text) for other, text in ROWS), *((code, pair) for pair in STEMMED[code].split("|"))])
    apart = [
        pair
        for row, pair in enumerate(STEMMED[code].split("|"), len(ROWS))
        if not set(AUTO.among((code,)).terms(pair.split()[0])) & set(AUTO.among((code,)).terms(pair.split()[1]))
        or not all(finds(index, word, row) for word in pair.split())
    ]
    assert apart == []


def test_scripts_are_cut_where_they_meet_and_into_overlapping_pairs() -> None:
    cases = {
        "召回率recall": ["召回", "回率", "recal"],
        "第3章": ["第", "3", "章"],
        "肺": ["肺"],
        "各ページ1.2.3版": ["各ペ", "ペー", "ージ", "1.2.3", "版"],
        "C++言語": ["c++", "言語"],
        "हिन्दी में खोज": ["हिन्द", "खोज"],
        "ក្រុង": ["ក្រុង"],
    }
    assert {text: AUTO.terms(text) for text in cases} == cases


def test_one_character_finds_the_texts_in_which_it_is_part_of_a_word() -> None:
    index = impacts_of([("ja", "肺の検査。"), ("ja", "心臓の検査。")])
    assert (finds(index, "肺", 0), finds(index, "肺", 1)) == (True, False)
    assert AUTO.terms("肺の") == ["肺の"]  # in a query they would find every text


# ---------------------------------------------------------------------------------------------------- as before


def test_a_word_of_another_language_counts_only_in_records_of_that_language() -> None:
    rows = [("en", f"gen area {row}") for row in range(8)] + [("de", "Lunge und Gene"), ("fr", "the area des poumons")]
    index = impacts_of(rows)
    scores = index._scores("genes of the area")  # German: gen; English: gene
    assert scores[8] > 0
    area = index._scores("area")
    assert np.allclose(scores[:8], area[:8])
    assert area[9] < 1.5 * area[0]  # its French stem, `are`, is in one record alone


def test_stop_words_of_a_german_query_are_no_words_of_english_records() -> None:
    index = impacts_of([("de", "Die Behandlung der Lunge"), ("en", "Cells die in the lungs"), ("fr", "le poumon")])
    assert not finds(index, "wie ist die Behandlung", 1)
    assert finds(index, "cells that die", 1)
    assert finds(index, "die", 1)


# ---------------------------------------------------------------------------------------------------- languages


def test_the_language_of_a_text_is_recognized() -> None:
    assert [(code, language_of(text)) for code, text in ROWS if language_of(text) != code] == []
    assert [text for code, text in ROWS for _ in range(3) if language_of(f"{text} " * 40) != code] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nnU-Net",
        "Lung CT segmentation",
        "Universidad de Chile",
        "La Jolla, Museum de la Plata: specimens",
        "def main(): return [x for x in args if x]",
        "Müller and Jäger, Universität Köln: a tool for die casting",
        "The role of de novo lipogenesis in vivo",
        "α-synuclein and β-catenin in HeLa cells",
        "per se",
        "ᎣᏏᏲ",
    ],
)
def test_a_short_text_is_english_unless_it_clearly_is_not(text: str) -> None:
    assert language_of(text) == "en"


def test_metadata_declare_a_language_by_code_or_name() -> None:
    given = [{"lang": "de-AT"}, {"language": "German"}, {"inLanguage": ["pt_BR"]}, {"lang": "nb"}, {"lang": "no"}]
    assert [declared_language(one) for one in given] == ["de", "de", "pt", "nb", "nb"]
    others = [{}, {"language": "Python"}, {"language": ["de", "en"]}, {"lang": 3}, {"lang": ""}, {"lang": "none"}]
    assert [declared_language(one) for one in others] == ["", "", "", "", "", "zxx"]


# ----------------------------------------------------------------------------------------------------- hostile

HOSTILE = {
    "Han": "召回率的评估",
    "zalgo": "a" + "\u0315\u0300\u0334" * 40,
    "marks alone": "\u0300\u0315",
    "mixed directions": "abcאבגدهو1٢",
    "joined": "क\u200dष\u200c",
    "long compounds": "a-b_c:",
    "Thai": "กำ้\u0e4d",
    "stacked": "ក\u17d2",
    "blown up": "\ufdfa",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_takes_linear_time(kind: str) -> None:
    def seconds(length: int) -> float:
        text = (HOSTILE[kind] * length)[:length]
        best = float("inf")
        for _ in range(2):
            analyzer = TextAnalyzer(stemming="auto", stop_words="auto")
            begun = time.process_time()
            analyzer.terms(text)
            analyzer.singles(text)
            analyzer.spans(text)
            language_of(text)
            best = min(best, time.process_time() - begun)
        return best

    short, long = seconds(1_000), seconds(4_000)
    assert long < 10 * short + 0.01  # four times the text; sixteen times the seconds would be quadratic
