"""Styles of a document: levels of headings, roles of paragraphs, numbering and hidden text, inherited by `basedOn`.

Built-in styles have the same English names in every language's Word; only their ids are translated. The outline level
decides before any name.
"""

from __future__ import annotations

from typing import NamedTuple

from retrieve_cli.sources.formats.docx.markup import XmlNode

BODY_LEVEL = 9
"""Outline level of text that is not a heading."""
_ROLES = {
    "title": "title",
    "caption": "caption",
    "html preformatted": "code",
    "macro": "code",
    "preformatted text": "code",
    "source code": "code",
}
"""Roles by the names of built-in styles of Word, LibreOffice and pandoc."""
_LONGEST_CHAIN = 50


class Style(NamedTuple):
    """A style with the properties that it inherits; None for a property that it leaves open."""

    outline: int | None = None
    """Outline level, from 0; `BODY_LEVEL` for body text."""
    role: str = ""
    """`title`, `caption`, `code`, `toc`, or nothing."""
    number: int | None = None
    """Id of its numbering."""
    number_level: int | None = None
    number_style: str = ""
    """Id of the style that names the numbering."""
    hidden: bool | None = None
    page_break: bool | None = None


class Styles:
    """Styles of a document by id."""

    def __init__(self, root: XmlNode | None) -> None:
        self._nodes: dict[str, XmlNode] = {}
        self._resolved: dict[str, Style] = {}
        self._default = ""
        for node in root.children if root else ():
            if node.name == "w:style":
                identifier = node.get("w:styleId")
                self._nodes.setdefault(identifier, node)
                if node.get("w:type") == "paragraph" and node.get("w:default").lower() in ("1", "true", "on"):
                    self._default = identifier

    def paragraph(self, identifier: str) -> Style:
        """Return the style of a paragraph; the default one if it names none, or an unknown one."""
        return self.style(identifier if identifier in self._nodes else self._default)

    def style(self, identifier: str) -> Style:
        """Return a style; an empty one if it is not known."""
        if identifier not in self._resolved:
            style, seen, link = Style(), set[str](), identifier
            while link in self._nodes and link not in seen and len(seen) < _LONGEST_CHAIN:  # it may be a circle
                seen.add(link)
                pairs = zip(style, _own(link, self._nodes[link]), strict=True)
                style = Style._make(far if near in (None, "") else near for near, far in pairs)
                link = self._nodes[link].value("w:basedOn") or ""
            self._resolved[identifier] = style
        return self._resolved[identifier]


def _own(identifier: str, node: XmlNode) -> Style:
    """Return the properties that a style sets itself."""
    name = (node.value("w:name") or identifier).casefold()
    outline = node.number("w:pPr", "w:outlineLvl")
    number = node.number("w:pPr", "w:numPr", "w:numId")
    return Style(
        outline=_named_level(name) if outline is None else outline,
        role="toc" if name.startswith("toc ") and name[4:].isdigit() else _ROLES.get(name, ""),
        number=number,
        number_level=node.number("w:pPr", "w:numPr", "w:ilvl"),
        number_style="" if number is None else identifier,
        hidden=node.flag("w:rPr", "w:vanish"),
        page_break=node.flag("w:pPr", "w:pageBreakBefore"),
    )


def _named_level(name: str) -> int | None:
    """Return the outline level of `heading 1` to `heading 9`, which a style without one has by its name."""
    digit = name.removeprefix("heading").strip()
    named = name.startswith("heading") and len(digit) == 1 and digit in "123456789"
    return int(digit) - 1 if named else None
