"""Word documents for tests: made of XML, for what no library writes."""

import io
import zipfile
from collections.abc import Mapping

from retrieve_cli.contracts import Parsed
from retrieve_cli.sources.formats.docx import parse
from retrieve_cli.sources.formats.formats import ParsingLimits

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SPACES = (
    f'xmlns:w="{W}" xmlns:r="{OFFICE}/relationships" xmlns:m="{OFFICE}/math" xmlns:v="urn:schemas-microsoft-com:vml"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
TYPES = (
    f'<Types xmlns="{PACKAGE}/content-types"><Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)


def p(text: str = "", style: str = "", *, inner: str = "") -> str:
    """A paragraph with a run of text, and further content."""
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{named}{r(t(text)) if text else ''}{inner}</w:p>"


def r(inner: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr>{inner}</w:r>"


def t(text: str) -> str:
    return f'<w:t xml:space="preserve">{text}</w:t>'


def cell(content: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{content}</w:tc>"


def table(*rows: str) -> str:
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"


def word_file(
    body: str,
    *,
    parts: Mapping[str, str] | None = None,
    core: str = "",
    document_type: str = "",
    others: Mapping[str, bytes] | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """A package whose main part has this body; `parts` are the contents of `styles`, `footnotes` …"""
    parts = parts or {}
    kinds = f"{OFFICE}/relationships"
    related = "".join(f'<Relationship Id="{name}" Type="{kinds}/{name}" Target="{name}.xml"/>' for name in parts)
    main = f'<Relationship Id="a" Type="{kinds}/officeDocument" Target="word/document.xml"/>'
    spaces = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
    members = {
        "[Content_Types].xml": TYPES,
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{main}</Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{related}</Relationships>',
        "word/document.xml": f"{document_type}<w:document {SPACES}><w:body>{body}</w:body></w:document>",
        "docProps/core.xml": f'<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties" {spaces}>'
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


def read(content: bytes, **limits: float) -> Parsed:
    return parse(content, name="x.docx", limits=ParsingLimits(**limits), on_page=lambda _: None)  # type: ignore[arg-type]


def text_of(body: str, **parts: str) -> str:
    return read(word_file(body, parts=parts)).text
