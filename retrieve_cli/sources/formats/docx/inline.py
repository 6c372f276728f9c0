"""Text of a paragraph as Word shows it, with the parts anchored in it: notes, text boxes, page breaks, bookmarks.

Kept: inserted text, results of fields, links, content controls, one branch of each alternative. Dropped: deleted and
hidden text, instructions of fields, comments, soft hyphens, phonetic guides. Equations (Office Math) are one line of
text: `(a + b)/c`, `x^2`, `√(x)`.

Characters of symbol fonts, whose codes mean other characters than in Unicode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from retrieve_cli.sources.formats.docx.markup import XmlNode, whole
from retrieve_cli.sources.formats.docx.numbering import Note
from retrieve_cli.sources.formats.docx.pages import Break
from retrieve_cli.sources.formats.docx.styles import Style, Styles

TRANSPARENT = frozenset(
    f"w:{name}"
    for name in ("bdo", "customXml", "dir", "hyperlink", "ins", "moveTo", "ruby", "rubyBase", "sdtContent", "smartTag")
)
"""Elements that only group others."""
_CHARACTERS = {"w:tab": "\t", "w:ptab": "\t", "w:cr": "\n", "w:noBreakHyphen": "-"}
_REFERENCES = {"w:footnoteReference": "footnotes", "w:endnoteReference": "endnotes"}
_DRAWN = frozenset({"w:drawing", "w:pict", "w:object"})
_LONGEST_CODE = 200
"""Maximum characters that are kept of a field's instruction."""
_LONGEST_LABEL = 40
"""Maximum characters before the number of a caption: `Supplementary Figure`."""
_LONGEST_MARK = 20
"""Maximum characters of a note's own mark, such as `*`."""
_MOST_FIELDS = 50
"""Maximum number of fields that are open at once."""


class DocxFields:
    """Open fields of a story: a field has an instruction, then perhaps a result, and may go on over paragraphs."""

    def __init__(self) -> None:
        self._open: list[str | None] = []
        """Instruction of each open field; None once its result has begun."""

    @property
    def in_instruction(self) -> bool:
        return any(code is not None for code in self._open)

    def begin(self) -> None:
        if len(self._open) < _MOST_FIELDS:
            self._open.append("")

    def add(self, code: str) -> None:
        """Add to the instruction of the innermost field."""
        if self._open and self._open[-1] is not None:
            self._open[-1] = (self._open[-1] + code)[:_LONGEST_CODE]

    def separate(self) -> str:
        """Begin the result of the innermost field and return its instruction."""
        code = self._open[-1] if self._open else None
        if self._open:
            self._open[-1] = None
        return code or ""

    def end(self) -> None:
        if self._open:
            self._open.pop()

    def end_instructions(self) -> None:
        """Close fields without a result at the end of a paragraph, so that one that never ends hides no more."""
        self._open = [code for code in self._open if code is None]


class Inline:
    """Text of one paragraph while it is read; `add` may be called for several paragraphs that Word shows as one."""

    def __init__(self, styles: Styles, fields: DocxFields, label: Callable[[str, XmlNode], str]) -> None:
        """`label` returns the printed mark of a reference to a note."""
        self._styles = styles
        self._fields = fields
        self._label = label
        self._style = Style()
        self._pieces: list[str] = []
        self._length = 0
        self._verbatim = False
        self.breaks: list[tuple[int, Break]] = []
        self.notes: list[Note] = []
        self.boxes: list[XmlNode] = []
        """Contents of text boxes."""
        self.bookmarks: list[str] = []
        self.captioned = False
        """True if a word and a counted number begin the text, as in `Figure 3`."""

    @property
    def text(self) -> str:
        return "".join(self._pieces).rstrip()

    def add(self, paragraph: XmlNode, style: Style) -> None:
        """Add the contents of a paragraph."""
        self._style = style
        self._verbatim = style.role == "code"
        self._all(paragraph.children, hidden=False)
        self._fields.end_instructions()

    def mark(self, kind: Break) -> None:
        """Note the end of a page at this place."""
        self.breaks.append((self._length, kind))

    def _all(self, nodes: Iterable[XmlNode], *, hidden: bool, font: str = "") -> None:
        for node in nodes:
            self._one(node, hidden=hidden, font=font)

    def _one(self, node: XmlNode, *, hidden: bool, font: str) -> None:
        name = node.name
        if name == "w:r":
            self._run(node)
        elif name == "w:t":
            self._write(from_font(node.text, font) if font else node.text, hidden=hidden)
        elif name in TRANSPARENT:
            self._all(node.children, hidden=hidden)
        elif name in _CHARACTERS:
            self._write(_CHARACTERS[name], hidden=hidden, verbatim=True)
        elif (read := self._SPECIAL.get(name)) is not None:
            read(self, node, hidden)

    def _run(self, run: XmlNode) -> None:
        font, hidden = "", False
        properties = run.child("w:rPr")
        if properties is not None or self._style.hidden:
            hidden = self._hidden(properties)
            fonts = properties.child("w:rFonts") if properties else None
            font = fonts.get("w:ascii") if fonts else ""
        references = (node for node in run.children if node.name in _REFERENCES)
        own = (node for node in references if node.get("w:customMarkFollows").lower() in ("1", "true", "on"))
        marked = next(own, None)  # with a mark in the same run instead of a number
        if marked is None:
            self._all(run.children, hidden=hidden, font=font)
        else:
            mark = "".join(node.text for node in run.children if node.name == "w:t")
            self._note(marked, hidden, mark=mark.strip()[:_LONGEST_MARK] or "*")

    def _hidden(self, properties: XmlNode | None) -> bool:
        """Return True if a run is hidden: by itself, or by exactly one of its character and its paragraph style."""
        own = properties.flag("w:vanish") if properties else None
        if own is not None:
            return own
        style = properties.value("w:rStyle") if properties else None
        return bool(style and self._styles.style(style).hidden) != bool(self._style.hidden)

    def _write(self, text: str, *, hidden: bool, verbatim: bool = False) -> None:
        if hidden or not text or self._fields.in_instruction:
            return
        if not verbatim:
            text = text.replace("\u00ad", "").translate(_SPACES)
        last = self._pieces[-1][-1:] if self._pieces else "\n"
        if last == "\n" and not self._verbatim:
            text = text.lstrip()
        if text:
            self._pieces.append(text)
            self._length += len(text)

    def _break(self, node: XmlNode, hidden: bool) -> None:
        if hidden:
            return
        if node.get("w:type") == "page":
            self.mark("explicit")
        else:
            self._write("\n", hidden=False, verbatim=True)

    def _rendered(self, _: XmlNode, hidden: bool) -> None:
        if not hidden:
            self.mark("rendered")

    def _deleted(self, node: XmlNode, _: bool) -> None:
        """Drop deleted text, but not the ends of pages in it, which may have been displayed."""
        for inner in node.descendants():
            if inner.name == "w:lastRenderedPageBreak":
                self.mark("rendered")

    def _field(self, node: XmlNode, _: bool) -> None:
        kind = node.get("w:fldCharType")
        if kind == "begin":
            self._fields.begin()
        elif kind == "separate":
            self._begin_result(self._fields.separate())
        elif kind == "end":
            self._fields.end()

    def _simple_field(self, node: XmlNode, hidden: bool) -> None:
        self._begin_result(node.get("w:instr")[:_LONGEST_CODE])
        self._all(node.children, hidden=hidden)

    def _begin_result(self, code: str) -> None:
        """Note the number of a caption: a counter behind one to three words that begin the paragraph."""
        if code.split()[:1] in (["SEQ"], ["seq"]) and self._length <= _LONGEST_LABEL:
            words = "".join(self._pieces).split()
            self.captioned |= 1 <= len(words) <= 3 and all(word.rstrip(".").isalpha() for word in words)

    def _note(self, node: XmlNode, hidden: bool, *, mark: str = "") -> None:
        if not hidden and not self._fields.in_instruction:
            kind = _REFERENCES[node.name]
            label = mark or self._label(kind, node)
            identifier = whole(node.get("w:id"))
            if label and identifier is not None:
                self._write(f"[{label}]", hidden=False)
                self.notes.append(Note(kind, identifier, label))

    def _drawing(self, node: XmlNode, hidden: bool) -> None:
        if not hidden:
            self.boxes += _boxes(node)

    def _alternatives(self, node: XmlNode, hidden: bool) -> None:
        """Read the branch for this reader: the first that has text or a text box, else the fallback."""
        before = self._length, len(self.boxes), len(self.breaks)
        for branch in node.children:
            if before == (self._length, len(self.boxes), len(self.breaks)):
                self._all(branch.children, hidden=hidden)

    def _control(self, node: XmlNode, hidden: bool) -> None:
        """Read a content control, unless it shows only the prompt for its content."""
        if not node.flag("w:sdtPr", "w:showingPlcHdr"):
            self._all(node.children, hidden=hidden)

    _SPECIAL: dict[str, Callable[[Inline, XmlNode, bool], None]] = {  # noqa: RUF012  never changed
        **dict.fromkeys(
            ("m:oMath", "m:oMathPara"), lambda self, node, hidden: self._write(equation(node), hidden=hidden)
        ),
        "mc:AlternateContent": _alternatives,
        "w:bookmarkStart": lambda self, node, _: self.bookmarks.append(node.get("w:name")),
        "w:br": _break,
        "w:del": _deleted,
        "w:fldChar": _field,
        "w:fldSimple": _simple_field,
        "w:instrText": lambda self, node, _: self._fields.add(node.text),
        "w:lastRenderedPageBreak": _rendered,
        "w:moveFrom": _deleted,
        "w:sdt": _control,
        "w:sym": lambda self, node, hidden: self._write(symbol(node.get("w:char"), node.get("w:font")), hidden=hidden),
        **dict.fromkeys(_DRAWN, _drawing),
        **dict.fromkeys(_REFERENCES, _note),
    }


_SPACES = {ord(char): " " for char in "\n\r\t"}


def _boxes(drawing: XmlNode) -> list[XmlNode]:
    """Return the contents of the text boxes of a drawing, one branch of each alternative, without inner boxes."""
    boxes: list[XmlNode] = []
    for child in drawing.children:
        if child.name == "w:txbxContent":
            boxes.append(child)
        elif child.name == "mc:AlternateContent":
            boxes += next(filter(None, map(_boxes, child.children)), [])
        else:
            boxes += _boxes(child)
    return boxes


_BETWEEN = {"m:f": "/", "m:sSub": "_", "m:sSup": "^", "m:limLow": "_", "m:limUpp": "^"}
_DROPPED_ENDING = "Pr"
"""Ending of the names of properties, such as `m:fPr`."""


def equation(node: XmlNode) -> str:
    """Return the text of an equation, or of a part of one."""
    if node.name in ("m:t", "w:t"):
        return node.text
    texts = [equation(child) for child in node.children if not child.name.endswith(_DROPPED_ENDING)]
    if node.name in _BETWEEN:
        return _BETWEEN[node.name].join(map(_grouped, texts))
    if node.name == "m:sSubSup":
        return "".join(mark + _grouped(text) for mark, text in zip(("", "_", "^"), texts, strict=False))
    if node.name == "m:rad" and texts:
        return f"{texts[0] if len(texts) > 1 else ''}√({texts[-1]})"
    if node.name == "m:d":
        return _mark(node, "m:dPr", "m:begChr", "(") + ", ".join(texts) + _mark(node, "m:dPr", "m:endChr", ")")
    if node.name == "m:nary":  # a sum or an integral with its limits
        low, high, *body = [*texts, "", ""][: max(len(texts), 2)]
        limits = (f"_{_grouped(low)}" if low else "") + (f"^{_grouped(high)}" if high else "")
        return f"{_mark(node, 'm:naryPr', 'm:chr', '∫')}{limits} {''.join(body)}"
    return ("; " if node.name == "m:m" else "").join(texts)


def _grouped(text: str) -> str:
    """Return a text in brackets if it has more than one part."""
    return text if len(text) < 2 or text.isalnum() or (text[0] == "(" and text[-1] == ")") else f"({text})"


def _mark(node: XmlNode, properties: str, name: str, other: str) -> str:
    """Return a character that the properties choose; `other` if they don't."""
    chosen = node.child(properties, name)
    return other if chosen is None else chosen.get("m:val")[:1]


_PRIVATE = 0xF000
"""Offset at which symbol fonts are mapped into the private use area."""
_SYMBOL = {
    0x22: "∀", 0x24: "∃", 0x27: "∋", 0x2A: "∗", 0x2D: "−", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥",
    0xA1: "ϒ", 0xA2: "′", 0xA3: "≤", 0xA4: "⁄", 0xA5: "∞", 0xA6: "ƒ", 0xA7: "♣", 0xA8: "♦", 0xA9: "♥", 0xAA: "♠",
    0xAB: "↔", 0xAC: "←", 0xAD: "↑", 0xAE: "→", 0xAF: "↓", 0xB0: "°", 0xB1: "±", 0xB2: "″", 0xB3: "≥", 0xB4: "×",
    0xB5: "∝", 0xB6: "∂", 0xB7: "•", 0xB8: "÷", 0xB9: "≠", 0xBA: "≡", 0xBB: "≈", 0xBC: "…", 0xC5: "⊕", 0xC6: "∅",
    0xC4: "⊗", 0xC7: "∩", 0xC8: "∪", 0xC9: "⊃", 0xCA: "⊇", 0xCB: "⊄", 0xCC: "⊂", 0xCD: "⊆", 0xCE: "∈", 0xCF: "∉",
    0xD0: "∠", 0xD1: "∇", 0xD2: "®", 0xD3: "©", 0xD4: "™", 0xD5: "∏", 0xD6: "√", 0xD7: "⋅", 0xD8: "¬", 0xD9: "∧",
    0xDA: "∨", 0xDB: "⇔", 0xDC: "⇐", 0xDD: "⇑", 0xDE: "⇒", 0xDF: "⇓", 0xE0: "◊", 0xE5: "∑", 0xF2: "∫",
}  # fmt: skip
"""The Symbol font, beyond digits and letters."""
_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
"""The Symbol font from A and from a."""
_WINGDINGS = {
    0x6C: "●", 0x6D: "○", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x75: "◆", 0x76: "❖", 0x9F: "•", 0xA7: "▪", 0xA8: "◻",
    0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒",
    0xFE: "☑",
}  # fmt: skip


def symbol(code: str, font: str) -> str:
    """Return the character of a hexadecimal code in a font; empty if it has none."""
    try:
        number = int(code[:6], 16)
    except ValueError:
        return ""
    return character(number, font)


def character(number: int, font: str) -> str:
    """Return the character with a number in a font; empty for one in the private use area that is not known."""
    name = font.casefold()
    own = number - _PRIVATE if _PRIVATE <= number < _PRIVATE + 256 else number
    table = _table(name)
    if own in table:
        return table[own]
    if own != number:
        return chr(own) if name == "symbol" and 0x20 <= own < 0x7F else ""
    return chr(number) if 0x20 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def from_font(text: str, font: str) -> str:
    """Return a text of the private use area as the font shows it."""
    return "".join(character(ord(char), font) if _PRIVATE <= ord(char) < _PRIVATE + 256 else char for char in text)


@cache
def _table(font: str) -> dict[int, str]:
    if font == "symbol":
        greek = {
            ord(first) + place: char
            for first, chars in zip("Aa", _GREEK, strict=True)
            for place, char in enumerate(chars)
        }
        return _SYMBOL | greek
    return _WINGDINGS if font == "wingdings" else {}
