"""OpenDocument texts (ISO 26300) as HTML for the reader of HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from xml.etree import ElementTree as ET

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Dropped
from retrieve_cli.errors import BadDocument
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.archive import Archive
from retrieve_cli.sources.formats.composed import properties
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import html_document

_TAGS = {"p": "p", "list-item": "li", "list-header": "li", "text-box": "div", "section": "div", "table": "table",
         "table-row": "tr", "table-cell": "td", "list": "ul"}  # fmt: skip
_CHARACTERS = {"tab": " ", "line-break": "<br>"}
_DROPPED = {
    "annotation": "comment", "tracked-changes": "deleted text", "table-of-content": "table of contents",
    "image": "picture", "object": "embedded object",
}  # fmt: skip
"""Elements that are not read, with the kind of their content."""
_HIDDEN = ("title", "desc", "covered-table-cell")
_SPANS = {"number-rows-spanned": "rowspan", "number-columns-spanned": "colspan", "number-columns-repeated": "colspan"}


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return a text document.

    Raises:
        BadDocument: it is damaged, encrypted, of another kind, or exceeds a limit.
    """
    archive = Archive(content, limits, suffix=".odt")
    if "META-INF/manifest.xml" in archive.names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise BadDocument("it is encrypted", hint="save it without a password")
    names = [*({"styles.xml"} & set(archive.names)), "content.xml"]
    trees = [ET.fromstring(archive.xml(part)) for part in names]  # noqa: S314  it has no entities
    writer = _Writer(trees)
    html = "".join(writer.html(node) for node in trees[-1] if _local(node) == "body") + "".join(writer.notes)
    made = html_document(html, main_content=False, metadata=properties(archive, "meta.xml"))
    return replace(made, dropped=(*writer.dropped, *made.dropped))


def _local(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def _values(node: ET.Element) -> dict[str, str]:
    """Return the attributes by their names without namespaces."""
    return {key.rpartition("}")[2]: value for key, value in node.items()}


class _Writer:
    """Writes elements as HTML."""

    def __init__(self, trees: Iterable[ET.Element]) -> None:
        self.notes: list[str] = []
        self.dropped: list[Dropped] = []
        self._tags: dict[str, str] = {"Title": "h1", "Preformatted_20_Text": "pre"}
        """Tags of paragraphs, lists and spans by their styles."""
        for node in (node for tree in trees for node in tree.iter()):
            values = _values(node)
            if _local(node) == "list-style" and any(_local(level).endswith("-number") for level in node[:1]):
                self._tags[values.get("name", "")] = "ol"
            elif _local(node) == "style":
                parent = self._tags.get(values.get("parent-style-name", ""), "")
                rise = "".join(_values(part).get("text-position", "") for part in node).partition(" ")[0].strip("0%")
                mark = "sub" if rise.startswith(("sub", "-")) else "sup"
                self._tags.setdefault(values.get("name", ""), mark if rise else parent)

    def html(self, node: ET.Element) -> str:
        """Return an element as HTML, without the text after it."""
        kind, values = _local(node), _values(node)
        if kind in _DROPPED:
            self.dropped.append(Dropped(_DROPPED[kind], " ".join("".join(node.itertext()).split())[:200]))
        if kind in _DROPPED or kind in _HIDDEN:
            return ""
        if kind == "note":
            return self._note(node)
        if kind == "s":
            return " " * (int(count) if (count := values.get("c", "1")) in map(str, range(99)) else 1)
        inside = escape(node.text or "") + "".join(self.html(child) + escape(child.tail or "") for child in node)
        spans = "".join(f' {name}="{escape(values[key])}"' for key, name in _SPANS.items() if key in values)
        tag = _TAGS.get(kind, "")
        if kind == "h":
            level = values.get("outline-level", "1")
            tag = f"h{level if level in set('123456') else 6}"
        elif kind in ("p", "span", "list"):  # an inner list has the style of the outer one, and dashes
            tag = self._tags.get(values.get("style-name", "")) or tag
        elif kind == "table":  # the first row is the header
            head, end, rows = inside.partition("</tr>")
            inside = head.replace("<td", "<th").replace("</td", "</th") + end + rows
        return f"<{tag}{spans}>{inside}</{tag}>" if tag else _CHARACTERS.get(kind, inside)

    def _note(self, node: ET.Element) -> str:
        """Keep a note for the end of the text, and return its mark."""
        mark, *words = (" ".join(" ".join(part.itertext()).split()) for part in (*node, ET.Element("end")))
        self.notes.append(f"<p>[{escape(mark)}] {escape(' '.join(words))}</p>")
        return f"[{escape(mark)}]"
