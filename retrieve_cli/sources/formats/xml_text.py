"""XML by its tags, as HTML: articles in JATS, labels of drugs, and documents of any other schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from html.entities import html5
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import html_document
from retrieve_cli.sources.formats.html.text import one_line

_DEEPEST, _MOST, _LONGEST, _MOST_VALUES = 256, 500_000, 1000, 50
_GROUPS = {  # names of HTML, some of them only @ their parents, with the tags of schemas for the same
    "p": "p para simpara paragraph disp-formula mixed-citation element-citation", "sub": "sub",
    "title": "title head heading", "caption": "caption figcaption title@table", "table": "table",
    "ul": "ul list itemizedlist", "ol": "ol orderedlist", "dl": "dl def-list", "dt@dl div": "dt term",
    "dd@dl div": "dd def", "li@ul ol": "li item list-item listitem", "th@tr": "th", "td@tr": "td entry",
    "tr@table thead tbody tfoot": "tr row", "thead@table div": "thead", "tbody@table div": "tbody",
    "tfoot@table div": "tfoot", "a": "a xref", "b": "b bold", "br": "br break", "sup": "sup",
    "blockquote": "disp-quote", "pre": "pre preformat programlisting",
    "span": "code em emphasis ext-link hi i italic link monospace named-content q sc strong uri styled-content",
    "div": "app-group article-meta back body boxed-text component content def-item div fig floats-group fn section"
    " front front-stub journal-meta object-id label part ref sec structuredbody table-wrap table-wrap-foot text"
    " tgroup",
}  # fmt: skip
_NAMES = {tag: name.partition("@") for name, tags in _GROUPS.items() for tag in tags.split()}
_INLINE = {"a", "b", "br", "span", "sub", "sup"}
_PROSE = {"caption", "li", "p", "pre", "td", "th"}
_TAGS = {"ack": "Acknowledgments", "fn-group": "Footnotes", "ref-list": "References"}
_KEPT = ("id", "colspan", "rowspan", "start", "href")
_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?", re.ASCII)
_DOI = re.compile(r"10\.\d{4,9}/[^\s<>\"\\]{1,200}")
_Part = tuple[Element, str, int, bool]  # with its parent's name, its level, and True in a sentence


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return elements with a title, and others by their tags, as sections.

    Raises:
        BadDocument: it is not valid, declares entities, is out of bounds, or has no text.
    """
    root = _read(content)
    metadata = _metadata(root)
    pieces: list[str] = []
    waiting: list[_Part | str] = [(root, "", 1, False)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            pieces.append(part)
        else:
            title = str(metadata.get("title", "")) if part[0] is root else ""
            waiting += [*_parts(*part, title)][::-1]
    return html_document("".join(pieces), main_content=False, metadata=metadata)


def _read(content: bytes) -> Element:
    """Return the root, without elements that have no text; no document type is read."""
    parser, builder = expat.ParserCreate(), TreeBuilder()
    opened, numbers = list[str](), iter(range(_MOST))

    def begin(tag: str, attributes: dict[str, str]) -> None:
        opened.append(tag.rpartition(":")[2])
        local = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        builder.start(opened[-1], {"href": "#"} | local)
        if next(numbers, None) is None or len(opened) > _DEEPEST:
            line = parser.CurrentLineNumber
            raise BadDocument(f"it exceeds {_MOST:,} elements or {_DEEPEST} levels (line {line})")

    def end(_: str) -> None:
        element = builder.end(opened.pop())
        if _html(element) == "title" and not _is_leaf(element):
            element.tag = "div"
        if not _own_text(element):
            inner = [part for part in element if len(part) or _own_text(part) or part.tag in ("td", "th", "entry")]
            formula = inner[1:] and element.tag in ("alternatives", "semantics")  # in several forms
            element[:] = [part for part in inner if not formula or part.tag not in ("annotation", "tex-math")]

    def declared(*_: object) -> None:
        hint = "write them out: xmllint --noent --dropdtd IN.xml --output OUT.xml"
        line = parser.CurrentLineNumber
        raise BadDocument(f"it declares entities or attributes (line {line})", hint=hint)

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = builder.data
    parser.SkippedEntityHandler = lambda name, _: builder.data(html5.get(f"{name};", f"&{name};"))
    parser.EntityDeclHandler = parser.AttlistDeclHandler = declared
    try:
        parser.Parse(content, True)  # noqa: FBT003  it is the last piece
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: an unknown encoding
        raise BadDocument(f"it is not valid XML: {shortened(str(error))}") from error
    return builder.close()


def _parts(element: Element, parent: str, level: int, prose: bool, title: str) -> Iterator[_Part | str]:
    """Yield an element as HTML, with the heading of a section; leaves with the same tag have none."""
    name = _html(element, parent)
    if name == "ul" and element.get("list-type", "bullet") not in ("bullet", "simple"):
        name = "ol"
    section = name in ("", "div") and not prose
    first = {_html(child, name): child for child in reversed(element)}
    head = first.get("title", first.get("caption", first.get("p")))
    label = element.find("label")
    if head is not None and label is not None and _is_leaf(label):
        head.text, label.text, label[:] = f"{_flat(label)} {head.text or ''}", "", ()
    if section and head is not None and "title" in first:
        title, head.text, head[:] = _flat(head), "", ()
    elif section and not name and parent:
        words = re.sub(r"\W|_|(?<=[a-z])(?=[A-Z])", " ", element.tag).strip()
        title = _TAGS.get(element.tag) or words.capitalize()
    tag = "div" if section else {"": "span", "div": "span", "title": "span"}.get(name, name)
    tag = "figcaption" if tag == "caption" and parent != "table" else tag
    attributes = "".join(f' {key}="{escape(element.get(key, ""))}"' for key in _KEPT if element.get(key))
    yield f"<{tag}{attributes}>"
    if title:
        yield f"<h{min(6, level)}>{escape(title)}</h{min(6, level)}>"
    whole = name in _PROSE or bool(_own_text(element)) or (section and _is_leaf(element))
    prose = whole or (prose and name not in ("dl", "ol", "table", "ul"))
    tags = Counter(child.tag for child in element)
    yield escape(element.text or "")
    for child in element:
        if not prose and tags[child.tag] > 1 and _is_leaf(child) and not _html(child, name):
            child.tag = "p"
        yield child, name or tag, level + bool(title), prose
        apart = child is not element[-1] and _html(child) not in _INLINE
        yield escape(child.tail or "") or " " * apart
    yield "" if tag == "br" else f"</{tag}>"


def _own_text(element: Element) -> str:
    return "".join((element.text or "", *(child.tail or "" for child in element))).strip()


def _flat(element: Element) -> str:
    return one_line("".join(element.itertext()))


def _html(element: Element, parent: str | None = None) -> str:
    """Return the HTML name of an element; empty if HTML has no equivalent within that `parent`."""
    tag = element.tag.lower()
    name, _, parents = _NAMES.get(f"{tag}@{parent}") or _NAMES.get(tag, ("", "", ""))
    return name if not parents or parent is None or parent in parents.split() else ""


def _is_leaf(element: Element) -> bool:
    names = set(map(_html, element))
    return names <= _INLINE or ("title" not in names and bool(_own_text(element)))


def _metadata(root: Element) -> dict[str, Json]:
    """Return title, language, and the fields of a JATS article, of which only abstracts remain."""
    front = next(root.iterfind(".//article-meta/.."), Element("front"))

    def texts(within: Element, *paths: str) -> list[str]:
        parts = map(within.find, paths)
        return [_flat(part)[:_LONGEST] for part in parts if part is not None]

    people = front.findall("*/contrib-group/contrib[@contrib-type='author']")[:_MOST_VALUES]
    names = [texts(one, ".//given-names", ".//surname") or texts(one, "collab", "string-name") for one in people]
    titles = [_flat(part)[:_LONGEST] for part in root if _html(part) == "title"][:1]
    dates = ["-".join(p.zfill(2) for p in texts(d, "year", "month", "day")) for d in front.iterfind("*/pub-date")]
    doi = "".join(filter(_DOI.fullmatch, texts(front, "*/article-id[@pub-id-type='doi']")))
    metadata: dict[str, Json] = {
        "title": ": ".join(titles or texts(front, "*/title-group/article-title", "*/title-group/subtitle")),
        "language": root.get("lang", "")[:_LONGEST],
        "created": max(filter(_DATE.fullmatch, dates), key=len, default=""),
        "author": ", ".join(filter(None, map(" ".join, names))),
        "keywords": [_flat(word)[:_LONGEST] for word in front.findall(".//kwd")[:_MOST_VALUES]],
        "journal": "".join(texts(front, "journal-meta//journal-title")),
        "doi": doi,
        "url": doi and f"https://doi.org/{doi}",
    }
    for meta in (*front, *root.iterfind(".//front-stub")):
        meta[:] = [part for part in meta if part.tag.endswith("abstract")]
    return {name: value for name, value in metadata.items() if value}
