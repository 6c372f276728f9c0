"""Choice of the main part of a page: an element, of which every block is kept but its navigation.

A page may mark its main part; otherwise it is the whole page. Navigation is known by its element or
role, or by a name for it on a part that has mainly links. Texts that are skipped are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from retrieve_cli.sources.formats.html.text import HEADINGS
from retrieve_cli.sources.formats.html.visible import VisiblePage, ancestors, found, outermost

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_ROLES = frozenset("navigation search menu menubar toolbar doc-toc doc-pagelist".split())
"""Roles of navigation, wherever it is."""
_OF_PAGE = {"header": "banner", "footer": "contentinfo", "aside": "complementary"}
"""Elements with these roles if they belong to the page itself, not to a section (HTML-AAM)."""
_ELEMENTS = frozenset(("nav", *_OF_PAGE))
_SECTIONS = frozenset("main article section".split())
_PARTS = re.compile(r"[A-Za-z][a-z]+|[A-Z]+(?![a-z])")
_NAMES = re.compile(
    r"(?:nav(?:bar|header|footer|igation|box|menu|list|panel|links?|path|row)?|menubar|breadcrumbs?"
    r"|(?:side|main|sub|top|fancy|search)?menu|(?:\w{0,12})sidebar|toc\d?|pager|pagination|footer"
    r"|header|banner|masthead|skip(?:link)?|toolbar|topbar|quickview|langs?|languages)"
)
"""Words in ids and classes of navigation; they count only for parts with many links."""
_CONSENT = re.compile(r"cookies?|consent|gdpr")
_MANY_LINKS, _ALL_LINKS = 0.3, 0.7
"""Shares of characters in links from which a named part, or one with headings, is navigation."""
_CLEAR, _SMALL, _HALF, _NOTHING = 0.1, 0.25, 0.5, 0.05
"""Shares of the page's text: of a marked main part; of a single article, or a question for consent;
of a part with a name of navigation; and of a main part that counts as empty."""

_EXAMINED, _LEAST_EXAMINED, _LEAST_SIZE = 20, 10_000, 20
"""Texts of nodes that are examined, as a multiple of the text of the page, with the least of both."""


def main_part(page: VisiblePage) -> tuple[LexborNode, str]:
    """Return the main part of a page, without navigation, which is removed from the page.

    If it would be empty, return the body and a notice.
    """
    body = page.body
    total = _size(body)
    root = _marked(body, total)
    marked = root.mem_id != body.mem_id
    parts = list(outermost(_boilerplate(root, total, marked=marked)))
    if _size(root) - sum(map(_size, parts)) < _NOTHING * total:
        return body, "its main part would be empty: navigation and everything else is indexed"
    inner = root
    while inner.mem_id != body.mem_id and (parent := inner.parent) is not None:
        for node in parent.iter(include_text=True):
            if node.mem_id != inner.mem_id:
                page.drop(_reason(node, marked=False) or "block beside the main part", node)
        inner = parent
    for node in parts:
        page.take(_reason(node, marked=marked) or "navigation block", [node])
    return root, ""


def _size(node: LexborNode) -> int:
    """Return the number of characters of a node that are not white space."""
    return len("".join(node.text().split()))


def _links(node: LexborNode) -> float:
    """Return the share of its characters that are in links."""
    return sum(map(_size, found(node, "a[href]"))) / max(1, _size(node))


def _has_headings(node: LexborNode, selector: str = "h1, h2, h3, h4, h5, h6") -> bool:
    """Return True if a node has a heading that is not a link."""
    return any(_size(head) > 0 and _links(head) < _HALF for head in found(node, selector))


def _marked(body: LexborNode, total: int) -> LexborNode:
    """Return the only clear main element, or else the only clear article, or else the body."""
    mains = [node for node in found(body, "main, [role=main]") if _size(node) > _CLEAR * total]
    if mains := list(outermost(mains)):
        return mains[0] if len(mains) == 1 else body
    articles = [node for node in found(body, "article") if _size(node) > _CLEAR * total]
    articles = list(outermost(articles))
    large = len(articles) == 1 and _size(articles[0]) > _SMALL * total
    return articles[0] if large else body


def _boilerplate(root: LexborNode, total: int, *, marked: bool) -> Iterator[LexborNode]:
    """Yield the nodes that are not main content, of those that can be examined in linear time."""
    most, room = _HALF * _size(root), _EXAMINED * (total + _LEAST_EXAMINED)
    for node in found(root, "nav, header, footer, aside, [role], [class], [id]"):
        if node.tag in _ELEMENTS or "role" in node.attributes or _names(node):
            room -= len(node.text()) + _LEAST_SIZE
            if room < 0:
                return
            if _reason(node, marked=marked) or (_is_named(node, total) and _size(node) <= most):
                yield node


def _reason(node: LexborNode, *, marked: bool) -> str:
    """Return the reason why the element or role of a node is not main content; empty if it is."""
    name = node.tag or ""
    role = "" if name.startswith("-") else (node.attributes.get("role") or "").strip().lower()
    if role in _ROLES or (name == "nav" and not role.startswith("doc-")):
        return "navigation block"
    fits = (part for part, of in _OF_PAGE.items() if role == of or (name == part and not role))
    part = next(fits, "")
    if not part or (_has_headings(node, "h1") and _links(node) < _HALF):
        return ""
    if marked or any(outer.tag in _SECTIONS for outer in ancestors(node)):
        return "navigation block" if not role and _links(node) > _ALL_LINKS else ""
    if part == "aside":
        return "navigation block" if _links(node) > _MANY_LINKS else ""
    return f"page {part}"


def _names(node: LexborNode) -> set[str]:
    """Return the words in the id and the class of a node that name navigation or a question."""
    attributes = node.attributes
    names = f"{attributes.get('id') or ''} {attributes.get('class') or ''}"[:400]
    words = {word.lower() for word in _PARTS.findall(names)}
    return {word for word in words if _NAMES.fullmatch(word) or _CONSENT.fullmatch(word)}


def _is_named(node: LexborNode, total: int) -> bool:
    """Return True if id or class name navigation or a question for consent, and the text fits."""
    words = _names(node)
    if any(map(_NAMES.fullmatch, words)) and node.tag not in HEADINGS:
        headings = _has_headings(node)
        small_foot = "footer" in words and not headings and _size(node) < _CLEAR * total
        return small_foot or _links(node) >= (_ALL_LINKS if headings else _MANY_LINKS)
    asks = any(map(_CONSENT.fullmatch, words)) or node.attributes.get("role") in ("dialog", "alertdialog")
    return asks and _size(node) < _SMALL * total and not _has_headings(node)
