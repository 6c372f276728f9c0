"""HTML pages as documents (`documents.formats`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Parsed
from retrieve_cli.documents.html.charset import decode
from retrieve_cli.documents.html.main_part import Part, main_part
from retrieve_cli.documents.html.markup import checked
from retrieve_cli.documents.html.metadata import metadata
from retrieve_cli.documents.html.text import PageText
from retrieve_cli.documents.html.tree import Tree, one_line, read
from retrieve_cli.documents.limits import Limits
from retrieve_cli.errors import NotADocument, quoted
from retrieve_cli.layout.layout import Layout

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_FEW_WORDS = 20
"""Words below which a page may be a mere shell for what scripts load, or a sign to another page."""


def parse(
    content: bytes,
    *,
    name: str,
    limits: Limits,
    on_page: Callable[[int], None],  # noqa: ARG001  a page has no pages
    charset: str | None = None,
) -> Parsed:
    """Return the main content of a page, or all of it without `limits.main_content`.

    `charset` is the label of a transport header, if there is one.

    Raises:
        NotADocument: it has no text of its own.
        BadDocument: its markup is out of bounds.
    """
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    text, notices = decode(content, charset)
    xhtml = name.lower().endswith((".xhtml", ".xht")) or text.lstrip().startswith("<?xml")
    source = checked(text, xhtml=xhtml)
    page = LexborHTMLParser(source, options=LexborDocumentOptions.WO_EVENTS)
    if page.body is None or page.body.tag == "frameset":
        raise NotADocument("it is a set of frames without text: the pages in the frames are files of their own")
    tree = read(page.body)
    part = main_part(tree, source) if limits.main_content else Part(0, frozenset())
    written = _written(tree, part)
    _check_text(written.text, page)
    firsts = [block for block in written.blocks if block.kind == "heading" and block.level == 1]
    heading = written.text[firsts[0].start : firsts[0].end] if len(firsts) == 1 else ""
    return Parsed(
        written.text,
        layout=Layout(written.blocks),
        metadata=metadata(page, heading=heading),
        notices=(*notices, *((part.notice,) if part.notice else ())),
    )


def _written(tree: Tree, part: Part) -> PageText:
    written = PageText(tree, part.skipped)
    written.write(part.root)
    return written


def _check_text(text: str, page: LexborHTMLParser) -> None:
    """Raises: NotADocument if the page has no text of its own."""
    if len(text.split(None, _FEW_WORDS)) > _FEW_WORDS:
        return
    for node in page.css("meta"):
        attributes = node.attributes
        if (attributes.get("http-equiv") or "").lower() == "refresh":
            _, _, target = (attributes.get("content") or "").partition("=")
            if target:
                raise NotADocument(f"it only leads to another page: {quoted(one_line(target))}")
    scripts = page.css_first("script") is not None
    fallback = " ".join(node.text() for node in page.css("noscript")[:20])
    if scripts and (not any(char.isalnum() for char in text) or "script" in fallback.lower()):
        hint = "open it in a browser and save the page that it displays"
        raise NotADocument("its content is made by scripts, which are not run", hint=hint)
    if not any(char.isalnum() for char in text):
        raise NotADocument("it has no text")
