"""Choice of the main part of a page: an element, of which every block is kept but its navigation.

A page may mark its main part; otherwise it is the whole page. Navigation is known by its element or
role, or by a name for it on a part that has mainly links. Texts that are skipped are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from retrieve_cli.sources.formats.html.tree import HEADINGS, TEXT, Tree, flat

_ROLES = frozenset("navigation search menu menubar toolbar doc-toc doc-pagelist".split())
"""Roles of navigation, wherever it is."""
_OF_PAGE = {"header": "banner", "footer": "contentinfo", "aside": "complementary"}
"""Elements with these roles if they belong to the page itself, not to a section (HTML-AAM)."""
_REASONS = {"header": "page header", "footer": "page footer"}
_SECTIONS = frozenset("main article section".split())
_PARTS = re.compile(r"[A-Za-z][a-z]+|[A-Z]+(?![a-z])")
_NAVIGATION = re.compile(
    r"(?:nav(?:bar|header|footer|igation|box|menu|list|panel|links?|path|row)?"
    r"|(?:side|main|sub|top|fancy|search)?menu|menubar|breadcrumbs?|(?:\w{0,12})sidebar|toc\d?|pager"
    r"|pagination|footer|header|banner|masthead|skip(?:link)?|toolbar|topbar|quickview|langs?|languages)"
)
"""Words in ids and classes of navigation; they count only for parts with many links."""
_CONSENT = re.compile(r"cookies?|consent|gdpr")
_MANY_LINKS, _ALL_LINKS = 0.3, 0.7
"""Shares of the characters in links from which a named part, or one with headings, is navigation."""
_CLEAR, _SMALL, _HALF, _NOTHING = 0.1, 0.25, 0.5, 0.05
"""Shares of the page's text: of a marked main part, of a single article or a question for consent,
of a part with a name of navigation, and of a main part that counts as empty."""


class PagePart(NamedTuple):
    """The main part: an element, nodes inside of it that are skipped, and a notice."""

    root: int
    skipped: frozenset[int] = frozenset()
    notice: str = ""


class _Measures:
    """Sums over the texts of any node and its descendants."""

    def __init__(self, tree: Tree) -> None:
        self._ends = tree.ends
        sizes, linked = [0], [0]
        link_end = 0
        for node, name in enumerate(tree.names):
            size = len("".join(tree.texts[node].split())) if name == TEXT else 0
            if name == "a" and "href" in tree.attributes[node]:
                link_end = max(link_end, tree.ends[node])
            sizes.append(size)
            linked.append(size if node < link_end else 0)
        self._sizes, self._linked = list(accumulate(sizes)), list(accumulate(linked))
        names = [name if self._is_heading(node, name) else "" for node, name in enumerate(tree.names)]
        self._headings = list(accumulate((0, *map(bool, names))))
        self._titles = list(accumulate((0, *(name == "h1" for name in names))))

    def _is_heading(self, node: int, name: str) -> bool:
        return name in HEADINGS and self.size(node) > 0 and self.links(node) < _HALF

    def size(self, node: int) -> int:
        """Return the visible characters of a node."""
        return self._sizes[self._ends[node]] - self._sizes[node]

    def links(self, node: int) -> float:
        """Return the share of its characters that are in links."""
        size = self.size(node)
        return (self._linked[self._ends[node]] - self._linked[node]) / size if size else 0.0

    def headings(self, node: int) -> int:
        """Return the number of its headings that are not links."""
        return self._headings[self._ends[node]] - self._headings[node]

    def title(self, node: int) -> bool:
        """Return True if it has a heading of the first level, and is not mainly links itself."""
        return self._titles[self._ends[node]] > self._titles[node] and self.links(node) < _HALF


def main_part(tree: Tree) -> PagePart:
    """Return the main part of a page; everything, with a notice, if it would be empty.

    Texts that are skipped are added to `tree.dropped`.
    """
    measures = _Measures(tree)
    root = _marked(tree, measures)
    reasons = dict(_boilerplate(tree, measures, root))
    kept = measures.size(root) - sum(map(measures.size, reasons))
    if kept < _NOTHING * measures.size(0):
        notice = "its main part would be empty: navigation and everything else is indexed"
        return PagePart(0, notice=notice)
    for node in _outside(tree, root):
        named = _reason(tree, measures, node, inner=False)
        tree.drop(named or "block beside the main part", flat(tree, node))
    for node, reason in reasons.items():
        tree.drop(reason, flat(tree, node))
    return PagePart(root, frozenset(reasons))


def _outside(tree: Tree, root: int) -> Iterator[int]:
    """Yield the outermost nodes that do not hold the main part."""
    node = 0
    while root and node < len(tree):
        if node == root or tree.ends[node] <= root or node > root:
            if node != root:
                yield node
            node = tree.ends[node]
        else:
            node += 1


def _marked(tree: Tree, measures: _Measures) -> int:
    """Return the only clear main element, or else the only clear article, or else the whole page."""
    least = _CLEAR * measures.size(0)
    marked = [
        node for node, name in enumerate(tree.names) if name == "main" or tree.attributes[node].get("role") == "main"
    ]
    mains = [node for node in marked if measures.size(node) > least]
    outer = [node for node in mains if not mains[0] < node < tree.ends[mains[0]]]
    if outer:
        return outer[0] if len(outer) == 1 else 0
    articles = tree.inside(0, frozenset(("article",)))
    clear = [node for node in articles if measures.size(node) > least]
    large = len(clear) == 1 and measures.size(clear[0]) > _SMALL * measures.size(0)
    return clear[0] if large else 0


def _boilerplate(tree: Tree, measures: _Measures, root: int) -> Iterator[tuple[int, str]]:
    """Yield the outermost nodes that are not main content, with the reason."""
    section_end = tree.ends[root] if root else 0
    node = root + 1
    while node < tree.ends[root]:
        name = tree.names[node]
        if name != TEXT and (tree.attributes[node] or name in _OF_PAGE or name == "nav"):
            reason = _reason(tree, measures, node, inner=node < section_end)
            if reason or (measures.size(node) <= _HALF * measures.size(root) and _is_named(tree, measures, node)):
                yield node, reason or "navigation block"
                node = tree.ends[node]
                continue
        if name in _SECTIONS:
            section_end = max(section_end, tree.ends[node])
        node += 1


def _reason(tree: Tree, measures: _Measures, node: int, *, inner: bool) -> str:
    """Return the reason why the element or role of a node is not main content; empty if it is."""
    name, role = tree.names[node], tree.value(node, "role").lower()
    if role in _ROLES or (name == "nav" and not role.startswith("doc-")):
        return "navigation block"
    of_page = next((part for part, of in _OF_PAGE.items() if role == of or (name == part and not role)), "")
    if not of_page or measures.title(node):
        return ""
    if inner:
        return "navigation block" if not role and measures.links(node) > _ALL_LINKS else ""
    if of_page == "aside" and measures.links(node) < _MANY_LINKS:
        return ""  # a remark beside the text
    return _REASONS.get(of_page, "navigation block")


def _is_named(tree: Tree, measures: _Measures, node: int) -> bool:
    """Return True if id or class name navigation or a question for consent, and the content fits."""
    attributes = tree.attributes[node]
    names = f"{attributes.get('id') or ''} {attributes.get('class') or ''}"[:400]
    words = {word.lower() for word in _PARTS.findall(names)}
    share, headings = measures.links(node), measures.headings(node)
    if any(_NAVIGATION.fullmatch(word) for word in words):
        least = _CLEAR * measures.size(0)
        small_foot = "footer" in words and not headings and measures.size(node) < least
        return small_foot or share >= (_ALL_LINKS if headings else _MANY_LINKS)
    asks = attributes.get("role") in ("dialog", "alertdialog") or any(map(_CONSENT.fullmatch, words))
    return asks and not headings and measures.size(node) < _SMALL * measures.size(0)
