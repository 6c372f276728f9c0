"""Titles in a form in which spelling, markup and typography make no difference, and their likeness.

The kinds of titles that do not identify a work (`Editorial`) are recognised here, and titles that quote the title of
another work (`Reply to …`).
"""

from __future__ import annotations

import html
import re
from collections import Counter
from enum import IntEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from retrieve_cli.websearch.merging.names import folded

LEAST_RATIO = 93.0
"""Percentage of equal characters from which titles are similar: 2 × common / total, as rapidfuzz computes it."""
_LONGEST = 1000
_REMEMBERED = 4096
"""Parsed titles that are cached: the same one comes from several providers, and from the next search."""
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_NOTE = re.compile(r"\[[A-Za-z][^\[\]]{3,100}\]\W{0,3}$")
"""Note of a database behind a title: `[version 2; peer review: 2 approved]`, `[Article in German]`."""
_COMMAND = re.compile(r"\\([A-Za-z]{1,20})")
_MARKS = str.maketrans("", "", "${}_^\\'’`ʼ\u00ad\u200b")
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi "
        "chi psi omega".split(),
        strict=True,
    )
)
_GREEK_LETTERS = str.maketrans(
    {letter: f" {name} " for letter, name in _GREEK.items()} | {"ς": " sigma ", "&": " and "}
)
_STOP = frozenset("a an the of in on for and with to by from at as via s".split())
_NEGATIONS = frozenset("no not non without never anti un".split())
_PARTS = frozenset("part volume vol section chapter paper no number phase type stage class group grade series".split())
"""Words after which a letter or a Roman numeral is a number."""
_ROMAN = {name: str(n) for n, name in enumerate("i ii iii iv v vi vii viii ix x xi xii xiii xiv xv".split(), 1)}
_COUNTED = {name: str(n) for n, name in enumerate("one two three four five six seven eight nine ten".split(), 1)} | {
    name: str(n) for n, name in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth".split(), 1)
}
_GENERIC = frozenset(
    "editorial editor editors guest introduction introductory correction corrections corrigendum erratum errata "
    "addendum retraction reply replies response responses comment comments commentary letter letters author "
    "authors note notes preface foreword contents content index news book review reviews reviewer reviewers "
    "obituary memoriam abstract abstracts conference congress meeting proceeding proceedings report reports case "
    "issue special section symposium workshop acknowledgment acknowledgments acknowledgement acknowledgements "
    "announcement announcements information front matter back cover masthead highlight highlights research "
    "supplementary supplement material materials data appendix perspective perspectives viewpoint opinion "
    "discussion discussions conclusion conclusions summary overview untitled title poster posters oral "
    "presentation presentations session sessions annual et al this month our your decision re is about dear sir".split()
)
"""Words of titles that many works have."""
_OF_EDITOR = frozenset("letter comment remark note message guest introduction farewell".split())
"""Words beside `editor` in titles that each issue of a journal has."""
_LEAST_WORDS, _LEAST_LETTERS, _LEAST_MAIN = 3, 16, 25
_RECURRENT = frozenset(
    "annual yearly quarterly monthly weekly biennial statistics abstract abstracts proceedings yearbook year update "
    "bulletin registry surveillance report reports minutes".split()
)
"""Words of titles that come again with a new issue."""
_RETRACTED = re.compile(r"\W{0,3}(?:retracted|withdrawn)(?: article| paper| chapter)?\W{1,3}", re.IGNORECASE)
Quoting = Literal["", "comment", "correction", "retraction", "data"]
"""Kind of a title that quotes the one of another work."""
_SUBTITLE = re.compile(r"[:?!]\s|\.\s|\s[–—-]\s")
"""End of the part of a title before its subtitle."""
_ROUNDS = 3
"""Depth of quotations: a reply to a comment on a comment."""
_MARKED = " \t\"“”'‘’«».,:;()[]–—-"
_QUOTING: dict[Quoting, re.Pattern[str]] = {
    "retraction": re.compile(
        r"(?:retraction|withdrawal)(?::| (?:note|notice|statement)(?: to| for| of)?\b)"
        r"|notice of (?:retraction|withdrawal)\b",
        re.IGNORECASE,
    ),
    "correction": re.compile(
        r"(?:author |authors['’] |publisher |publisher['’]s )?(?:corrections?|corrigendum|erratum|errata|addendum)"
        r"(?: to\b| for\b|:|\W{0,3}$)|(?:editorial )?expression of concern(?: on| regarding| for|:)?",
        re.IGNORECASE,
    ),
    "comment": re.compile(
        r"(?:peer |pre|referee |reviewer )?(?:review|report)(?: report)?(?: ?#?[0-9]{1,2})?"
        r"(?: for\b| of[: ]{1,2}[\"“'‘«])"
        r"|peer review(?: report)?(?: ?#?[0-9]{1,2})? of\b|prereview of\b|decision letter\b|recommendation of\b"
        r"|(?:author|authors['’]?|author['’]s) (?:response|reply)\b|(?:in )?reply(?: to\b|:)|response to\b|rebuttal\b"
        r"|comments? on\b|commentary(?: on\b|:)|re:|evaluation summary\b|(?:joint )?public review\b"
        r"|(?:elife |editor['’]?s? )(?:assessment|evaluation)\b|reviewer #?[0-9]{1,2}(?: \(public review\))?:"
        r"|letter (?:to the editor )?(?:regarding|on)\b",
        re.IGNORECASE,
    ),
    "data": re.compile(
        r"(?:data|code|dataset) (?:from|for):|additional file [0-9]{1,3} of\b"
        r"|(?:supplementary|supplemental|supporting) (?:data|materials?|information|files?|tables?|figures?)\b",
        re.IGNORECASE,
    ),
}
"""Beginnings of titles that go on with the title of another work."""
_QUOTING_END: dict[Quoting, re.Pattern[str]] = {
    "comment": re.compile(r"(?:author['’]?s?['’]? )?(?:reply|response)|a comment|rebuttal", re.IGNORECASE),
    "correction": re.compile(r"correction|corrigendum|erratum|addendum", re.IGNORECASE),
    "retraction": re.compile(r"retraction", re.IGNORECASE),
}
"""Subtitles of titles that begin with the title of another work."""


class Likeness(IntEnum):
    """Likeness of two titles, as far as it tells whether they can be of one work."""

    UNLIKE = 0
    """They have little in common. A title and its translation do, too."""
    UNSURE = 1
    """They have much in common, and that is not enough: a number differs, or the ratio is below the least one."""
    CHANGED = 2
    """The ratio suffices; words are replaced by others."""
    EXTENDED = 3
    """The ratio suffices; one has words that the other does not have."""
    SAME = 4
    """They differ in spelling and markup at most, or in a subtitle that one does not have."""


class Title(NamedTuple):
    """A title for comparison."""

    text: str
    """Its words, folded, with one space between."""
    letters: str
    """The same without spaces."""
    words: tuple[str, ...]
    """Its words that have content, in one spelling, without numbers; in alphabetical order."""
    numbers: tuple[str, ...]
    main: str
    """Letters before its subtitle; empty if it has no subtitle, or if they do not identify a work."""
    distinct: bool
    """False if many works can have it."""
    recurrent: bool
    """True if works of another year can have it."""
    quoting: Quoting
    """Form in which it quotes the title of another work."""
    quoted: str
    """The quoted title, as written; empty if it quotes no title."""
    retracted: bool
    """True if it states that the work was retracted."""


@lru_cache(_REMEMBERED)
def read(text: str) -> Title:
    """Return a title for comparison."""
    text = _without_markup(text[:_LONGEST])
    retracted = _RETRACTED.match(text)
    bare = text[retracted.end() :] if retracted else text
    bare = _NOTE.sub("", bare).strip() or bare
    quoting, quoted = _quoted(bare)
    tokens = _tokens(bare)
    words, numbers = _parted(tokens)
    letters = "".join(tokens)
    return Title(
        " ".join(tokens),
        letters,
        words,
        numbers,
        _main(bare, letters),
        _is_distinct(words, letters),
        not _RECURRENT.isdisjoint(tokens),
        quoting,
        quoted,
        retracted is not None,
    )


def likeness(one: Title, other: Title) -> Likeness:
    """Return how like two titles are."""
    from rapidfuzz import fuzz

    if one.letters == other.letters:
        return Likeness.SAME
    if other.letters == one.main or one.letters == other.main:
        return Likeness.SAME
    ratio = fuzz.ratio(one.text, other.text)
    if ratio >= LEAST_RATIO and one.numbers == other.numbers:
        return _difference(one.words, other.words)
    common = len(set(one.words).intersection(other.words))
    share = common / max(min(len(one.words), len(other.words)), 1)
    return Likeness.UNSURE if share >= 0.5 or ratio >= 65 else Likeness.UNLIKE


def _difference(one: tuple[str, ...], other: tuple[str, ...]) -> Likeness:
    if one == other:
        return Likeness.SAME
    here, there = Counter(one), Counter(other)
    added, removed = set(here - there), set(there - here)
    if "".join(sorted("".join(added))) == "".join(sorted("".join(removed))):
        return Likeness.SAME  # one word written as two
    either = added | removed
    if (added and removed) or either & _NEGATIONS or max(map(len, either)) == 1:
        return Likeness.CHANGED  # a letter distinguishes as a word does: influenza A and B
    return Likeness.EXTENDED


def _without_markup(text: str) -> str:
    text = _TAG.sub("", html.unescape(text) if "&" in text else text)
    if "\\" in text:
        text = _COMMAND.sub(lambda found: found[1] if found[1].lower() in _GREEK.values() else " ", text)
    return " ".join(text.translate(_MARKS).split()) if "$" in text or "{" in text else " ".join(text.split())


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(folded(text.translate(_MARKS)).translate(_GREEK_LETTERS))


def _parted(tokens: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words with content, and the numbers."""
    words, numbers = [], []
    before = ""
    for place, word in enumerate(tokens):
        last = place == len(tokens) - 1
        if word.isdecimal():
            numbers.append(str(int(word[:30])))
        elif word in _ROMAN and (len(word) > 1 or before in _PARTS or (last and word != "x")):
            numbers.append(_ROMAN[word])
        elif word in _COUNTED:
            numbers.append(_COUNTED[word])
        elif len(word) == 1 and before in _PARTS:
            numbers.append(word)
        elif word not in _STOP:
            words.append(spelling(word))
        before = word
    return tuple(sorted(words)), tuple(sorted(numbers))


_SPELLED = (("ae", "e"), ("oe", "e"), ("our", "or"), ("sulph", "sulf"), ("yse", "yze"), ("ysi", "yzi"))
_ENDINGS = (
    ("isations", "ization"), ("isation", "ization"), ("ising", "izing"), ("ised", "ized"), ("ises", "ize"),
    ("iser", "izer"), ("ise", "ize"), ("lling", "ling"), ("lled", "led"), ("ller", "ler"), ("tres", "ter"),
    ("tre", "ter"), ("bres", "ber"), ("bre", "ber"), ("ogues", "og"), ("ogue", "og"), ("mmes", "m"), ("mme", "m"),
    ("ence", "ense"), ("ences", "ense"),
)  # fmt: skip
_LEAST_SPELLED = 5


@lru_cache(_REMEMBERED)
def spelling(word: str) -> str:
    """Return a word in one spelling for British and American English, singular and plural; not a word of either."""
    if len(word) < _LEAST_SPELLED:
        return "gray" if word == "grey" else word
    for british, american in _SPELLED:
        word = word.replace(british, american)
    for british, american in _ENDINGS:
        if word.endswith(british):
            word = word[: -len(british)] + american
            break
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _main(text: str, letters: str) -> str:
    """Return the letters before the subtitle of a title, if they suffice to know the work by."""
    found = _SUBTITLE.search(text)
    if found is None:
        return ""
    main = _tokens(text[: found.start()])
    rest = _tokens(text[found.end() :])
    if not rest or rest[0] in _PARTS or len(rest) == 1 or _ending(text[found.end() :]):
        return ""
    joined = "".join(main)
    distinct = len(joined) >= _LEAST_MAIN and _is_distinct(_parted(main)[0], joined)
    return joined if distinct and joined != letters else ""


def _is_distinct(words: tuple[str, ...], letters: str) -> bool:
    if not letters.isascii():
        return len(letters.encode()) >= _LEAST_LETTERS  # a letter of Chinese has three bytes, and is a word
    if "editorial" in words or ("editor" in words and not _OF_EDITOR.isdisjoint(words)):
        return False
    own = [word for word in words if word not in _GENERIC and f"{word}s" not in _GENERIC]
    return len(words) >= _LEAST_WORDS and len(own) > 1 and len(letters) >= _LEAST_LETTERS


def _quoted(text: str) -> tuple[Quoting, str]:
    """Return in what way a title speaks of another work, and the title that it quotes."""
    first: Quoting = ""
    kind: Quoting
    for _ in range(_ROUNDS):
        text = text.strip(_MARKED) if first else text
        kind, end = _beginning(text)
        if not kind:
            break
        first, text = first or kind, text[end:].lstrip(_MARKED)
    if first:
        return first, text
    for found in _SUBTITLE.finditer(text):
        if kind := _ending(text[found.end() :]):
            return kind, text[: found.start()]
    return "", ""


def _beginning(text: str) -> tuple[Quoting, int]:
    """Return how a title begins to speak of another work, and the end of that beginning."""
    for kind, pattern in _QUOTING.items():
        if found := pattern.match(text):
            return kind, found.end()
    return "", 0


def _ending(subtitle: str) -> Quoting:
    """Return in what way a title speaks of another work if this is its subtitle."""
    bare = subtitle.strip(_MARKED)
    return next((kind for kind, pattern in _QUOTING_END.items() if pattern.fullmatch(bare)), "")
