"""Titles that quote the title of another work: of reviews, comments, corrections, retractions and supplements."""

from __future__ import annotations

import re
from typing import Literal

Quoting = Literal["", "comment", "correction", "retraction", "data"]
"""Kind of a title that quotes the one of another work."""
SUBTITLE = re.compile(r"[:?!]\s|\.\s|\s[–—-]\s")
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


def quoted_title(text: str) -> tuple[Quoting, str]:
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
    for found in SUBTITLE.finditer(text):
        if kind := ending(text[found.end() :]):
            return kind, text[: found.start()]
    return "", ""


def _beginning(text: str) -> tuple[Quoting, int]:
    """Return how a title begins to speak of another work, and the end of that beginning."""
    for kind, pattern in _QUOTING.items():
        if found := pattern.match(text):
            return kind, found.end()
    return "", 0


def ending(subtitle: str) -> Quoting:
    """Return in what way a title speaks of another work if this is its subtitle."""
    bare = subtitle.strip(_MARKED)
    return next((kind for kind, pattern in _QUOTING_END.items() if pattern.fullmatch(bare)), "")
