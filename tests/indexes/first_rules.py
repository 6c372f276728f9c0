"""A frozen copy of version 1 of the rules for words, with which newer ones are compared."""

import re
import unicodedata

import Stemmer

_WORD = re.compile(r"\d+(?:[.,]\d+)+(?![^\W_])|[^\W_]+(?:[-_:][^\W_]+)*(?:\+\+|\#(?!\w))?")
_CAMEL = re.compile(r"(?<=[^\W\d_A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ])")
_STOPS = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it
    its itself they them their theirs themselves what which who whom this that these those am is are was were be been
    being have has had having do does did doing would should could ought a an the and but if or because as until while
    of at by for with about against between into through during before after above below to from up down in out on off
    over under again further then once here there when where why how all any both each few more most other some such
    no nor not only own same so than too very can will just t s don
    """.split()
)
_STEM = Stemmer.Stemmer("english").stemWord


def first_words(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text)


def first_terms(text: str) -> list[str]:
    """The terms of a text."""
    return [term for word in first_words(text) for part in _parts(word) if (term := _term(part))]


def _parts(word: str) -> list[str]:
    whole, value = [word], word.rpartition(":")[2]
    pieces = [piece for piece in re.split(r"[-_]", value) if piece]
    whole += pieces if pieces != [word] else []
    for piece in pieces:
        camel = _CAMEL.split(piece)
        whole += camel if len(camel) > 1 and all(len(part) >= 3 for part in camel) else []
    return whole


def _term(part: str) -> str:
    plain = "".join(char for char in unicodedata.normalize("NFKD", part) if not unicodedata.combining(char))
    folded = plain.casefold() if not part.isascii() else part.lower()
    return "" if folded in _STOPS else str(_STEM(folded)) if folded.isalpha() else folded
