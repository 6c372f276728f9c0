"""HTML as text with its structure: the one reader of pages, and of what other formats become.

Decoding follows the WHATWG Encoding and HTML standards: byte order mark, declared character set
within the first 1024 bytes, UTF-8, and windows-1252 as the last resort.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Dropped, Layout
from retrieve_cli.errors import BadDocument, NotADocument, quoted
from retrieve_cli.sources.formats.formats import BOMS, ParsingLimits
from retrieve_cli.sources.formats.html.bounds import checked
from retrieve_cli.sources.formats.html.main_part import main_part
from retrieve_cli.sources.formats.html.metadata import metadata_of
from retrieve_cli.sources.formats.html.text import one_line
from retrieve_cli.sources.formats.html.visible import VisiblePage, has_words
from retrieve_cli.sources.formats.html.writing import HtmlText

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_FEW_WORDS = 20
"""Words below which a page may be a mere shell for what scripts load, or lead to another page."""


def parse(
    content: bytes,
    *,
    name: str,
    limits: ParsingLimits,
    on_page: Callable[[int], None],  # noqa: ARG001  a page has no pages
) -> Parsed:
    """Return the main content of a page, or all of it without `limits.main_content`.

    Raises:
        NotADocument: it contains no text.
        BadDocument: its markup is out of bounds.
    """
    text, notices = decode(content)
    xhtml = name.lower().endswith((".xhtml", ".xht")) or text.lstrip().startswith("<?xml")
    return html_document(text, main_content=limits.main_content, notices=notices, xhtml=xhtml)


def html_document(
    html: str,
    *,
    main_content: bool,
    metadata: Mapping[str, Json] | None = None,
    title: str = "",
    notices: Sequence[str] = (),
    xhtml: bool = False,
) -> Parsed:
    """Return the text, the blocks and the metadata of a page; `metadata` replaces its own.

    With `main_content`, navigation and all that is beside a marked main part are skipped. `xhtml`:
    an element may be empty in the way of XML, as in `<a/>`.

    Raises:
        NotADocument: it contains no text.
        BadDocument: its markup is out of bounds.
    """
    writer = HtmlText()
    page = parsed_page(html, xhtml=xhtml)
    scripts = page.css_first("script") is not None
    fallback = " ".join(node.text() for node in page.css("noscript")[:20]) if scripts else None
    dropped, notice = write_page(writer, page, main_content=main_content)
    text = writer.text
    _check_text(text, page, fallback)
    headings = [block for block in writer.blocks if block.kind == "heading"]
    words = {block: text[block.start : block.end] for block in headings}
    firsts = [words[block] for block in headings if block.level == 1]
    own = metadata_of(page, heading=firsts[0] if len(firsts) == 1 else "")
    return Parsed(
        text,
        layout=Layout(writer.blocks),
        metadata={**own, **(metadata or {})},
        title=title or next(iter(words.values()), ""),
        notices=(*notices, *((notice,) if notice else ())),
        dropped=dropped,
    )


def parsed_page(html: str, *, xhtml: bool = False) -> LexborHTMLParser:
    """Return the elements of a page.

    Raises:
        BadDocument: its markup is out of bounds.
    """
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    return LexborHTMLParser(checked(html, xhtml=xhtml), options=LexborDocumentOptions.WO_EVENTS)


def write_page(writer: HtmlText, page: LexborHTMLParser, *, main_content: bool) -> tuple[tuple[Dropped, ...], str]:
    """Write a page; return texts that are skipped, and a notice if there is one.

    Raises:
        NotADocument: it is a set of frames.
        BadDocument: its elements are nested too deeply.
    """
    if page.body is None or page.body.tag == "frameset":
        reason = "it is a set of frames without text: the pages in the frames are separate files"
        raise NotADocument(reason)
    visible = VisiblePage(page.body)
    root, notice = main_part(visible) if main_content else (page.body, "")
    try:
        writer.write(root)
    except RecursionError as error:
        raise BadDocument("its elements are nested too deeply") from error
    return tuple(visible.dropped), notice


def _check_text(text: str, page: LexborHTMLParser, fallback: str | None) -> None:
    """Raises: NotADocument: the page contains no text. `fallback`, of a page with scripts, is for
    readers without them."""
    if len(text.split(None, _FEW_WORDS)) > _FEW_WORDS:
        return
    for node in page.css("meta"):
        attributes = node.attributes
        _, _, target = (attributes.get("content") or "").partition("=")
        if (attributes.get("http-equiv") or "").lower() == "refresh" and target:
            raise NotADocument(f"it only leads to another page: {quoted(one_line(target))}")
    if fallback is not None and ("script" in fallback.lower() or not has_words(text)):
        hint = "open it in a browser and save the page that it displays"
        raise NotADocument("its content is made by scripts, which are not run", hint=hint)
    if not has_words(text):
        raise NotADocument("it has no text")


_DECLARED_WITHIN = 1024
_META = re.compile(rb"<meta[\t\n\f\r /][^>]*+", re.IGNORECASE)
_LABEL = rb"[A-Za-z0-9_.:-]{1,40}"
_CHARSET = re.compile(rb"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+[\"']?+[\t\n\f\r ]*+(" + _LABEL + rb")", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]*?encoding[\t\n\r ]*+=[\t\n\r ]*+[\"'](" + _LABEL + rb")", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--(?:(?!-->).)*+(?:-->)?+", re.DOTALL)
_FAMILIES = ("utf-8", "iso8859-", "cp", "koi8-", "mac-", "gb18030", "big5", "euc_", "iso2022_jp")
_BROWSERS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949",
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),
}  # fmt: skip
"""Encodings that browsers read as a larger one; a page that can declare UTF-16 is not in it."""
_OTHER_LABELS = {
    "unicode": "utf-8", "x-gbk": "gbk", "x-sjis": "cp932", "windows-31j": "cp932", "x-mac-cyrillic": "mac-cyrillic",
    "x-euc-jp": "euc_jp", "iso-8859-8-i": "iso8859-8", "visual": "iso8859-8", "logical": "iso8859-8",
    "dos-874": "cp874", "koi8-ru": "koi8-u", "koi8": "koi8-r", "korean": "cp949", "x-cp1250": "cp1250",
    "x-cp1251": "cp1251", "x-cp1252": "cp1252",
}  # fmt: skip
"""Labels of the standard that Python does not know."""


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a page, and notices about bytes that are invalid in its character set."""
    for bom, codec in BOMS.items():
        if content.startswith(bom):
            return _decoded(content[len(bom) :], codec)
    label = _declared(content)
    if codec := codec_of(label):
        return _decoded(content, codec)
    unknown = (f"its character set {quoted(label)} is not known",) if label else ()
    try:
        return content.decode("utf-8"), unknown
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
        reason = "it declares no known character set and is not UTF-8: read as windows-1252"
        return text, (*unknown, reason)


def codec_of(label: str) -> str:
    """Return the codec that browsers use for a label; empty for an unknown label."""
    try:
        codec = codecs.lookup(_OTHER_LABELS.get(label.lower(), label)).name
    except LookupError:
        return ""
    codec = _BROWSERS.get(codec, codec)
    return codec if codec.startswith(_FAMILIES) else ""


def _decoded(content: bytes, codec: str) -> tuple[str, tuple[str, ...]]:
    try:
        return content.decode(codec), ()
    except UnicodeDecodeError as error:
        reason = f"its bytes are not valid {codec} (position {error.start}): replaced by \ufffd"
        return content.decode(codec, "replace"), (reason,)


def _declared(content: bytes) -> str:
    """Return the label that the page declares; empty if it declares none."""
    head = _COMMENT.sub(b"", content[:_DECLARED_WITHIN])
    for tag in _META.finditer(head):
        if charset := _CHARSET.search(tag[0]):
            return charset[1].decode("ascii")
    xml = _XML.match(head.lstrip())
    return xml[1].decode("ascii") if xml else ""
