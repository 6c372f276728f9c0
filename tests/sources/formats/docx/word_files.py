"""Word documents for tests: made of XML, for what no library writes."""

import io
import zipfile
from collections.abc import Mapping

from retrieve_cli.contracts import Parsed
from retrieve_cli.sources.formats.docx.docx_reading import parse
from retrieve_cli.sources.formats.formats import ParsingLimits

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SPACES = (
    f'xmlns:w="{W}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:schemas-microsoft-com:vml"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    ' xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
    ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    f'<Override PartName="/word/document.xml" ContentType="{KIND}"/></Types>'
)


def p(text: str = "", properties: str = "", *, inner: str = "") -> str:
    """A paragraph with a run of text, and further content."""
    run = f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>' if text else ""
    return f"<w:p><w:pPr>{properties}</w:pPr>{run}{inner}</w:p>"


def r(inner: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr>{inner}</w:r>"


def t(text: str) -> str:
    return f'<w:t xml:space="preserve">{text}</w:t>'


def item(text: str, number: int, level: int = 0) -> str:
    """A paragraph of a list."""
    return p(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def cell(content: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{content}</w:tc>"


def table(*rows: str) -> str:
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"


def level(number: int, form: str, text: str, *, start: int = 1, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{number}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def word_file(
    body: str,
    *,
    parts: Mapping[str, str] | None = None,
    core: str = "",
    document_type: str = "",
    others: Mapping[str, bytes] | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """A package whose main part has this body; `parts` are the contents of `styles`, `numbering`, `footnotes` …"""
    parts = parts or {}
    related = "".join(f'<Relationship Id="{name}" Type="{RELATIONS}/{name}" Target="{name}.xml"/>' for name in parts)
    package = "http://schemas.openxmlformats.org/package/2006"
    members = {
        "[Content_Types].xml": TYPES,
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="a" Type="{RELATIONS}/officeDocument" Target="word/document.xml"/>'
        f'<Relationship Id="b" Type="{package}/relationships/metadata/core-properties" Target="docProps/core.xml"/>'
        "</Relationships>",
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{package}/relationships">{related}</Relationships>',
        "word/document.xml": f"{document_type}<w:document {SPACES}><w:body>{body}</w:body></w:document>",
        "docProps/core.xml": f'<cp:coreProperties xmlns:cp="{package}/metadata/core-properties" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
        f"{core}</cp:coreProperties>",
        **{f"word/{name}.xml": f"<w:{name} {SPACES}>{content}</w:{name}>" for name, content in parts.items()},
    }
    return archive({**members, **(others or {})}, compression)


def archive(members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP file of these members, in their order."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return stream.getvalue()


def members_of(content: bytes) -> dict[str, bytes]:
    """The members of a ZIP file."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def read(content: bytes, **limits: float) -> Parsed:
    return parse(content, name="x.docx", limits=ParsingLimits(**limits), on_page=lambda _: None)  # type: ignore[arg-type]


def text_of(body: str, **parts: str) -> str:
    return read(word_file(body, parts=parts)).text
