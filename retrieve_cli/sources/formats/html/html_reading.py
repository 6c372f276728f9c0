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
from retrieve_cli.contracts.layout import Layout
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
    page = parsed_page(html, xhtml=xhtml)
    if page.body is None or page.body.tag == "frameset":
        reason = "it is a set of frames without text: the pages in the frames are separate files"
        raise NotADocument(reason)
    scripts = page.css_first("script") is not None
    fallback = " ".join(node.text() for node in page.css("noscript")[:20]).lower()
    visible = VisiblePage(page.body)
    root, notice = main_part(visible) if main_content else (page.body, "")
    writer = HtmlText()
    try:
        writer.write(root)
    except RecursionError as error:
        raise BadDocument("its elements are nested too deeply") from error
    text = writer.text
    if len(text.split(None, _FEW_WORDS)) <= _FEW_WORDS:
        is_empty = not has_words(text)
        _check_purpose(page, is_empty=is_empty, made=scripts and (is_empty or "script" in fallback))
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
        dropped=tuple(visible.dropped),
    )


def parsed_page(html: str, *, xhtml: bool) -> LexborHTMLParser:
    """Return the elements of a page.

    Raises:
        BadDocument: its markup is out of bounds.
    """
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    return LexborHTMLParser(checked(html, xhtml=xhtml), options=LexborDocumentOptions.WO_EVENTS)


def _check_purpose(page: LexborHTMLParser, *, is_empty: bool, made: bool) -> None:
    """Raises: NotADocument: a page of few words leads to another, is made by scripts, or empty."""
    for node in page.css("meta[http-equiv=refresh i]"):
        _, _, target = (node.attributes.get("content") or "").partition("=")
        if target:
            raise NotADocument(f"it only leads to another page: {quoted(one_line(target))}")
    if made:
        hint = "open it in a browser and save the page that it displays"
        raise NotADocument("its content is made by scripts, which are not run", hint=hint)
    if is_empty:
        raise NotADocument("it has no text")


_DECLARED_WITHIN = 1024
_COMMENT = re.compile(rb"<!--(?:(?!-->).)*+(?:-->)?+", re.DOTALL)
_META = re.compile(rb"<meta[\t\n\f\r /][^>]*+", re.IGNORECASE)
_LABEL = re.compile(rb"(?:charset|encoding)\s*+=\s*+[\"']?+\s*+([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"\s*+<\?xml[^>]*+")
_FAMILIES = ("utf-8", "iso8859-", "cp", "koi8-", "mac-", "gb18030", "big5", "euc_", "iso2022_jp")
_BROWSERS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs",
    "shift_jis": "cp932", "euc_kr": "cp949", "utf-16": "utf-8", "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}  # fmt: skip
"""Encodings that browsers read as a larger one; a page that can declare UTF-16 is not in it."""


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a page, and notices about bytes that are invalid in its character set."""
    for bom, codec in BOMS.items():
        if content.startswith(bom):
            return _decoded(content[len(bom) :], codec)
    head = _COMMENT.sub(b"", content[:_DECLARED_WITHIN])
    tags = (*_META.findall(head), *(xml[0] for xml in (_XML.match(head),) if xml))
    labels = [label[1].decode("ascii") for label in map(_LABEL.search, tags) if label]
    if labels and (codec := codec_of(labels[0])):
        return _decoded(content, codec)
    unknown = tuple(f"its character set {quoted(label)} is not known" for label in labels[:1])
    try:
        return content.decode("utf-8"), unknown
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
        reason = "it declares no known character set and is not UTF-8: read as windows-1252"
        return text, (*unknown, reason)


def codec_of(label: str) -> str:
    """Return the codec that browsers use for a label; empty for an unknown label."""
    try:
        codec = codecs.lookup(label.lower().removeprefix("x-").removesuffix("-i")).name
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
