"""Recognition of HTML by the first bytes of a file, as browsers do (WHATWG MIME Sniffing, section 7.1)."""

from __future__ import annotations

import re

_BEFORE = re.compile(rb"(?:[\t\n\f\r ]++|<!--(?:(?!-->).)*+-->|<\?xml(?:(?!\?>).)*+\?>)*+", re.DOTALL)
_TAGS = re.compile(
    rb"<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)(?=[\t\n\f\r />])"
    rb"|<!doctype html",
    re.IGNORECASE,
)
_XHTML = re.compile(rb"<html[\t\n\f\r >]", re.IGNORECASE)
_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def looks_like_html(head: bytes) -> bool:
    """Return True if a file begins as an HTML or XHTML page: with its doctype or a tag of HTML, perhaps behind white
    space, comments and an XML declaration."""
    for bom, charset in _BOMS.items():
        if head.startswith(bom):
            head = head[len(bom) :].decode(charset, "replace").encode()
            break
    before = _BEFORE.match(head)
    start = before.end() if before else 0
    if head[:start].lstrip().startswith(b"<?xml"):  # XML of another kind begins with an element of its own
        return _TAGS.match(head, start) is not None and (
            head[start : start + 14].lower() == b"<!doctype html" or _XHTML.match(head, start) is not None
        )
    return _TAGS.match(head, start) is not None
