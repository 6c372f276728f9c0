"""The part of a page for readers: without scripts, hidden blocks and controls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from retrieve_cli.contracts.layout import Dropped
from retrieve_cli.errors import shortened
from retrieve_cli.sources.formats.html.text import BLOCKS, one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_NO_TEXT = (
    "script, style, template, noscript, svg, iframe, object, embed, applet, audio, video, canvas,"
    " map, head, title, noframes, noembed, input, datalist, progress, meter"
)
_HIDDEN = "[hidden], [aria-hidden=true], [style*=none i], [style*=hidden i], dialog:not([open])"
_CONTROLS = "button, select, textarea"
_STYLE = re.compile(r"display:none|visibility:hidden")
_OPENERS = ("aria-controls", "data-bs-target", "data-target")
_PANEL = re.compile(r"accordion|collaps|tab-?(?:panel?|content|body)", re.IGNORECASE)
"""Classes of parts of a page that a reader opens: they are hidden until then."""
_LONGEST_SCRIPT = 40
"""Characters of a superscript or subscript; a longer one is text in small type."""
_ORDINALS = frozenset("st nd rd th er re e ème o a º ª".split())
_MOST_DROPPED = 1000


class VisiblePage:
    """The body of a page; texts that are taken out of it are in `dropped`, up to a number."""

    def __init__(self, body: LexborNode) -> None:
        self.body = body
        self.dropped: list[Dropped] = []
        openers = found(body, ", ".join(f"[{name}]" for name in _OPENERS))
        targets = " ".join(node.attributes.get(name) or "" for node in openers for name in _OPENERS)
        panels = frozenset(targets.replace("#", " ").split())
        self.take("", found(body, _NO_TEXT))
        self.take("hidden block", [n for n in found(body, _HIDDEN) if _is_hidden(n, panels)])
        titles = _titles(body)
        self.take("control", [n for n in found(body, _CONTROLS) if n.mem_id not in titles])
        self.take("", [link for link in found(body, "a[href^='#']") if not has_words(link.text())])
        self.take("annotation", found(body, "annotation, annotation-xml"))
        for node in found(body, "math"):
            formula = node.attributes.get("alttext") or node.text(separator=" ")
            node.replace_with(f" {formula} ")
        for node in reversed(found(body, "sup, sub")):  # inner ones first
            words = one_line(node.text())
            if len(words) <= _LONGEST_SCRIPT:
                node.replace_with(_script(node, words))

    def take(self, reason: str, nodes: list[LexborNode]) -> None:
        """Remove nodes, which are in the order of the page, and count them if there is a reason."""
        for node in nodes if reason else ():
            self.drop(reason, node)
        for node in reversed(nodes):  # inner ones first: an outer one ends them
            node.decompose()

    def drop(self, reason: str, node: LexborNode) -> None:
        """Count the text of a node, unless it has no words."""
        text = node.text(separator=" ")
        if len(self.dropped) < _MOST_DROPPED and has_words(text):
            self.dropped.append(Dropped(reason, shortened(text)))


def has_words(text: str) -> bool:
    """Return True for a text with a letter or a digit."""
    return any(map(str.isalnum, text))


def found(root: LexborNode, selector: str) -> list[LexborNode]:
    """Return the nodes below one that a list of selectors selects, in order, each once."""
    nodes = {node.mem_id: node for node in root.css(selector)}
    nodes.pop(root.mem_id, None)
    return list(nodes.values())


def ancestors(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the elements around a node, the innermost first."""
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def outermost(nodes: Iterable[LexborNode]) -> Iterator[LexborNode]:
    """Yield the nodes that are inside of none of those before them."""
    ids: set[int] = set()
    for node in nodes:
        if not any(outer.mem_id in ids for outer in ancestors(node)):
            ids.add(node.mem_id)
            yield node


def _is_hidden(node: LexborNode, panels: frozenset[str]) -> bool:
    """Return True if an element is not displayed, and no tab, button or click displays it."""
    values = {name: value or "" for name, value in node.attributes.items()}
    hidden = values.get("hidden", "until-found") != "until-found" or node.tag == "dialog"
    hidden = hidden or values.get("aria-hidden") == "true"
    if not hidden and not _STYLE.search("".join(values.get("style", "").lower().split())):
        return False
    opens = values.get("role") == "tabpanel" or values.get("id") in panels
    return not opens and not _PANEL.search(values.get("class", ""))


def _titles(body: LexborNode) -> set[int]:
    """Return the ids of buttons that are the title of a tab, or of a part that opens."""
    titles = {button.mem_id for button in found(body, "button[role=tab]")}
    for head in found(body, "h1, h2, h3, h4, h5, h6, summary"):
        buttons = found(head, "button")[:1]
        titles |= {one.mem_id for one in buttons if one.text().strip() == head.text().strip()}
    return titles


def _script(node: LexborNode, words: str) -> str:
    """Return a superscript or subscript that does not run into the word before it.

    A mark of a note is `word [1]`, an exponent `10^3`, an index `V_max`; `1st` and `H2O` are words.
    """
    parent, before = node.parent, node
    is_note = node.css_first("a[href]") is not None
    while before.prev is None and parent is not None and parent.tag not in BLOCKS:
        is_note = is_note or parent.tag == "a"
        before, parent = parent, parent.parent
    prev = before.prev
    last = prev.text()[-1:] if prev is not None and prev.tag not in {*BLOCKS, "br"} else ""
    if not last or last.isspace() or not has_words(words):
        return words
    if is_note:
        return f" [{words.strip('[]() ')}]"
    is_formula = node.tag == "sub" and last.isalpha() and words.isdecimal()
    if is_formula or (last.isdecimal() and words.lower() in _ORDINALS):
        return words
    return ("^" if node.tag == "sup" else "_") + (f"({words})" if " " in words else words)
