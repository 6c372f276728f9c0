"""The kind of search that a question calls for: literature, pages of the web, or both, by its words.

The rules are few, so that a person can predict them, and the answer names the rule that applied.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from retrieve_cli.errors import shortened
from retrieve_cli.websearch import ids

_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+){0,3}")
_MOST_CHARS = 2000
_LITERATURE = frozenset(
    "abstract abstracts article articles arxiv author authors biorxiv cite citation citations citing cohort doi "
    "evidence findings journal journals literature medrxiv meta-analysis paper papers peer-reviewed pmid preprint "
    "preprints proceedings publication publications published pubmed rct study studies survey systematic thesis trial "
    "trials".split()
)
"""Words about publications."""
_WEB = frozenset(
    "announced announcement announcements blog buy changelog company conference deadline docs documentation download "
    "error forum github homepage install installation job jobs license news official outage price prices pricing "
    "release released releases repository stock tutorial vendor version versions weather website".split()
)
"""Words for things that pages of the web are about."""
_CURRENT = frozenset("current currently latest now today tomorrow update updates yesterday".split())
"""Words about the present: they ask for the web unless the question is about publications."""


class SearchKind(NamedTuple):
    """A kind of search, and the reason for it."""

    kind: Literal["web", "literature", "both"]
    reason: str


def choose(text: str, *, has_categories: bool = False) -> SearchKind:
    """Return the kind of search for a question.

    Categories and identifiers of publications ask for literature; so do words about publications. Words for things
    of the web ask for the web, as do words about the present without words about publications. If both are asked for,
    both are searched; if neither is, literature.
    """
    if has_categories:
        return SearchKind("literature", "categories are a feature of literature search")
    parts = text[:_MOST_CHARS].split()
    for part in parts:
        if found := ids.doi(part) or ids.arxiv(part):
            reason = f"the question contains an identifier of a publication: {shortened(str(found))}"
            return SearchKind("literature", reason)
    words = [word.lower() for word in _WORD.findall(text[:_MOST_CHARS])]
    literature = next((word for word in words if word in _LITERATURE), None)
    web = next((word for word in words if word in _WEB or (word in _CURRENT and not literature)), None)
    if literature and web:
        return SearchKind("both", f"“{literature}” asks for literature and “{web}” for the web")
    if web:
        return SearchKind("web", f"“{web}” asks for the web")
    if literature:
        return SearchKind("literature", f"“{literature}” asks for literature")
    return SearchKind("literature", "no word of the question asks for the web")
