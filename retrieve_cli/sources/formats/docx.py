"""Word documents: HTML by mammoth, from parts that are unpacked within bounds.

Headings, captions, quotes and code are known by the names and outline levels of their styles.
Printed numbers of lists, pictures, comments, headers, footers and pages are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set as AbstractSet
from xml.etree import ElementTree as ET

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Dropped
from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.archive import Archive, packed
from retrieve_cli.sources.formats.composed import properties
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import html_document

_UNREAD = re.compile(
    r"(?:^|/)(?:docProps|customXml|theme|glossary|charts|diagrams|media|embeddings)/"
    r"|/(?:settings|stylesWithEffects|webSettings|fontTable|people|comments\w*|header\d*|footer\d*)\.xml$"
)
_HEADING = re.compile(r"heading ([1-9])")
_CODE = "pre:separator('\\n')"
_STYLES = {
    "title": "h1:fresh", "subtitle": "p:fresh", "caption": "figcaption:fresh",
    "quote": "blockquote > p:fresh", "intense quote": "blockquote > p:fresh",
    **dict.fromkeys(("html preformatted", "preformatted text", "source code", "code", "macro"), _CODE),
}  # fmt: skip
"""HTML of paragraphs by the name of their style, in lower case."""
_STYLE_ID = re.compile(rb"pStyle [^>]*?val=\"([\w.-]{1,200})\"", re.ASCII)
_LISTS = [
    f"p:{kind}-list({depth}) => {'ul|ol > li > ' * (depth - 1)}{name} > li:fresh"
    for kind, name in (("unordered", "ul"), ("ordered", "ol"))
    for depth in range(1, 6)
]
_MOST_ANCESTORS, _MOST_DROPPED = 20, 1000
_KEPT = {
    "styles": ("style",), "style": ("name", "basedOn", "pPr"), "lvl": ("start", "numFmt", "pStyle"),
    "pPr": ("pStyle", "numPr", "outlineLvl", "rPr"), "sectPr": (), "tblPr": ("tblStyle",), "tblGrid": (),
    "rPr": ("rStyle", "b", "vertAlign", "vanish", "del", "ins", "rFonts"), "rFonts": (),
}  # fmt: skip
"""Children of elements that are read; of other elements, all are."""
_OFF = ("0", "false", "off")


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return a Word document.

    Raises:
        BadDocument: it is damaged, encrypted, of another kind, exceeds a limit, or has no text.
    """
    import mammoth

    archive = Archive(content, limits, suffix=".docx")
    parts = [part for part in archive.names if part.endswith((".xml", ".rels"))]
    if "[Content_Types].xml" not in parts or not any(part.startswith("word/") for part in parts):
        raise BadDocument("it is a ZIP file without a Word document")
    metadata = properties(archive, "docProps/core.xml")
    hidden: list[str] = []
    members = {
        part: _plain(archive.xml(part), hidden) if part.startswith("word/") else archive.xml(part)
        for part in parts
        if not _UNREAD.search(part)
    }
    used = {name.decode() for part in members.values() for name in _STYLE_ID.findall(part)}
    rules: list[str] = []
    for part in members.keys() & {"word/styles.xml", "word/styles2.xml"}:
        members[part] = _used_styles(members[part], used, rules)
    options = {
        "style_map": "\n".join((*rules, *_LISTS)),
        "include_default_style_map": False,
        "include_embedded_style_map": False,
        "convert_image": lambda _: [],
    }
    try:
        html = mammoth.convert_to_html(packed(members), **options).value
    except Exception as error:
        reason = shortened(f"{type(error).__name__}: {error}")
        raise BadDocument(f"it is not a valid Word document ({reason})") from error
    html = html.replace("<table>", '<table role="table">')
    parsed = html_document(html, main_content=False, metadata=metadata)
    skipped = tuple(Dropped("hidden text", shortened(text)) for text in hidden[:_MOST_DROPPED])
    return replace(parsed, dropped=(*skipped, *parsed.dropped))


def _local(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def _value(node: ET.Element | None, path: str) -> str:
    """Return `w:val` of the element at a path of local names; empty without one."""
    for name in path.split("/"):
        node = next((child for child in node if _local(child) == name), None) if node is not None else None
    values = node.attrib.items() if node is not None else ()
    return next((value for key, value in values if key.rpartition("}")[2] == "val"), "")


def _used_styles(content: bytes, used: AbstractSet[str], rules: list[str]) -> bytes:
    """Return the styles of paragraphs that are used; add rules for headings and other blocks."""
    root = ET.fromstring(content)  # noqa: S314  it is checked
    identifier = f"{root.tag.rpartition('}')[0]}}}styleId"
    styles = {style.get(identifier, ""): style for style in root}
    for style in (styles[name] for name in sorted(styles.keys() & used)):
        ancestor, html = style, _html(style)
        for _ in range(_MOST_ANCESTORS):
            ancestor = styles.get(_value(ancestor, "basedOn"), ancestor)
            html = html or _html(ancestor)
        name = _value(style, "name").replace("\\", "\\\\").replace("'", "\\'")
        rules += [f"p[style-name='{name}'] => {html}"] if html and name.isprintable() else ()
    root[:] = [styles[name] for name in sorted(styles.keys() & used)]
    return ET.tostring(root)


def _html(style: ET.Element) -> str:
    """Return the HTML for paragraphs of a style; empty if the style does not decide it."""
    name, outline = _value(style, "name").lower(), _value(style, "pPr/outlineLvl")
    if name in _STYLES:
        return _STYLES[name]
    heading = _HEADING.fullmatch(name)
    level = int(heading[1]) if heading else int(outline[:2]) + 1 if outline.isdecimal() else 0
    return f"h{min(6, level)}:fresh" if 1 <= level <= 9 else "p:fresh" * bool(outline)


def _plain(content: bytes, hidden: list[str]) -> bytes:
    """Return the XML of a text without hidden runs, whose words are added to `hidden`, and with the words of equations
    as runs.

    Properties that no reader needs are removed as well: mammoth takes most of its time for them.
    """
    root = ET.fromstring(content)  # noqa: S314  it is checked
    space = root.tag.rpartition("}")[0] + "}"
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        name = _local(parent)
        kept = _KEPT.get(name)
        if name == "oMathPara":
            parent.tag = f"{space}smartTag"
        elif name == "oMath":
            run = ET.Element(f"{space}t")
            run.text = " ".join(filter(None, map(str.strip, parent.itertext())))
            parent.tag, parent[:] = f"{space}r", [run]
        elif kept is not None:
            parent[:] = [child for child in parent if _local(child) in kept]
        elif name in ("p", "hyperlink", "ins", "sdtContent"):
            runs = [child for child in parent if _is_hidden(child, f"{space}rPr/{space}vanish")]
            hidden += filter(str.strip, ("".join(run.itertext()) for run in runs))
            for run in reversed(runs):
                parent.remove(run)
        waiting += parent
    return ET.tostring(root)


def _is_hidden(run: ET.Element, path: str) -> bool:
    return run.find(path) is not None and _value(run, "rPr/vanish").lower() not in _OFF
