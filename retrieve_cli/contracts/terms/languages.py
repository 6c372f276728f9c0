"""Languages of texts: their scripts, stemmers and function words, and the language in which a text is written.

`languages.tsv` has a line for each: code (ISO 639), script, algorithm of Snowball, other names, letters that other
languages of the script lack, function words. The first language of a script is the one of a text that shows none.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts.values import Json

ENGLISH = "en"
NONE = "zxx"
"""The language of texts that are in none, such as lists of codes: no stems, no stop words."""
LATIN = "LATIN"
_TABLE = Path(__file__).with_name("languages.tsv")
_KEYS = ("lang", "language", "inLanguage")
"""Keys of metadata that declare the language of a record."""
_SAMPLE = 1_000
"""Characters of each of the three stretches of a long text that are looked at."""
_GLANCE = 80
"""Characters of two stretches in which another language than English has a function word or a letter."""
_FEWEST = 2
"""Different function words that, with a third or a letter that English lacks, show another language."""
_MOST_LETTERS = 2
_PURE = 5
"""A text with one English function word for so many of another language has parts in English, and is read as English:
elsewhere their words would be rare, and weigh more than in English texts."""
_DENSE = 100
"""A text with `the`, `of` or `and` once in so many characters is in English: English prose has three."""
_FOREIGN = r"[^\W\d_\x00-\u02af\u1e00-\u1eff]"
"""Letters of other scripts than Latin."""
_WORD = r"[^\s.,;:!?()\"«»„“”।॥؟،؛۔…]+"
_KANA = ("HIRAGANA", "KATAKANA")


class Language(NamedTuple):
    """A language, as far as terms depend on it."""

    code: str
    script: str
    """First word of the Unicode names of its letters; `*`: any."""
    stemmer: str
    """Algorithm of Snowball; empty without one."""
    names: frozenset[str]
    letters: frozenset[str]
    words: frozenset[str]
    """Its function words, in lower case: they tell languages apart, and are its stop words."""


@cache
def languages() -> Mapping[str, Language]:
    """Return the known languages by code, in the order of the table."""
    rows = (line.split("\t") for line in _TABLE.read_text("utf-8").splitlines())
    return {
        code: Language(code, script, stemmer.strip("-"), *map(frozenset, (names.split(), letters, words.split())))
        for code, script, stemmer, names, letters, words in rows
    }


@cache
def of_script(script: str) -> tuple[Language, ...]:
    """Return the languages of a script, the assumed one first."""
    return tuple(language for language in languages().values() if language.script == script)


def language_named(value: Json) -> str:
    """Return the code of a language by its code or name, `de-AT`, `deu` and `German` included; empty if unknown."""
    name = re.split("[-_]", value.strip().lower(), maxsplit=1)[0] if isinstance(value, str) else ""
    return next((code for code, one in languages().items() if name == code or name in one.names), "")


def declared_language(metadata: Mapping[str, Json]) -> str:
    """Return the code of the language that the metadata of a record declare; empty without a known one."""
    for key in _KEYS:
        if key in metadata:
            given = metadata[key]
            return language_named(given[0] if isinstance(given, list) and len(given) == 1 else given)
    return ""


@lru_cache(maxsize=100_000)
def script_of(char: str) -> str:
    """Return the script of a letter or mark, as its Unicode name begins; empty for others."""
    name = unicodedata.name(char, "").removeprefix("HALFWIDTH ").partition(" ")[0]
    return {"IDEOGRAPHIC": "CJK", "KATAKANA-HIRAGANA": "KATAKANA", "FULLWIDTH": LATIN}.get(name, name)


def language_of(text: str) -> str:
    """Return the code of the language that most of a text is in, by its letters and function words; English if a text
    in Latin script does not clearly show another language."""
    middle = len(text) // 2
    first, second = (text, "") if len(text) <= 2 * _GLANCE else (text[:_GLANCE], text[middle : middle + _GLANCE])
    # Without words that are cut: their ends are words of some language.
    whole = f"{first.rpartition(' ')[0]} {second.partition(' ')[2].rpartition(' ')[0]}" if second else first
    if first.isascii() and second.isascii() and _other_words().isdisjoint(whole.split()):
        return ENGLISH
    if len(text) > 3 * _SAMPLE:
        text = f"{text[:_SAMPLE]} {text[middle : middle + _SAMPLE]} {text[-_SAMPLE:]}"
    if (text.count(" the ") + text.count(" of ") + text.count(" and ")) * _DENSE > len(text):
        return ENGLISH
    foreign = [] if text.isascii() else re.findall(_FOREIGN, text)
    if not foreign or 2 * len(foreign) < sum(map(str.isalpha, text)):
        return _by_words(text)
    scripts = Counter(map(script_of, foreign))
    kana = any(scripts[one] * 20 > len(foreign) for one in _KANA)
    known = of_script("HIRAGANA" if kana else scripts.most_common(1)[0][0])
    words, letters = set(re.findall(_WORD, text.lower())), set(foreign)
    scores = [len(one.words & words) + len(one.letters & letters) for one in known]
    return known[scores.index(max(scores))].code if known else ENGLISH


def _by_words(text: str) -> str:
    """Return the language of a text in Latin script. Letters alone show nothing: names have them in every language."""
    text = text.lower()
    words = set(re.findall(_WORD, text))
    if len(_other_words().intersection(words)) < _FEWEST:
        return ENGLISH
    english, *others = of_script(LATIN)
    scores = [len(one.words & words) + min(len(one.letters.intersection(text)), _MOST_LETTERS) for one in others]
    best = others[scores.index(max(scores))]
    own, foreign = len(best.words & words - english.words), len(english.words & words - best.words)
    clear = own >= _FEWEST and max(scores) > _FEWEST and own > _PURE * foreign
    return best.code if clear else ENGLISH


@cache
def _other_words() -> frozenset[str]:
    """Function words of languages in Latin script that are not English ones."""
    english, *others = of_script(LATIN)
    return frozenset().union(*(one.words for one in others)) - english.words
