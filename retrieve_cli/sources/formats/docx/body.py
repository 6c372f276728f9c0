"""Blocks of a document in the order in which Word shows them, written with a blank line between two of them.

Footnotes and endnotes follow the paragraph or table that refers to them, text boxes the paragraph that anchors them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from retrieve_cli.contracts.layout import Block, Kind
from retrieve_cli.sources.formats.docx.inline import TRANSPARENT, DocxFields, Inline
from retrieve_cli.sources.formats.docx.markup import XmlNode
from retrieve_cli.sources.formats.docx.numbering import DocxNotes, ListLabel, Note, Numbering
from retrieve_cli.sources.formats.docx.pages import DocxSection, PageEnd, section_of
from retrieve_cli.sources.formats.docx.styles import BODY_LEVEL, Style, Styles
from retrieve_cli.sources.formats.docx.tables import Cell, flat_table, one_line, only_cell, pipe_table
from retrieve_cli.sources.formats.markdown import GrowingText

Group = Literal["", "list", "code", "toc"]
"""Kind of consecutive paragraphs that are one block, a line each."""


class DocxWriter(GrowingText):
    """Text, blocks and ends of pages so far."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[PageEnd] = []
        self.group: Group = ""
        """Group of the last block, which the next paragraph may continue."""
        self._blank_lines = 0

    def add(
        self, kind: Kind, text: str, *, level: int = 0, anchor: str = "", group: Group = "", prefix: str = ""
    ) -> int:
        """Add a block, or a line to the last one if it has the same group. Return the place of `text` behind `prefix`;
        for an empty text, the end."""
        if not text.strip():
            self._blank_lines += self.group == "code" == group
            return self.length
        joins = bool(group) and group == self.group
        if self.length:
            self._put("\n" * (1 + self._blank_lines) if joins else "\n\n")
        start = self.length
        self._put(prefix)
        place = self.length
        self._put(text)
        if joins:
            self.blocks[-1] = self.blocks[-1]._replace(end=self.length)
        else:
            self.blocks.append(Block(start, self.length, kind, level, anchor))
        self.group, self._blank_lines = group, 0
        return place

    def end_group(self) -> None:
        """Let the next paragraph begin a separate block."""
        self.group, self._blank_lines = "", 0

    def mark(self, place: int, inline: Inline) -> None:
        """Take over the ends of pages within a text that begins at `place`."""
        for offset, kind in inline.breaks:
            self.marks.append(PageEnd(min(place + offset, self.length), kind))


_DEEPEST = 6
"""The innermost level of headings; the three further ones of Word are treated as this one."""
_INDENT = "  "
_HIDDEN_NAME = "_"
"""First character of the names of bookmarks that Word adds itself."""
_CURSOR = "_GoBack"
"""Bookmark of the place where the document was last edited."""


class Document(NamedTuple):
    """The parts that all stories of a document share."""

    styles: Styles
    numbering: Numbering
    notes: DocxNotes
    on_page: Callable[[int], None]


class Story:
    """A text with paragraphs and tables: the body, a text box, a note, or a cell."""

    def __init__(
        self, document: Document, *, fields: DocxFields | None = None, apart: bool = False, in_cell: bool = False
    ) -> None:
        """`apart` is true for notes and text boxes, in which no note is referred to; `in_cell` for a text without
        separate blocks, such as a cell, which shares the fields of its table."""
        self._document = document
        self._fields = fields or DocxFields()
        self._apart = apart
        self._in_cell = in_cell
        self._open: Inline | None = None
        """Text of paragraphs that Word shows as one with the next."""
        self._anchors: list[str] = []
        """Names of bookmarks since the last paragraph."""
        self._first_depth = 0
        self.writer = DocxWriter()
        self.sections: list[DocxSection] = []
        self.title = ""
        """Text of the first paragraph in the style Title."""
        self.skipped = 0
        """Number of embedded documents, which are not read."""
        self.notes: list[Note] = []
        """Notes that follow the table that is being read, or the cell's table."""

    def read(self, nodes: Iterable[XmlNode]) -> None:
        """Add blocks."""
        self._blocks(nodes)
        self._finish()

    def _block(self, node: XmlNode) -> None:
        if node.name == "w:p":
            self._paragraph(node)
        elif node.name == "w:tbl":
            self._finish()
            self._table(node)
        elif node.name in TRANSPARENT:
            self._blocks(node.children)
        elif node.name == "w:sdt":
            if not node.flag("w:sdtPr", "w:showingPlcHdr"):
                self._blocks(node.children)
        elif node.name == "mc:AlternateContent":
            self._blocks(next((branch.children for branch in node.children if branch.children), ()))
        elif node.name == "w:bookmarkStart":
            self._anchors.append(node.get("w:name"))
        elif node.name == "w:sectPr":
            self.sections.append(section_of(node))
        elif node.name == "w:altChunk":
            self.skipped += 1

    def _blocks(self, nodes: Iterable[XmlNode]) -> None:
        for node in nodes:
            self._block(node)

    def _paragraph(self, node: XmlNode) -> None:
        properties = node.child("w:pPr")
        document = self._document
        style = document.styles.paragraph(properties.value("w:pStyle") or "" if properties else "")
        inline = self._open or Inline(
            document.styles, self._fields, lambda kind, note: "" if self._apart else document.notes.label(kind, note)
        )
        self._open = None
        own_break = properties.flag("w:pageBreakBefore") if properties else None
        if style.page_break if own_break is None else own_break:
            inline.mark("before")
        before = len(inline.breaks)
        inline.add(node, style)
        if len(inline.breaks) > before and not self._apart and not self._in_cell:
            document.on_page(1 + len(self.writer.marks) + len(inline.breaks))
        if properties is not None and _continues(properties):
            self._open = inline
        else:
            self._write(inline, properties, style)
        section = properties.child("w:sectPr") if properties else None
        if section is not None:
            self._finish()
            self.sections.append(section_of(section))
            self.writer.marks.append(PageEnd(self.writer.length, "section"))

    def _finish(self) -> None:
        """Write a paragraph that waits for another one to continue it."""
        inline, self._open = self._open, None
        if inline is not None:
            self._write(inline, None, Style())

    def _write(self, inline: Inline, properties: XmlNode | None, style: Style) -> None:
        """Write a complete paragraph, its text boxes and its notes."""
        text = inline.text
        label = self._label(properties, style, text)
        level = _heading_level(properties, style)
        anchors, self._anchors = [*self._anchors, *inline.bookmarks], []
        if style.role == "title" and not self.title:
            self.title = " ".join(text.split())
        if level:
            words = (label.text + " " * label.space if label and label.text not in ("", "-") else "") + text
            # A link would use the bookmark that a person gave, else the first.
            named = (name for name in anchors if name and name != _CURSOR)
            anchor = min(named, key=lambda name: name.startswith(_HIDDEN_NAME), default="")
            place = self.writer.add("heading", " ".join(words.split()), level=level, anchor=anchor)
        elif label is not None:
            place = self._item(text, label)
        else:
            kind, group = _kind(inline, style)
            place = self.writer.add(kind, text, group=group)
        self.writer.mark(place, inline)
        for box in inline.boxes:
            self._box(box)
        self.notes += inline.notes
        if not self._in_cell:
            self._write_notes()

    def _label(self, properties: XmlNode | None, style: Style, text: str) -> ListLabel | None:
        """Count the paragraph in its list and return its label; a hidden paragraph is not counted."""
        own = properties.child("w:numPr") if properties else None
        if not text and properties is not None and properties.flag("w:rPr", "w:vanish"):
            return None
        number, level = (own.number("w:numId"), own.number("w:ilvl")) if own else (None, None)
        return self._document.numbering.label(number, level, style)

    def _item(self, text: str, label: ListLabel) -> int:
        """Write an item of a list; inner items are indented below the first one."""
        if self.writer.group != "list":
            self._first_depth = label.level
        indent = _INDENT * max(0, label.level - self._first_depth)
        prefix = indent + (label.text + " " * (label.space or label.text == "-") if label.text else "")
        return self.writer.add("list", text.replace("\n", f"\n{indent}{_INDENT}"), group="list", prefix=prefix)

    def _box(self, box: XmlNode) -> None:
        if self._apart or self._in_cell:
            inner = Story(self._document, apart=True, in_cell=True)
            inner.read(box.children)
            self.writer.add("paragraph", inner.writer.text)
            return
        self._apart, fields, self._fields = True, self._fields, DocxFields()
        marks = len(self.writer.marks)
        self.writer.end_group()
        self.read(box.children)
        self.writer.end_group()
        del self.writer.marks[marks:]  # a box is on the page of its anchor
        self._apart, self._fields = False, fields

    def _write_notes(self) -> None:
        """Write the notes of the last paragraph or table, each once."""
        notes, self.notes = self.notes, []
        for note in notes:
            node = self._document.notes.text(note)
            if node is not None:
                story = Story(self._document, apart=True, in_cell=True)
                story.read(node.children)
                self.writer.add("paragraph", f"[{note.label}] {story.writer.text}".replace("\n\n", "\n"))

    def _table(self, node: XmlNode) -> None:
        frame = only_cell(node)
        if frame is not None:
            self.read(frame.children)
            return
        if self._in_cell:
            self.writer.add("paragraph", flat_table(node, self._cell))
            return
        table, marks = pipe_table(node, self._cell)
        self.writer.add("table", table)
        start = self.writer.length - len(table)
        self.writer.marks += (mark._replace(offset=start + mark.offset) for mark in marks)
        self._write_notes()

    def _cell(self, node: XmlNode) -> Cell:
        """Read a cell; its notes follow the table."""
        story = Story(self._document, fields=self._fields, apart=self._apart, in_cell=True)
        story.read(node.children)
        self.notes += story.notes
        return one_line(story.writer.text, story.writer.marks)


def _continues(properties: XmlNode) -> bool:
    """Return True if Word shows the next paragraph as part of this one: the end of this one is deleted, or it is a
    large initial letter."""
    frame = properties.child("w:framePr")
    initial = frame is not None and frame.get("w:dropCap") in ("drop", "margin")
    return initial or properties.child("w:rPr", "w:del") is not None


def _heading_level(properties: XmlNode | None, style: Style) -> int:
    """Return the level of a heading, from 1; 0 for any other paragraph."""
    own = properties.number("w:outlineLvl") if properties else None
    outline = style.outline if own is None else own
    if outline is None or not 0 <= outline < BODY_LEVEL:
        return 1 if style.role == "title" else 0
    return min(outline + 1, _DEEPEST)


def _kind(inline: Inline, style: Style) -> tuple[Kind, Group]:
    """Return the kind of a paragraph that is neither a heading nor in a list."""
    if style.role == "code":
        return "code", "code"
    if style.role == "toc":
        return "paragraph", "toc"
    return ("caption" if style.role == "caption" or inline.captioned else "paragraph"), ""
