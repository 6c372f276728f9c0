"""ZIP files of documents (DOCX, PPTX, EPUB, ODT), unpacked within bounds before a library sees them.

Sizes in a ZIP directory may be wrong, so they are counted while a member is unpacked as well.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from xml.parsers import expat

from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.sources.formats.formats import ParsingLimits

_OLE, _RTF = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf"
"""First bytes of a compound file: an encrypted package, or a file of Office 97; and of RTF."""
_ENTRY, _MOST_MEMBERS = b"PK\x01\x02", 10_000
"""First bytes of a member in the ZIP file's directory, which is read as a whole."""
_PIECE = 2**16
_UNRATED = 2**24
"""Bytes of a member that may be unpacked before its compression counts: XML of a large form, the
same in every row, is compressed as well as a bomb, and this size is harmless."""
_DEEPEST = 256
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError)


class Archive:
    """A ZIP file whose directory is read; `suffix` is of the format that it should have."""

    def __init__(self, content: bytes, limits: ParsingLimits, *, suffix: str) -> None:
        """Raises: BadDocument: it is not a ZIP file, is encrypted, or exceeds a limit."""
        if content.startswith(_OLE):
            locked = "EncryptedPackage".encode("utf-16-le") in content
            reason = "it is encrypted" if locked else "it is a file of Office 97"
            raise BadDocument(reason, hint=f"save it as {suffix} without a password")
        if content.startswith(_RTF):
            raise BadDocument("it is an RTF file", hint=f"save it as {suffix}")
        if (members := content.count(_ENTRY)) > _MOST_MEMBERS:
            raise BadDocument(f"it has {members:,} parts; the limit is {_MOST_MEMBERS:,}")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (*_DAMAGED, NotImplementedError) as error:
            raise BadDocument(f"it is not a complete ZIP file: {shortened(str(error))}") from error
        self._members = {member.filename.replace("\\", "/"): member for member in self._zip.infolist()}
        self._limits = limits
        self._room = limits.max_bytes

    @property
    def names(self) -> Iterable[str]:
        """Names of the members, in the order of the directory, with `/` between folders."""
        return self._members.keys()

    def read(self, name: str) -> bytes:
        """Return the bytes of a member.

        Raises:
            BadDocument: it is absent, damaged or encrypted, or larger or more compressed than the
                limits permit; all members that were read count.
        """
        member = self._members.get(name)
        if member is None:
            raise BadDocument(f"it has no part {shortened(name)}")
        if member.flag_bits & 0x1:
            raise BadDocument("it is encrypted", hint="save it without a password")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadDocument(f"{shortened(name)} is compressed in a way that is not supported")
        pieces, size = [], 0
        most = max(_UNRATED, self._limits.max_ratio * member.compress_size)
        try:
            with self._zip.open(member) as stream:
                while piece := stream.read(_PIECE):
                    pieces.append(piece)
                    size += len(piece)
                    self._room -= len(piece)
                    if self._room < 0:
                        limit = self._limits.max_bytes / 2**20
                        raise BadDocument(f"its parts unpack to more than {limit:,.0f} MB")
                    if size > most:
                        ratio = self._limits.max_ratio
                        raise BadDocument(f"{name} unpacks to more than {ratio:g} times its size")
        except _DAMAGED as error:
            raise BadDocument(f"{shortened(name)} is damaged: {shortened(str(error))}") from error
        return b"".join(pieces)

    def xml(self, name: str) -> bytes:
        """Return the bytes of a member that is XML without a document type, hence without entities.

        Raises:
            BadDocument: it has a document type, is nested too deeply, or is not valid; see `read`.
        """
        content = self.read(name)
        check_xml(content, name)
        return content

    def repacked(self, names: Iterable[str]) -> io.BytesIO:
        """Return a ZIP file of these members, not compressed, for a library; XML is checked.

        Raises:
            BadDocument: see `read` and `xml`.
        """
        xml = (".xml", ".rels")
        return packed({name: (self.xml if name.endswith(xml) else self.read)(name) for name in names})


def packed(members: Mapping[str, bytes]) -> io.BytesIO:
    """Return a ZIP file of these members, not compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    target.seek(0)
    return target


def check_xml(content: bytes, name: str) -> None:
    """Raises: BadDocument: XML has a document type, is nested too deeply, or is not valid."""
    parser = expat.ParserCreate(namespace_separator=" ")
    depth = 0

    def begin(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise BadDocument(f"the elements of {name} are nested deeper than {_DEEPEST} levels")

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def reject(*_: object) -> None:
        raise BadDocument(f"{name} has a document type, which such documents never have")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.StartDoctypeDeclHandler = reject
    try:
        parser.Parse(content, True)  # noqa: FBT003  it is the last piece
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: an unknown encoding
        raise BadDocument(f"{name} is not valid XML: {shortened(str(error))}") from error
