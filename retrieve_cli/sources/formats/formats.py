"""Formats of documents, recognised by their content, the parser of each, and the limits within which it parses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import BadDocument, Unavailable
from retrieve_cli.untrusted.texts import decode, encoding_mark, has_controls, user_text

MB = 2**20


class ParsingLimits(NamedTuple):
    """Limits of one file, and the one choice that shapes its text."""

    max_bytes: int = 200 * MB
    max_pages: int = 5000
    max_ratio: float = 100.0
    """Ratio of the size of compressed parts to the size they have when they are read."""
    memory_bytes: int = 1024 * MB
    """Memory of the process that parses it."""
    cpu_s: float = 60.0
    """CPU seconds for the whole file."""
    main_content: bool = True
    """Only the main content of HTML pages: no navigation, header and footer."""
    max_cells: int = 1_000_000
    """Cells of a table, see `TableBounds`."""


class DocumentFormat(NamedTuple):
    """A format of documents; `module` has its `parse`."""

    name: str
    suffixes: tuple[str, ...]
    module: str
    distributions: tuple[str, ...] = ()
    """Packages that its parser requires."""
    rules: int = 0
    """Version of the rules of this program."""
    apart: bool = False
    """True if it is parsed in a separate process."""
    sidecar: str = ""
    """Ending that is added to the name of a file for a text that supplies pages without a text layer."""


_HERE, _INSTALL = "retrieve_cli.sources.formats", "pip install 'retrieve-cli[documents]'"
_MARKDOWN = ("markdown-it-py",)
_HTML, _PPTX = ("selectolax",), ("selectolax", "python-pptx")
_DOCX, _RST = ("selectolax", "mammoth"), ("selectolax", "docutils")
FORMATS: Mapping[str, DocumentFormat] = {
    each.name: each
    for each in (
        DocumentFormat("markdown", (".markdown", ".md"), f"{_HERE}.markdown", _MARKDOWN, rules=1),
        DocumentFormat("text", (".txt",), f"{_HERE}.markdown", _MARKDOWN, rules=1),
        DocumentFormat(
            "pdf", (".pdf",), f"{_HERE}.pdf.pdf_reading", ("pypdfium2",), rules=2, apart=True, sidecar=".txt"
        ),
        DocumentFormat("html", (".htm", ".html", ".xhtml"), f"{_HERE}.html.html_reading", _HTML, rules=1, apart=True),
        DocumentFormat("docx", (".docm", ".docx", ".dotm", ".dotx"), f"{_HERE}.docx", _DOCX, rules=1, apart=True),
        DocumentFormat("notebook", (".ipynb",), f"{_HERE}.notebook", rules=1, apart=True),
        DocumentFormat("rst", (".rst",), f"{_HERE}.rst", _RST, rules=1, apart=True),
        DocumentFormat("json", (".json", ".jsonl"), f"{_HERE}.json_text", rules=1, apart=True),
        DocumentFormat("man", (*(f".{n}" for n in range(1, 10)), ".man"), f"{_HERE}.manpage", rules=1, apart=True),
        DocumentFormat("pptx", (".potx", ".ppsx", ".pptm", ".pptx"), f"{_HERE}.pptx", _PPTX, rules=1, apart=True),
        DocumentFormat("odt", (".odt", ".ott"), f"{_HERE}.odt", _HTML, rules=1, apart=True),
        DocumentFormat("eml", (".eml",), f"{_HERE}.eml", _HTML, rules=1, apart=True),
        DocumentFormat("xml", (".nxml", ".xml"), f"{_HERE}.xml_text", _HTML, rules=1, apart=True),
        DocumentFormat("epub", (".epub",), f"{_HERE}.epub", _HTML, rules=1, apart=True),
    )
}
_TEXTS = frozenset({"markdown", "text", "notebook", "rst", "json", "xml", "man", "eml"})
"""Formats that are known by the name of a file."""
_PDF = b"%PDF-"
_PDF_WITHIN = 1024
"""First bytes among which a PDF file has its mark, as Acrobat reads it (ISO 32000-1, annex H.3)."""
_MANUAL = re.compile(rb"^[.'](?:[ \t]*(?:TH|Dd|so)[ \t]|\\\")", re.MULTILINE)
_BY_SUFFIX = {suffix: name for name, each in FORMATS.items() for suffix in each.suffixes}


def suffixes() -> Sequence[str]:
    """Return the suffixes of all formats, sorted."""
    return sorted(_BY_SUFFIX)


def format_of(name: str, head: bytes) -> str | None:
    """Return the format of a file by its first bytes and its name; None if it is not a document.

    PDF and ZIP files of documents have marks in their content and are recognised under any name. Texts are recognised
    by their suffix. A file with the suffix of a format whose marks it lacks is of that format as well: its parser
    reports the defect. But suffixes of manual pages are numbers, which other files have, too. Mail and prose may have
    no suffix. Of a file in gzip, the content and the rest of the name count.
    """
    if is_gzip(name, head):
        name, head = name[: -len(GZIP)], _beginning(head)
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    suffix = f".{ending.lower()}" if dot and stem else ""
    by_name = _BY_SUFFIX.get(suffix)
    text = by_name in _TEXTS
    if head.startswith(_PDF) or (not text and _PDF in head[:_PDF_WITHIN]):
        return "pdf"
    if (kind := zipped_format(head)) in FORMATS:
        return kind
    if by_name in ("pdf", "docx", "pptx", "odt", "epub", None) and (by_name or not suffix) and looks_like_html(head):
        return "html"
    if by_name is None and not dot and looks_like_mail(head):
        return "eml"
    if by_name is None and not dot and looks_like_prose(name, head):
        return "text"
    return by_name if by_name != "man" or not head or _MANUAL.search(head) else None


def card(name: str, *, main_content: bool) -> Mapping[str, Json]:
    """Return what decides, with their bytes, the text of documents of a format; empty for an unknown one."""
    each = FORMATS.get(name)
    if each is None:
        return {}
    parsers = ", ".join(f"{package} {version}" for package in each.distributions if (version := version_of(package)))
    choice: dict[str, Json] = {"main_content": main_content} if name == "html" else {}
    sidecar = {"sidecar": each.sidecar} if each.sidecar else {}
    return {"parser": parsers or "retrieve", "rules": each.rules, **choice, **sidecar}


def lacks(name: str) -> str:
    """Return a sentence on the packages that a format requires and that are missing; empty if none are."""
    missing = _missing(FORMATS[name].distributions)
    return f"{name} needs {' and '.join(missing)}: {_INSTALL}" if missing else ""


def drawer_of(name: str) -> str:
    """Return the module with the `render` that draws pages of a format.

    Raises:
        Unavailable: no module does, or a package is missing.
    """
    if name != "pdf":
        raise Unavailable(f"pages of {name} files cannot be drawn", hint="formats: pdf")
    if missing := _missing(("pypdfium2", "pillow")):
        raise Unavailable(f"pictures of pages need {' and '.join(missing)}", hint=_INSTALL)
    return f"{_HERE}.pdf.picture"


def _missing(distributions: Sequence[str]) -> list[str]:
    return [package for package in distributions if not version_of(package)]


@cache
def version_of(distribution: str) -> str:
    """Return the version of an installed package; empty if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


_PAGE = re.compile(
    rb"(?:\s++|<!--(?:(?!-->).)*+-->|<\?xml(?:(?!\?>).)*+\?>)*+<(?:!doctype html|(?:html|head|body|title)[\s/>])",
    re.DOTALL | re.IGNORECASE,
)
BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def looks_like_html(head: bytes) -> bool:
    """Return True if a file begins as an HTML or XHTML page: with its doctype or the first tags of a page, perhaps
    behind white space, comments and an XML declaration."""
    text = user_text(head) if encoding_mark(head) else None
    return _PAGE.match(text[0].encode() if text else head) is not None


_LEAST_WORDS, _LEAST_SPACE = 0.6, 0.03
"""Share of letters and white space in prose, and of white space alone in prose of ASCII: keys in base64 have less."""


def looks_like_prose(name: str, head: bytes) -> bool:
    """Return True if a file without a suffix begins as text for people: `README`, `LICENSE`, `copyright`; scripts, keys
    and those called `Makefile`, `Dockerfile` and so on do not."""
    if not head.strip() or head.startswith((b"#!", b"-----BEGIN ")) or name.lower().endswith("file"):
        return False
    text, _ = (None if has_controls(head) else decode(head)) or ("", "")
    space, words = sum(map(str.isspace, text)), sum(map(str.isalpha, text))
    enough = words > 0 and space + words >= _LEAST_WORDS * len(text)
    return enough and (not head.isascii() or space >= _LEAST_SPACE * len(text))


_HEADERS = re.compile(rb"(?:[!-9;-~]++:[^\n]*+\n|[ \t][^\n]*+\n)++")


def looks_like_mail(head: bytes) -> bool:
    """Return True if a file begins with the headers of a mail; a mailbox begins with a line `From `."""
    headers = _HEADERS.match(head.replace(b"\r\n", b"\n"))
    names = {line.partition(b":")[0].lower() for line in headers[0].splitlines()} if headers else set()
    return {b"from", b"date"} <= names and not names.isdisjoint((b"subject", b"message-id", b"received"))


GZIP = ".gz"


def is_gzip(name: str, head: bytes) -> bool:
    """Return True for a file in gzip by its name and its first bytes."""
    return head.startswith(b"\x1f\x8b") and name.lower().endswith(GZIP)


def _beginning(packed: bytes) -> bytes:
    """Return the beginning of the content of a file in gzip from its own; empty if damaged."""
    import zlib

    try:
        return zlib.decompressobj(31).decompress(packed, len(packed))
    except zlib.error:
        return b""


def ungzipped(content: bytes, name: str, limits: ParsingLimits, *, most: int) -> bytes:
    """Return the content of a file in gzip, of any other file its bytes.

    Raises:
        BadDocument: it is damaged, or its content has more than `most` bytes or is larger by more than the limit.
    """
    if not is_gzip(name, content):
        return content
    import gzip
    import zlib
    from io import BytesIO

    limit = int(min(most, limits.max_ratio * len(content)))
    try:
        with gzip.open(BytesIO(content)) as file:
            unpacked = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadDocument(f"its compressed data are damaged ({error})") from error
    if len(unpacked) > limit:
        raise BadDocument(f"unpacked it has more than {limit / MB:,.1f} MB, {limits.max_ratio:g} times its size")
    return unpacked


_ZIPPED = re.compile(
    rb"PK\x03\x04.{26}(?:mimetypeapplication/(?:(?P<odt>vnd\.oasis\.opendocument\.text)|(?P<epub>epub\+zip))"
    rb"|(?:(?P<docx>word)|(?P<pptx>ppt))[/\\])",
    re.DOTALL,
)
"""Header of a member that names the type of the file, or is in the folder of an Office document."""


def zipped_format(head: bytes) -> str | None:
    """Return the format of a ZIP file from its first 4 KB; None for any other file."""
    member = _ZIPPED.search(head) if head.startswith(b"PK\x03\x04") else None
    return member.lastgroup if member else None
