"""Choice of the main part of a page: an element, of which every block is kept but its navigation.

A page may mark its main part; otherwise it is the whole page. Navigation is known by its element or
role, never by a class. Texts that are skipped are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.sources.formats.html.visible import VisiblePage, ancestors, found, outermost

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_ROLES = frozenset("navigation search menu menubar toolbar doc-toc doc-pagelist".split())
"""Roles of navigation, wherever it is."""
_OF_PAGE = {"header": "banner", "footer": "contentinfo", "aside": "complementary"}
"""Elements with these roles if they belong to the page itself, not to a section (HTML-AAM)."""
_SECTIONS = frozenset("main article section".split())
_SOME_LINKS, _HALF, _ALL_LINKS = 0.3, 0.5, 0.7
"""Shares of characters in links, from which a part of each kind is navigation."""
_CLEAR, _SMALL, _NOTHING = 0.1, 0.25, 0.05
"""Shares of the page's text: of a marked main part; of a single article; and of an empty one."""


def main_part(page: VisiblePage) -> tuple[LexborNode, str]:
    """Return the main part of a page, without navigation, which is removed from the page.

    If it would be empty, return the body and a notice.
    """
    body = page.body
    total = _size(body)
    root = _marked(body, total)
    marked = root.mem_id != body.mem_id
    nodes = found(root, "nav, header, footer, aside, [role]")
    parts = list(outermost(node for node in nodes if _reason(node, marked=marked)))
    if _size(root) - sum(map(_size, parts)) < _NOTHING * total:
        return body, "its main part would be empty: navigation and everything else is indexed"
    inner = root
    while inner.mem_id != body.mem_id and (parent := inner.parent) is not None:
        for node in parent.iter(include_text=True):
            if node.mem_id != inner.mem_id:
                page.drop(_reason(node, marked=False) or "block beside the main part", node)
        inner = parent
    for node in parts:
        page.take(_reason(node, marked=marked), [node])
    return root, ""


def _size(node: LexborNode) -> int:
    """Return the number of characters of a node that are not white space."""
    return len("".join(node.text().split()))


def _links(node: LexborNode) -> float:
    """Return the share of its characters that are in links."""
    return sum(map(_size, found(node, "a[href]"))) / max(1, _size(node))


def _marked(body: LexborNode, total: int) -> LexborNode:
    """Return the only clear main element, or else the only clear article, or else the body."""
    mains = [node for node in found(body, "main, [role=main]") if _size(node) > _CLEAR * total]
    if mains := list(outermost(mains)):
        return mains[0] if len(mains) == 1 else body
    articles = [node for node in found(body, "article") if _size(node) > _CLEAR * total]
    articles = list(outermost(articles))
    large = len(articles) == 1 and _size(articles[0]) > _SMALL * total
    return articles[0] if large else body


def _reason(node: LexborNode, *, marked: bool) -> str:
    """Return the reason why the element or role of a node is not main content; empty if it is."""
    name = node.tag or ""
    role = "" if name.startswith("-") else (node.attributes.get("role") or "").strip().lower()
    if role in _ROLES or (name == "nav" and not role.startswith("doc-")):
        return "navigation block"
    fits = (part for part, of in _OF_PAGE.items() if role == of or (name == part and not role))
    part = next(fits, "")
    if not part or _is_title(node):
        return ""
    if marked or any(outer.tag in _SECTIONS for outer in ancestors(node)):
        return "navigation block" if not role and _links(node) > _ALL_LINKS else ""
    if part == "aside":
        return "navigation block" if _links(node) > _SOME_LINKS else ""
    return f"page {part}"


def _is_title(node: LexborNode) -> bool:
    """Return True if a node has the first heading of a page, and not mainly links."""
    titles = (head for head in found(node, "h1") if _size(head) > 0)
    return _links(node) < _HALF and any(_links(head) < _HALF for head in titles)
