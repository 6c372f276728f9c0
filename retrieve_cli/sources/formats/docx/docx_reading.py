"""Word documents: bytes -> text with headings, lists, tables, notes and, as far as the file has them, pages.

Of the package (ECMA-376, part 2), nothing is unpacked but the parts that are asked for, piece by piece, up to a size
and a ratio of compression. A target outside of the package is never followed.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from posixpath import dirname, join, normpath
from typing import NamedTuple

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Layout
from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.sources.formats.docx.body import Document, Story
from retrieve_cli.sources.formats.docx.markup import XmlNode, children, read
from retrieve_cli.sources.formats.docx.numbering import DocxNotes, Numbering
from retrieve_cli.sources.formats.docx.pages import pages_of
from retrieve_cli.sources.formats.docx.styles import Styles
from retrieve_cli.sources.formats.formats import ParsingLimits

PAGES_AS = "as last saved"
"""Value of `pages_as`: the pages of the layout when the file was last saved."""
_NAMES = {"dc:title": "title", "dc:creator": "author", "dcterms:created": "created", "dc:language": "language"}
"""Core properties (ECMA-376, part 2, 11.1), by the names that all formats use."""
_LONGEST = 1000
_MOST_KEYWORDS = 50


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return a Word document.

    Raises:
        BadDocument: it is damaged, encrypted, of another kind, or exceeds a limit.
    """
    package = DocxPackage(content, limits)
    main = package.main_part()
    wanted = {"styles", "numbering", "settings", "footnotes", "endnotes"}
    parts: dict[str, XmlNode] = {}
    for relation in package.relations(main).values():
        if relation.kind in wanted and relation.kind not in parts and relation.target in package:
            parts[relation.kind] = read(package.pieces(relation.target), relation.target)
    styles = Styles(parts.get("styles"))
    notes = DocxNotes({kind: parts[kind] for kind in ("footnotes", "endnotes") if kind in parts}, parts.get("settings"))
    story = Story(Document(styles, Numbering(parts.get("numbering"), styles), notes, on_page))
    try:
        story.read(children(package.pieces(main), main, root="w:document", of="w:body"))
    except RecursionError as error:
        raise BadDocument("its elements are nested too deeply") from error
    text = story.writer.text
    pages = pages_of(text, story.writer.marks, story.sections)
    if len(pages) > limits.max_pages:
        raise BadDocument(f"it has {len(pages):,} pages; the limit is {limits.max_pages:,}")
    metadata = _metadata_of(package)
    if pages:
        metadata |= {"pages": len(pages), "pages_as": PAGES_AS}
    first = next((text[block.start : block.end] for block in story.writer.blocks if block.kind == "heading"), "")
    embedded = f"skipped {story.skipped} embedded document{'s' * (story.skipped != 1)}"
    return Parsed(
        text,
        Layout(story.writer.blocks, pages),
        metadata,
        title=story.title or first,
        notices=(embedded,) if story.skipped else (),
    )


def _metadata_of(package: DocxPackage) -> dict[str, Json]:
    """Return the core properties that have a value."""
    targets = (relation.target for relation in package.relations().values() if relation.kind == "core-properties")
    target = next((target for target in targets if target in package), None)
    core = [] if target is None else read(package.pieces(target), target).children
    texts = {node.name: " ".join(node.text[: 4 * _LONGEST].split())[:_LONGEST] for node in core}
    parts = texts.get("cp:keywords", "").replace(";", ",").split(",")
    metadata: dict[str, Json] = {
        **{name: texts.get(key) for key, name in _NAMES.items()},
        "description": texts.get("dc:description") or texts.get("dc:subject"),
        "keywords": [part.strip() for part in parts if part.strip()][:_MOST_KEYWORDS],
    }
    return {name: value for name, value in metadata.items() if value}


_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of a compound file: Word 97, or an encrypted package."""
_RTF = b"{\\rtf"
_MEMBERS = 10_000
"""Maximum number of files in a package; a report of 1,000 pictures has 1,100."""
_DIRECTORY = 4 * 2**20
"""Maximum bytes of the ZIP file's directory, which is read as a whole."""
_PIECE = 2**16
_UNRATED = 2**24
"""Bytes of a part that may be unpacked before the ratio of compression counts: XML of a large form, the same in every
row, is compressed as well as a bomb, and this size is harmless."""
_END, _END64, _LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"


class Relation(NamedTuple):
    """A relationship from one part to another part of the package."""

    kind: str
    """Last word of its type: `styles`, `footnotes`, `officeDocument`."""
    target: str


class DocxPackage:
    """A package whose directory is read.

    Raises:
        BadDocument: it is not a ZIP file, is encrypted, or exceeds a limit.
    """

    def __init__(self, content: bytes, limits: ParsingLimits) -> None:
        if content.startswith(_OLE):
            raise _compound(content)
        if content.startswith(_RTF):
            raise BadDocument("it is an RTF file", hint="save it as .docx")
        if _directory_size(content) > _DIRECTORY:
            raise BadDocument(f"the directory of its ZIP file has more than {_DIRECTORY >> 20} MB")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
            members = self._zip.infolist()
        except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, EOFError, OSError) as error:
            raise BadDocument(f"it is not a complete ZIP file: {shortened(str(error))}") from error
        if len(members) > _MEMBERS:
            raise BadDocument(f"it has {len(members):,} parts; the limit is {_MEMBERS:,}")
        self._members = {member.filename.replace("\\", "/").lower(): member for member in members}
        self._limits = limits
        self._left = limits.max_bytes

    def __contains__(self, part: str) -> bool:
        return part.lower() in self._members

    def pieces(self, part: str) -> Iterator[bytes]:
        """Yield the bytes of a part.

        Raises:
            BadDocument: it is absent, damaged or encrypted, or larger or more compressed than the limits permit.
        """
        member = self._members.get(part.lower())
        if member is None:
            raise BadDocument(f"it has no part {shortened(part)}")
        if member.flag_bits & 0x1:
            raise BadDocument("it is encrypted", hint="save it without a password")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadDocument(f"{part} is compressed in a way that packages never use")
        try:
            with self._zip.open(member) as stream:
                size = 0
                while piece := stream.read(_PIECE):
                    size += len(piece)
                    self._left -= len(piece)
                    if self._left < 0:
                        raise BadDocument(f"its parts unpack to more than {self._limits.max_bytes / 2**20:,.0f} MB")
                    if size > _UNRATED and size > self._limits.max_ratio * max(member.compress_size, 1):
                        raise BadDocument(f"{part} unpacks to more than {self._limits.max_ratio} times its size")
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, ValueError, RuntimeError) as error:
            raise BadDocument(f"{part} is damaged: {shortened(str(error))}") from error

    def relations(self, part: str = "") -> dict[str, Relation]:
        """Return the relationships of a part, or of the package, by id; external ones are dropped."""
        folder, _, name = part.rpartition("/")
        file = f"{folder}/_rels/{name}.rels".lstrip("/")
        if file not in self:
            return {}
        related: dict[str, Relation] = {}
        for node in read(self.pieces(file), file).children:
            if node.name == "rel:Relationship" and node.get("TargetMode") != "External":
                target = normpath(join("/", dirname(part), node.get("Target"))).lstrip("/")
                related[node.get("Id")] = Relation(node.get("Type").rpartition("/")[2], target)
        return related

    def main_part(self) -> str:
        """Return the path of the main part. Raises: BadDocument: it has none."""
        for relation in self.relations().values():
            if relation.kind == "officeDocument":
                return relation.target
        if "word/document.xml" in self:
            return "word/document.xml"
        raise BadDocument("it is a ZIP file without a Word document")


def _compound(content: bytes) -> BadDocument:
    """Return the reason why a compound file is rejected; the names of its streams are in UTF-16."""
    if "EncryptedPackage".encode("utf-16-le") in content:
        return BadDocument("it is encrypted", hint="save it without a password")
    if "WordDocument".encode("utf-16-le") in content:
        return BadDocument("it is a Word 97 file", hint="save it as .docx")
    return BadDocument("it is a compound file without a Word document", hint="save it as .docx")


def _directory_size(content: bytes) -> int:
    """Return the bytes of the directory, by the record at the end of the file; 0 without this record."""
    end = content.rfind(_END, -(2**16 + 22))
    if end < 0 or end + 22 > len(content):
        return 0
    locator = end - 20
    if locator >= 56 and content.startswith(_LOCATOR, locator):
        end64 = content.rfind(_END64, 0, locator)
        if end64 >= 0 and end64 + 56 <= len(content):
            return int.from_bytes(content[end64 + 40 : end64 + 48], "little")
    return int.from_bytes(content[end + 12 : end + 16], "little")
