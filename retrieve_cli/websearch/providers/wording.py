"""Questions as servers of literature take them: balanced syntax, or the words that carry the meaning.

People who search the literature write `"base editing"[ti] AND (human OR mouse)`. Others ask "Which methods are the
best for segmenting lungs in CT?", and a server that requires every word has nothing for that: only its content words
are sent, and fewer of them if nothing is found.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator

from retrieve_cli.contracts.websearch import Page
from retrieve_cli.errors import quoted
from retrieve_cli.frozen import replace

_STRAIGHT = str.maketrans("“”„«»", '"""""')
OPERATORS = ("AND", "OR", "ANDNOT", "NOT")
_ENDS = ("AND", "OR", "ANDNOT")
MARKS = string.punctuation + "“”‘’«»…–—¿¡"
_SILENT = frozenset(
    "a about all an and any are as at be been best between but by can could did do does find for from give had has "
    "have how i if in into is it its latest list me more most my new no not of on or our please recent recently "
    "review reviews search show some such tell than that the their them then there these they this those to us use "
    "used uses using was we were what when where which who whose why will with without would you your article "
    "articles literature paper papers preprint preprints publication publications published studies study work".split()
)
"""Words of questions that are not about their subject."""
_FEWER = (3, 2)
"""Content words that are searched for if nothing has all of them."""


def straight(text: str) -> str:
    """Return a text with straight quotation marks."""
    return text.translate(_STRAIGHT)


def balanced(text: str) -> str:
    """Return a question on one line whose quotation marks and parentheses balance, without operators at its ends; all
    of them become spaces if one has no partner. Empty if no word remains."""
    text = straight(text)
    if text.count('"') % 2:
        text = text.replace('"', " ")
    if not _is_paired(text):
        text = re.sub(r"[()]", " ", text)
    words = text.split()
    while words and words[0] in _ENDS:
        words.pop(0)
    while words and words[-1] in OPERATORS:
        words.pop()
    line = " ".join(words)
    return line if any(char.isalnum() for char in line) else ""


def _is_paired(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def has_syntax(text: str) -> bool:
    """Return True for a question with phrases or with operators in capitals, which is sent unchanged."""
    words = straight(text)
    return words.count('"') > 1 or any(word in OPERATORS for word in words.split())


def relaxed(title: str, text: str, ask: Callable[[str], Page], *, unchanged: bool) -> Page:
    """Return the first page with matches: of the question if it is sent `unchanged`, else of its content words, and
    then of fewer of them, with a notice."""
    page = Page((), "")
    wordings = [text] if unchanged else map(" ".join, attempts(text))
    for count, words in enumerate(wordings):
        page = ask(words)
        if page.total:
            fewer = [f"{title} has nothing with all words: searched for {quoted(words)}"] if count else []
            return replace(page, notices=(*fewer, *page.notices))
    return page


def attempts(text: str) -> Iterator[list[str]]:
    """Yield the content words of a question, then its longest three and two, in their order.

    All words are content words if there are no others.
    """
    words = [word for word in (part.strip(MARKS) for part in text.split()) if word]
    content = [word for word in words if word.isupper() or word.lower() not in _SILENT] or words
    content = list(dict.fromkeys(content))
    yield content
    for count in _FEWER:
        if len(content) > count:
            longest = sorted(content, key=len, reverse=True)[:count]
            yield [word for word in content if word in longest]
