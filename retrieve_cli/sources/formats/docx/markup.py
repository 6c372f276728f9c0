"""XML of a package, read piece by piece without a document type: no entities, no network, bounded depth.

Expat alone expands entities that a document type declares, so a document type is rejected; then a text has nothing to
expand. Elements are kept as small nodes, and of a large part only one child of the body at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from xml.parsers import expat

from retrieve_cli.errors import BadDocument, shortened

DEPTH = 256
"""Maximum depth of elements; nested text boxes within nested tables stay below 100."""
_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships": "r",
    "http://purl.oclc.org/ooxml/officeDocument/relationships": "r",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
    "http://schemas.openxmlformats.org/package/2006/relationships": "rel",
    "http://schemas.openxmlformats.org/package/2006/metadata/core-properties": "cp",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
}
"""Prefixes in this package for the namespaces of the transitional and the strict form (ISO/IEC 29500)."""


class XmlNode:
    """An element; `text` is the text behind its last child, and in these formats only leaves have any."""

    __slots__ = ("attributes", "children", "name", "text")

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[XmlNode] = []
        self.text = ""

    def get(self, attribute: str) -> str:
        """Return the value of an attribute; empty if it is absent."""
        return self.attributes.get(attribute, "")

    def child(self, *path: str) -> XmlNode | None:
        """Return the first element at a path of names below this one."""
        node: XmlNode | None = self
        for name in path:
            node = next((child for child in node.children if child.name == name), None) if node else None
        return node

    def value(self, *path: str) -> str | None:
        """Return `w:val` of the first element at a path; None if the path has no element."""
        node = self.child(*path)
        return None if node is None else node.get("w:val")

    def flag(self, *path: str) -> bool | None:
        """Return the state of a property that is on or off; None if it is absent."""
        value = self.value(*path)
        return None if value is None else value.lower() not in ("0", "false", "off")

    def number(self, *path: str) -> int | None:
        """Return the whole number at a path; None if the path has no number."""
        return whole(self.value(*path))

    def descendants(self) -> Iterator[XmlNode]:
        """Yield every element below, in order."""
        waiting = self.children[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children[::-1]


def whole(text: str | None) -> int | None:
    """Return a whole number of few digits; None for any other text."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) <= 9 else None


def read(pieces: Iterable[bytes], part: str) -> XmlNode:
    """Return the root of a part.

    Raises:
        BadDocument: it is not valid XML, has a document type, or is nested too deeply.
    """
    builder = _Builder()
    for _ in _parse(builder, pieces, part):
        pass
    return builder.root or XmlNode("", {})


def children(pieces: Iterable[bytes], part: str, *, root: str, of: str) -> Iterator[XmlNode]:
    """Yield the children of the element `of` below the root, each without keeping the earlier ones.

    Raises:
        BadDocument: as in `read`; also if the root has another name.
    """
    return _parse(_Builder(root, of), pieces, part)


class _Builder:
    """Builder of nodes; with `of`, the children of that element are collected apart."""

    def __init__(self, root_name: str = "", of: str = "") -> None:
        self.root: XmlNode | None = None
        self.ready: list[XmlNode] = []
        self._root_name = root_name
        self._of = of
        self._open: list[XmlNode] = []
        self._text: list[str] = []
        """Text since the last start or end of an element."""
        self._names: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        names = self._names
        short = names.get(name) or self._short(name)
        node = XmlNode(short, {names.get(key) or self._short(key): value for key, value in attributes.items()})
        if not self._open:
            if self._root_name not in ("", short):
                raise BadDocument(f"its main part is {shortened(short, 40)}, not a Word document")
            self.root = node
        elif len(self._open) >= DEPTH:
            raise BadDocument(f"its elements are nested deeper than {DEPTH} levels")
        elif not self._apart():
            self._open[-1].children.append(node)
        self._open.append(node)
        self._text.clear()

    def end(self, _: str) -> None:
        node = self._open.pop()
        if self._text:
            node.text = "".join(self._text)
            self._text.clear()
        if self._apart():
            self.ready.append(node)

    def text(self, text: str) -> None:
        self._text.append(text)

    def _apart(self) -> bool:
        """Return True if the children of the innermost open element are collected apart."""
        return len(self._open) == 2 and self._open[1].name == self._of

    def _short(self, name: str) -> str:
        space, _, local = name.rpartition(" ")
        prefix = _PREFIXES.get(space, "other") if space else ""
        short = self._names[name] = f"{prefix}:{local}" if prefix else local
        return short


def _parse(builder: _Builder, pieces: Iterable[bytes], part: str) -> Iterator[XmlNode]:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text

    def reject(*_: object) -> None:
        raise BadDocument(f"{part} has a document type, which Word documents never have")

    parser.StartDoctypeDeclHandler = reject
    try:
        for piece in chain(pieces, (b"",)):
            parser.Parse(piece, not piece)
            yield from builder.ready
            builder.ready.clear()
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: an unknown encoding
        raise BadDocument(f"{part} is not valid XML: {shortened(str(error))}") from error
