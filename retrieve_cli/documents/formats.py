"""Formats of documents, recognised by their content, and the parser of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.documents.docx.recognize import looks_like_docx
from retrieve_cli.documents.html.sniffing import looks_like_html
from retrieve_cli.errors import Unavailable


class Format(NamedTuple):
    """A format of documents; `module` has its `parse`."""

    name: str
    suffixes: tuple[str, ...]
    module: str
    distributions: tuple[str, ...] = ()
    """Packages that its parser requires."""
    rules: int = 0
    """Version of our own rules; 0 for the formats that the recipe does not name."""
    apart: bool = False
    """True if it is parsed in a process of its own."""
    sidecar: str = ""
    """Ending that is added to the name of a file for a text that supplies pages without a text layer."""


class Drawer(NamedTuple):
    """Drawing of the pages of a format; `module` has its `render`."""

    module: str
    distributions: tuple[str, ...]
    """Packages that it requires."""


_HERE = "retrieve_cli.documents"
FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format("markdown", (".markdown", ".md"), f"{_HERE}.markdown"),
        Format("text", (".txt",), f"{_HERE}.markdown"),
        Format("pdf", (".pdf",), f"{_HERE}.pdf.reading", ("pypdfium2",), rules=1, apart=True, sidecar=".txt"),
        Format(
            "html",
            (".htm", ".html", ".xhtml"),
            f"{_HERE}.html.reading",
            ("selectolax", "trafilatura", "lxml_html_clean"),
            rules=1,
            apart=True,
        ),
        Format("docx", (".docm", ".docx", ".dotm", ".dotx"), f"{_HERE}.docx.reading", rules=1, apart=True),
        Format("notebook", (".ipynb",), f"{_HERE}.notebook", rules=1, apart=True),
        Format("rst", (".rst",), f"{_HERE}.rst", rules=1, apart=True),
        Format("json", (".json", ".jsonl"), f"{_HERE}.json_text", rules=1, apart=True),
        Format("xml", (".nxml", ".xml"), f"{_HERE}.xml_text", rules=1, apart=True),
    )
}
DRAWERS: Mapping[str, Drawer] = {"pdf": Drawer(f"{_HERE}.pdf.picture", ("pypdfium2", "pillow"))}
"""Formats whose pages can be drawn."""
_TEXTS = frozenset({"markdown", "text", "notebook", "rst", "json", "xml"})
"""Formats that are known by the name of a file."""
_PDF = b"%PDF-"
_PDF_WITHIN = 1024
"""First bytes among which a PDF file has its mark, as Acrobat reads it (ISO 32000-1, annex H.3)."""
_BY_SUFFIX = {suffix: name for name, each in FORMATS.items() for suffix in each.suffixes}


def suffixes() -> Sequence[str]:
    """Return the suffixes of all formats, sorted."""
    return sorted(_BY_SUFFIX)


def format_of(name: str, head: bytes) -> str | None:
    """Return the format of a file by its first bytes and its name; None if it is not a document.

    PDF and DOCX have marks of their own and are recognised under any name. Texts are recognised by their suffix. A file
    with the suffix of a format whose marks it lacks is of that format as well: its parser says what is wrong with it.
    """
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    suffix = f".{ending.lower()}" if dot and stem else ""
    by_name = _BY_SUFFIX.get(suffix)
    text = by_name in _TEXTS
    if head.startswith(_PDF) or (not text and _PDF in head[:_PDF_WITHIN]):
        return "pdf"
    if looks_like_docx(head):
        return "docx"
    if by_name in ("pdf", "docx", None) and (by_name or not suffix) and looks_like_html(head):
        return "html"
    return by_name


def card(name: str, *, main_content: bool) -> Mapping[str, Json]:
    """Return what decides the text of documents of a format besides their bytes; empty if its rules have no version."""
    each = FORMATS.get(name)
    if each is None or not each.rules:
        return {}
    parsers = ", ".join(f"{package} {version}" for package in each.distributions if (version := version_of(package)))
    choice: dict[str, Json] = {"main_content": main_content} if name == "html" else {}
    sidecar = {"sidecar": each.sidecar} if each.sidecar else {}
    return {"parser": parsers or "retrieve", "rules": each.rules, **choice, **sidecar}


def lacks(name: str) -> str:
    """Return a sentence on the packages that a format requires and that are missing; empty if none are."""
    missing = _missing(FORMATS[name].distributions)
    return f"{name} needs {' and '.join(missing)}: pip install 'retrieve-cli[documents]'" if missing else ""


def drawer_of(name: str) -> Drawer:
    """Return what draws the pages of a format.

    Raises:
        Unavailable: nothing does, or a package is missing.
    """
    drawer = DRAWERS.get(name)
    if drawer is None:
        raise Unavailable(f"pages of {name} files cannot be drawn", hint=f"formats: {', '.join(DRAWERS)}")
    if missing := _missing(drawer.distributions):
        hint = "pip install 'retrieve-cli[documents]'"
        raise Unavailable(f"pictures of pages need {' and '.join(missing)}", hint=hint)
    return drawer


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
