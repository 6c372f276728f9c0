"""XML by its tags: articles in JATS, labels of drugs, and documents of any other schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from html.entities import html5
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Layout
from retrieve_cli.errors import BadDocument, NotADocument, shortened
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.tree import TEXT, Tree, one_line
from retrieve_cli.sources.formats.html.writing import HtmlText

_DEEPEST, _MOST, _LONGEST, _MOST_VALUES = 256, 500_000, 1000, 50
_GROUPS = {  # names of HTML, some of them only @ their parents, with the tags of schemas for the same
    "p": "p para simpara paragraph disp-formula mixed-citation element-citation", "pre": "pre preformat programlisting",
    "title": "title head heading", "caption": "caption figcaption title@table", "table": "table",
    "ul": "ul list itemizedlist", "ol": "ol orderedlist", "dl": "dl def-list", "dt@dl div": "dt term",
    "dd@dl div": "dd def", "li@ul ol": "li item list-item listitem", "tr@table thead tbody tfoot": "tr row",
    "thead@table div": "thead", "tbody@table div": "tbody", "tfoot@table div": "tfoot", "th@tr": "th",
    "td@tr": "td entry", "a": "a xref", "b": "b bold", "br": "br break", "sup": "sup", "blockquote": "disp-quote",
    "span": "code em emphasis ext-link hi i italic link monospace named-content q sc strong styled-content sub uri",
    "div": "app-group article-meta back body boxed-text component content def-item div fig floats-group fn section "
    "front front-stub journal-meta object-id label part ref sec structuredbody table-wrap table-wrap-foot text tgroup",
}  # fmt: skip
_NAMES = {tag: name.partition("@") for name, tags in _GROUPS.items() for tag in tags.split()}
_INLINE, _PROSE = {"a", "b", "br", "span", "sup"}, {"caption", "li", "p", "pre", "td", "th"}
_TAGS = {"ack": "Acknowledgments", "fn-group": "Footnotes", "ref-list": "References"}
_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?", re.ASCII)
_DOI = re.compile(r"10\.\d{4,9}/[^\s<>\"\\]{1,200}")
_Part = tuple[int, int, bool, Element | str | None]  # parent, level, True in a sentence, content; None ends the parent


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return elements with a title, and others by their tags, as sections. Raises: BadDocument, also without text."""
    root = _read(content)
    metadata = _metadata(root)
    written = HtmlText()
    written.write(_Page(root, str(metadata.get("title", ""))), 0, frozenset())
    if not any(char.isalnum() for char in written.text):
        raise NotADocument("it has no text")
    return Parsed(written.text, Layout(written.blocks), metadata)


def _read(content: bytes) -> Element:
    """Return the root without elements that have no text, all with a target as links to notes have; no DTD is read."""
    parser, builder = expat.ParserCreate(), TreeBuilder()
    opened, numbers = list[str](), iter(range(_MOST))

    def begin(tag: str, attributes: dict[str, str]) -> None:
        opened.append(tag.rpartition(":")[2])
        builder.start(opened[-1], {"href": "#"} | {key.rpartition(":")[2]: value for key, value in attributes.items()})
        if next(numbers, None) is None or len(opened) > _DEEPEST:
            raise BadDocument(f"it exceeds {_MOST:,} elements or {_DEEPEST} levels (line {parser.CurrentLineNumber})")

    def end(_: str) -> None:
        element = builder.end(opened.pop())
        if _html(element) == "title" and not _is_leaf(element):
            element.tag = "div"
        if not _own_text(element):
            inner = [child for child in element if len(child) or _own_text(child) or _html(child) in ("td", "th")]
            formula = inner[1:] and element.tag in ("alternatives", "semantics")  # in several forms
            element[:] = [child for child in inner if not formula or child.tag not in ("annotation", "tex-math")]

    def declared(*_: object) -> None:
        hint = "write them out: xmllint --noent --dropdtd IN.xml --output OUT.xml"
        raise BadDocument(f"it declares entities or attributes (line {parser.CurrentLineNumber})", hint=hint)

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, builder.data
    parser.SkippedEntityHandler = lambda name, _: builder.data(html5.get(f"{name};", f"&{name};"))
    parser.EntityDeclHandler = parser.AttlistDeclHandler = declared
    try:
        parser.Parse(content, True)  # noqa: FBT003  it is the last piece
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: an unknown encoding
        raise BadDocument(f"it is not valid XML: {shortened(str(error))}") from error
    return builder.close()


class _Page(Tree):
    """Elements of XML as elements of an HTML page, with headings for sections."""

    def __init__(self, root: Element, title: str) -> None:
        super().__init__()
        waiting: list[_Part] = [(-1, 1, False, root)]
        while waiting:
            parent, level, prose, part = waiting.pop()
            if part is None:
                self.ends[parent] = len(self)
            elif isinstance(part, str):
                self.add(TEXT, {}, part)
            else:
                waiting += [*self._parts(part, parent, level, prose=prose, title="" if len(self) else title)][::-1]

    def _parts(self, element: Element, parent: int, level: int, *, prose: bool, title: str) -> Iterator[_Part]:
        """Add an element, with the heading of a section, and yield its parts; leaves with the same tag have none."""
        name = _html(element, self.names[parent] if parent >= 0 else "")
        name = "ol" if name == "ul" and element.get("list-type", "bullet") not in ("bullet", "simple") else name
        section = name in ("", "div") and not prose
        place = self.add("div" if section else name.removeprefix("div") or "span", element.attrib)
        first = {_html(child, name): child for child in reversed(element)}
        head = first.get("title", first.get("caption", first.get("p")))
        if head is not None and (label := element.find("label")) is not None and _is_leaf(label):
            head.text, label.text, label[:] = f"{_flat(label)} {head.text or ''}", "", ()
        if section and head is not None and "title" in first:
            title, head.text, head[:] = _flat(head), "", ()
        elif section and not name and parent >= 0:
            title = _TAGS.get(element.tag) or re.sub(r"\W|_|(?<=[a-z])(?=[A-Z])", " ", element.tag).strip().capitalize()
        if title:
            heading = self.add(f"h{min(6, level)}", {})
            self.ends[heading] = self.add(TEXT, {}, title) + 1
        whole = name in _PROSE or bool(_own_text(element)) or (section and _is_leaf(element))
        prose = whole or (prose and name not in ("dl", "ol", "table", "ul"))
        tags = Counter(child.tag for child in element)
        yield place, level, prose, element.text or ""
        for child in element:
            if not prose and tags[child.tag] > 1 and _is_leaf(child) and not _html(child, name):
                child.tag = "p"
            yield place, level + bool(title), prose, child
            yield place, level, prose, child.tail or ("" if child is element[-1] or _html(child) in _INLINE else " ")
        yield place, level, prose, None


def _own_text(element: Element) -> str:
    return "".join((element.text or "", *(child.tail or "" for child in element))).strip()


def _flat(element: Element) -> str:
    return one_line("".join(element.itertext()))


def _html(element: Element, parent: str | None = None) -> str:
    """Return the HTML name of an element; empty if HTML has no equivalent, or no equivalent within that `parent`."""
    name, _, parents = _NAMES.get(f"{element.tag.lower()}@{parent}") or _NAMES.get(element.tag.lower(), ("", "", ""))
    return name if not parents or parent is None or parent in parents.split() else ""


def _is_leaf(element: Element) -> bool:
    return (names := set(map(_html, element))) <= _INLINE or ("title" not in names and bool(_own_text(element)))


def _metadata(root: Element) -> dict[str, Json]:
    """Return title and language, and the fields of a JATS article, from which all metadata but abstracts is removed."""
    front = next(root.iterfind(".//article-meta/.."), Element("front"))

    def texts(within: Element, *paths: str) -> list[str]:
        return [_flat(each)[:_LONGEST] for path in paths if (each := within.find(path)) is not None]

    people = front.findall("*/contrib-group/contrib[@contrib-type='author']")[:_MOST_VALUES]
    names = [texts(each, ".//given-names", ".//surname") or texts(each, "collab", "string-name") for each in people]
    titles = [_flat(each)[:_LONGEST] for each in root if _html(each) == "title"][:1]
    dates = ["-".join(p.zfill(2) for p in texts(d, "year", "month", "day")) for d in front.iterfind("*/pub-date")]
    metadata: dict[str, Json] = {
        "title": ": ".join(titles or texts(front, "*/title-group/article-title", "*/title-group/subtitle")),
        "language": root.get("lang", "")[:_LONGEST],
        "created": max(filter(_DATE.fullmatch, dates), key=len, default=""),
        "author": ", ".join(filter(None, map(" ".join, names))),
        "keywords": [_flat(each)[:_LONGEST] for each in front.findall(".//kwd")[:_MOST_VALUES]],
        "journal": "".join(texts(front, "journal-meta//journal-title")),
        "doi": (doi := "".join(filter(_DOI.fullmatch, texts(front, "*/article-id[@pub-id-type='doi']")))),
        "url": f"https://doi.org/{doi}" if doi else "",
    }
    for meta in (*front, *root.iterfind(".//front-stub")):
        meta[:] = [each for each in meta if each.tag.endswith("abstract")]
    return {name: value for name, value in metadata.items() if value}
