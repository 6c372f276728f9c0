"""Items from answers of providers: texts without markup and within bounds, identifiers in normal form.

Every provider makes its items here, so that no answer brings more than these bounds into the program.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from retrieve_cli.contracts.terms import licences
from retrieve_cli.contracts.websearch import Id, Item, ItemType
from retrieve_cli.websearch import dates, ids

TITLE, ABSTRACT, SNIPPET, NAME, ADDRESS = 1000, 20_000, 2000, 300, 2000
"""Characters that are kept of a title, an abstract, a snippet, a name and an address."""
AUTHORS = 1000
"""Authors that are kept."""
_BLOCK = re.compile(r"</?(?:jats:)?(?:p|div|br|li|ul|ol|sec|title|h[1-6])(?:\s[^<>]{0,300})?/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z!?][^<>]{0,300}>")
_ENTITY_ROUNDS = 2
"""Some providers escape twice."""


def plain(text: str, most: int) -> str:
    """Return a text on one line without tags and entities, cut to `most` characters. Tags of blocks separate words;
    others do not (`CO<sub>2</sub>` is one word)."""
    text = text[: 8 * most]
    for _ in range(_ENTITY_ROUNDS):
        text = html.unescape(_TAG.sub("", _BLOCK.sub(" ", text)))
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def address(text: str) -> str:
    """Return a web address for people to open; empty if it is not an http or https address."""
    text = text.strip()
    return text if len(text) <= ADDRESS and ids.url(text) is not None else ""


def made(
    *,
    type: ItemType,  # noqa: A002  as in `Item`
    title: str,
    ids_: Iterable[Id | None],
    url: str = "",
    pdf_url: str = "",
    authors: Iterable[str] = (),
    date: str = "",
    venue: str = "",
    abstract: str = "",
    snippet: str = "",
    open_access: bool | None = None,
    license: str = "",  # noqa: A002  as in `Item`
    citations: int | None = None,
    retracted: bool | None = None,
) -> Item | None:
    """Return an item; None if it has no title, or neither an identifier nor an address.

    `ids_` may hold None for an invalid identifier; the address is added to them. `date` is a date of `dates.py`.
    """
    title, shown = plain(title, TITLE), address(url)
    named = [*ids_, ids.of_address(url), ids.url(url) if shown else None]
    known = dict.fromkeys(ids.arxiv(one.value) or one for one in named if one)
    if not title or not known:
        return None
    names = [name for author in authors if (name := plain(author, NAME))][:AUTHORS]
    terms = plain(license, NAME)
    return Item(
        type=type,
        title=title,
        ids=tuple(known),
        authors=tuple(names),
        date=dates.of_text(date),
        venue=plain(venue, NAME),
        abstract=plain(abstract, ABSTRACT),
        snippet=plain(snippet, SNIPPET),
        url=shown,
        pdf_url=address(pdf_url),
        open_access=open_access,
        license=terms and (licences.spdx_of(terms) or terms),
        citations=citations,
        retracted=retracted,
    )
