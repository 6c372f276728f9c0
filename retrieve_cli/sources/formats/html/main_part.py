"""Choice of the main part of a page: the nodes to write, and those to skip.

If a page marks its main part, that part is used. From any other page the parts that are navigation by their element,
role or name are removed. If a page has neither, trafilatura names the sentences of the main text, and the smallest
element that holds them is the main part: with all its headings, tables, code and anchors, of which trafilatura keeps
only some.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.sources.formats.html.tree import HEADINGS, TEXT, Tree

_LONGEST = 2**18
_MOST_NODES = 4_000
"""Size of the largest page that is examined: trafilatura's time is not in proportion to it."""
_WORDS = 3
_SHARE = 0.8
"""Share of its word triples by which a text belongs to the main text."""


def _triples(text: str) -> Iterator[tuple[str, ...]]:
    words = text.split()
    return zip(*(words[offset:] for offset in range(_WORDS)), strict=False)


def _extracted(source: str) -> str:
    """Return the main text of a page; empty if trafilatura finds no main text.

    Raises:
        BadDocument: trafilatura is not installed completely.
    """
    try:
        from trafilatura import extract
    except ImportError as error:
        reason = shortened(str(error))
        raise BadDocument(f"trafilatura: {reason}", hint="pip install 'retrieve-cli[documents]'") from error
    logging.getLogger("trafilatura").propagate = False  # its messages are about pages without text, as here some are
    try:
        return extract(source, favor_recall=True, include_comments=False) or ""
    except Exception:  # noqa: BLE001  it may fail on any page from outside; without it nothing is removed
        return ""


_ALWAYS = frozenset("navigation search menu menubar toolbar doc-toc doc-pagelist".split())
"""Roles of navigation, wherever it is."""
_OF_PAGE = {"header": "banner", "footer": "contentinfo", "aside": "complementary"}
"""Elements with these roles if they belong to the page itself, not to an article or section (HTML-AAM)."""
_SECTIONS = frozenset("main article section".split())
_PARTS = re.compile(r"[A-Za-z][a-z]+|[A-Z]+(?![a-z])")
_NAVIGATION = re.compile(
    r"(?:nav(?:bar|header|footer|igation|box|menu|list|panel|links?|path|row)?|(?:side|main|sub|top|fancy|search)?menu|menubar"
    r"|breadcrumbs?|(?:\w{0,12})sidebar|toc\d?|pager|pagination|footer|header|banner|masthead|skip(?:link)?|toolbar"
    r"|topbar|quickview|langs?|languages)"
)
"""Words in ids and classes of navigation by common usage; they count only for parts with many links."""
_CONSENT = re.compile(r"cookies?|consent|gdpr")
_DIALOGS = frozenset(("dialog", "alertdialog"))

_MANY_LINKS = 0.3
"""Share of the characters in links above which a part with a name of navigation is navigation."""
_ALL_LINKS = 0.7
"""Share above which a part counts as links only."""
_CLEAR = 0.1
"""Share of the page's text below which an element is not its main part."""
_HALF = 0.5
_SMALL = 0.25
_NOTHING = 0.05
"""Share of the page's text below which the main part counts as empty, as on a page that only lists links."""
_NEARLY_ALL = 0.97
"""Share of the recognised main text that its container must hold."""
_LITTLE = 0.02
"""Share of the page's text below which a part beside the main text is dropped although it has few links."""


class PagePart(NamedTuple):
    """The main part: an element, nodes inside of it that are skipped, and a notice if everything was taken."""

    root: int
    skipped: frozenset[int]
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
        own = [
            0,
            *(name in HEADINGS and self.links(node) < _HALF <= self.size(node) for node, name in enumerate(tree.names)),
        ]
        self._headings = list(accumulate(own))
        titles = [0, *(name == "h1" and bool(there) for name, there in zip(tree.names, own[1:], strict=True))]
        self._titles = list(accumulate(titles))

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
        """Return True if it has a heading of the first level that is not a link, and is not mainly links itself."""
        return self._titles[self._ends[node]] > self._titles[node] and self.links(node) < _HALF


def main_part(tree: Tree, source: str) -> PagePart:
    """Return the main part of a page; everything, with a notice, if it would be empty."""
    measures = _Measures(tree)
    marked = _marked(tree, measures)
    root = 0 if marked is None else marked
    skipped, semantic = _boilerplate(tree, measures, root, marked=marked is not None)
    if marked is None and not semantic:
        skipped |= _beside_main_text(tree, measures, source, skipped)
    kept = measures.size(root) - sum(measures.size(node) for node in skipped if root <= node < tree.ends[root])
    if kept < _NOTHING * measures.size(0):
        return PagePart(0, frozenset(), "its main part would be empty: navigation and everything else is indexed")
    return PagePart(root, frozenset(skipped))


def _marked(tree: Tree, measures: _Measures) -> int | None:
    """Return the only clear main element, or else the only clear article; None without one, or with several."""
    least = _CLEAR * measures.size(0)
    mains = [
        node
        for node, name in enumerate(tree.names)
        if (name == "main" or tree.attributes[node].get("role") == "main") and measures.size(node) > least
    ]
    outer = [node for node in mains if not any(other < node < tree.ends[other] for other in mains)]
    if len(outer) == 1:
        return outer[0]
    articles = [node for node in tree.inside(0, frozenset(("article",))) if measures.size(node) > least]
    if not outer and len(articles) == 1 and measures.size(articles[0]) > _SMALL * measures.size(0):
        return articles[0]
    return None


def _boilerplate(tree: Tree, measures: _Measures, root: int, *, marked: bool) -> tuple[set[int], bool]:
    """Return the outermost nodes that are not main content, and True if elements or roles showed any."""
    skipped: set[int] = set()
    semantic = False
    section_end = tree.ends[root] if marked else 0
    most = _HALF * measures.size(root)
    node = root + 1
    while node < tree.ends[root]:
        name = tree.names[node]
        if (name != TEXT and tree.attributes[node]) or name in _OF_PAGE or name == "nav":
            by_kind = _is_apart(tree, measures, node, inner=node < section_end)
            if by_kind or (measures.size(node) <= most and _is_named(tree, measures, node)):
                skipped.add(node)
                semantic = semantic or by_kind
                node = tree.ends[node]
                continue
        if name in _SECTIONS:
            section_end = max(section_end, tree.ends[node])
        node += 1
    return skipped, semantic


def _is_apart(tree: Tree, measures: _Measures, node: int, *, inner: bool) -> bool:
    """Return True if the element or role of a node marks it as outside the main content."""
    name, role = tree.names[node], (tree.attributes[node].get("role") or "").strip().lower()
    if role in _ALWAYS or (name == "nav" and not role.startswith("doc-")):
        return True
    if role in _OF_PAGE.values() and not inner:
        return not measures.title(node)
    if name not in _OF_PAGE or role:
        return False
    if inner:
        return measures.links(node) > _ALL_LINKS
    return not (name == "header" and measures.title(node))


def _is_named(tree: Tree, measures: _Measures, node: int) -> bool:
    """Return True if the id or class of a node names navigation or a question for consent, and its content fits."""
    attributes = tree.attributes[node]
    names = f"{attributes.get('id') or ''} {attributes.get('class') or ''}"[:400]
    if names == " " and "role" not in attributes:
        return False
    words = {word.lower() for word in _PARTS.findall(names)}
    share, headings = measures.links(node), measures.headings(node)
    if any(_NAVIGATION.fullmatch(word) for word in words):
        small_foot = "footer" in words and not headings and measures.size(node) < _CLEAR * measures.size(0)
        return small_foot or share >= (_ALL_LINKS if headings else _MANY_LINKS)
    asks = (attributes.get("role") or "") in _DIALOGS or any(_CONSENT.fullmatch(word) for word in words)
    return asks and not headings and measures.size(node) < _SMALL * measures.size(0)


def _beside_main_text(tree: Tree, measures: _Measures, source: str, skipped: set[int]) -> set[int]:
    """Return the parts beside the main text: on the way to the smallest element that holds nearly all of what
    trafilatura recognises, the siblings without any of it that are small or have many links, and no headings."""
    if len(source) > _LONGEST or len(tree) > _MOST_NODES:
        return set()
    main = set(_triples(_extracted(source)))
    if not main:
        return set()
    weights = [0]
    for name, text in zip(tree.names, tree.texts, strict=True):
        triples = list(_triples(text)) if name == TEXT else []
        weights.append(len(text) if sum(triple in main for triple in triples) > _SHARE * len(triples) else 0)
    sums = list(accumulate(weights))

    def weight(node: int) -> int:
        return sums[tree.ends[node]] - sums[node]

    beside: set[int] = set()
    root = 0
    while True:
        inside = (node for node in range(root + 1, tree.ends[root]) if tree.parents[node] == root)
        children = [node for node in inside if tree.names[node] != TEXT and node not in skipped]
        best = max(children, key=weight, default=None)
        if best is None or not sums[-1] or weight(best) < _NEARLY_ALL * sums[-1]:
            return beside
        for child in children:
            few = measures.size(child) < _LITTLE * measures.size(0) or measures.links(child) > _MANY_LINKS
            if child != best and few and not weight(child) and not measures.headings(child):
                beside.add(child)
        root = best
