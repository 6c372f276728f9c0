"""Sentence boundaries by rules: stops at the end of words that are not abbreviations, and the stops of other scripts.

The rules for English are here. They follow spaCy's tokenizer and `sentencizer` (https://spacy.io/api/sentencizer) as
far as these decide boundaries: marks are split from the ends of words, a stop ends a sentence, and the first word
or space after it begins the next. Other languages use spaCy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category

ENGLISH = "en"
_ABBREVIATIONS = frozenset(
    "'d a.m. Adm. Bros. co. Co. Corp. D.C. Dr. e.g. E.g. E.G. Gen. Gov. i.e. I.e. I.E. Inc. Jr. Ltd. Md. Messrs. Mo. "
    "Mont. Mr. Mrs. Ms. p.m. Ph.D. Prof. Rep. Rev. Sen. St. vs. v.s. Mt. Ak. Ala. Apr. Ariz. Ark. Aug. Calif. Colo. "
    "Conn. Dec. Del. Feb. Fla. Ga. Ia. Id. Ill. Ind. Jan. Jul. Jun. Kan. Kans. Ky. La. Mar. Mass. Mich. Minn. Miss. "
    "N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. Okla. Ore. Pa. S.C. Sep. Sept. Tenn. Va. Wash. Wis. "
    "a. b. c. d. e. f. g. h. i. j. k. l. m. n. o. p. q. r. s. t. u. v. w. x. y. z. ä. ö. ü.".split()
)
_QUOTES = "'\"”“`‘´’"
_MARKS = rf"{_QUOTES}…,:;!?¿؟¡()\[\]{{}}<>_#*&。？！，、；：～·।،۔؛٪‚„»«「」『』（）〔〕【】《》〈〉⟦⟧—–"
_OPENING = re.compile(rf"\.\.+|[{_MARKS}§%=$£€¥]|\+(?![0-9])")
_CLOSING = re.compile(
    rf"(?:(?<!\.)\.\.+|'s|[{_MARKS}]|(?<=[0-9])\+|(?<=[0-9%²\-+{_MARKS}])\.|(?<=[A-Z][A-Z])\.|(?<=°[CFK])\."
    r"|(?<![/:<>=\-][a-z])(?<=[^\W\d_A-Z])\.)\Z"
)
_WITHIN = re.compile(rf"(?<=[^\W\d_A-Z])\.(?=[A-Z{_QUOTES}])|(?<=[{_QUOTES}])\.(?=[A-Z{_QUOTES}])|\.\.+|…")
_ADDRESS = re.compile(r"(?:[a-z]+://)?[^\s/?#\"'()\[\]<>]+\.[a-z]{2,63}(?::[0-9]+)?(?:[/?#]\S*)?")
_WORD = re.compile(r"\S+")
_STOPS = frozenset(".!?")
_UNBROKEN = re.compile(r"\S{300,}")
_NO_STOP = re.compile(r"[^.!?\u3002\uff01\uff1f]|[.!?\u3002\uff01\uff1f]{2,}")
_OTHER_STOPS = re.compile(r"(?:[。！？｡]+[」』”’）》〉】]*|[।॥။។៕؟۔։።]+[”’»)]*)\s*")
"""Stops that no blank need follow, or that are known in some languages only."""


def sentence_starts(text: str, language: str = ENGLISH) -> list[int]:
    """Return the character positions at which the sentences of `text` begin; the first is 0.

    Raises:
        UsageError: there are no rules for this language.
        Unavailable: spaCy, which has the rules of other languages than English, is not installed.
    """
    if language == ENGLISH:
        starts = {0, *_english(mask_runs(text))}
    else:
        from retrieve_cli.sources.chunking.spacy_import import starts_in

        starts = {0, *starts_in(mask_runs(text), language)}
    if not text.isascii():
        starts.update(stop.end() for stop in _OTHER_STOPS.finditer(text) if stop.end() < len(text))
    return sorted(starts)


def mask_runs(text: str) -> str:
    """Replace long runs of marks, which take quadratic time to split, by letters; every character keeps its
    position."""
    return _UNBROKEN.sub(lambda run: _NO_STOP.sub(lambda marks: "x" * len(marks[0]), run[0]), text)


def _english(text: str) -> Iterator[int]:
    stopped, end = False, 0
    for word in _WORD.finditer(text):
        gap, end = text[end : word.start()], word.end()
        if stopped and gap not in ("", " "):
            yield word.start() - len(gap) + (gap[0] == " ")
            stopped = False
        if not stopped and _STOPS.isdisjoint(word[0]):
            continue
        for start, token in _tokens(word[0]):
            if token in _STOPS:
                stopped = True
            elif stopped and any(category(char)[0] != "P" for char in token):
                yield word.start() + start
                stopped = False
    if stopped and len(text) > end + (text[end:] == " "):
        yield end + (text[end] == " ")


def _tokens(word: str) -> Iterator[tuple[int, str]]:
    """Yield the tokens of a word without blanks, and their positions in it."""
    start, end, closed = 0, len(word), []
    while start < end and word[start:end] not in _ABBREVIATIONS:
        if opening := _OPENING.match(word, start, end):
            yield start, opening[0]
            start = opening.end()
            if start == end or word[start:end] in _ABBREVIATIONS:
                break
        if closing := _CLOSING.search(word, start, end):
            end = closing.start()
            closed.append((end, closing[0]))
        if not opening and not closing:
            break
    core = word[start:end]
    if core not in _ABBREVIATIONS and not _ADDRESS.fullmatch(core):
        for mark in _WITHIN.finditer(word, start, end):
            yield start, word[start : mark.start()]
            yield mark.start(), mark[0]
            start = mark.end()
    yield start, word[start:end]
    yield from reversed(closed)
