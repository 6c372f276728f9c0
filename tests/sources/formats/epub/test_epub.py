"""EPUB books: pages in the order of the spine, chapters, metadata, and what is not text."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import pytest
from hypothesis import given, settings, strategies as st
from sources.formats import layouts
from sources.formats.layouts import headings, levelled

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument

CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
METADATA = """<dc:title>On lungs</dc:title><dc:creator>Ada</dc:creator><dc:language>en</dc:language>
<dc:subject>lung</dc:subject><dc:subject>CT</dc:subject><dc:publisher>House</dc:publisher><dc:date>2024-01-02</dc:date>
<dc:description>All about lungs.</dc:description>"""


def book(
    pages: Mapping[str, str],
    *,
    navigation: str = "",
    ncx: str = "",
    metadata: str = METADATA,
    others: Mapping[str, str] = {},
) -> bytes:
    """A book whose pages are bodies by their names, in order."""
    items = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(pages)
    )
    items += '<item id="nav" href="nav.xhtml" properties="nav"/>' if navigation else ""
    items += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>' if ncx else ""
    spine = '<itemref idref="nav"/>' * bool(navigation) + "".join(f'<itemref idref="i{n}"/>' for n in range(len(pages)))
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">{metadata}'
        f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    xhtml = '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
    members = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package}
    members |= {f"OEBPS/{name}": xhtml.format(body) for name, body in pages.items()}
    members |= {"OEBPS/nav.xhtml": xhtml.format(f"<nav>{navigation}</nav>")} if navigation else {}
    members |= {"OEBPS/toc.ncx": f"<!DOCTYPE ncx><ncx><navMap>{ncx}</navMap></ncx>"} if ncx else {}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**members, **others}.items():
            file.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return stream.getvalue()


def read(content: bytes) -> Parsed:
    return layouts.read("epub", content)


@settings(max_examples=25, deadline=None)
@given(st.permutations([f"p{n}.xhtml" for n in range(5)]), st.lists(st.booleans(), min_size=5, max_size=5))
def test_pages_follow_the_spine_and_have_a_heading_each(names: list[str], headed: list[bool]) -> None:
    bodies = [
        f"{'<h1>Chapter ' + name + '</h1>' if own else ''}<p>Text of {name}.</p>"
        for name, own in zip(names, headed, strict=True)
    ]
    links = "".join(f'<li><a href="{name}#x">Chapter {name}</a></li>' for name in sorted(names))
    parsed = read(book(dict(zip(names, bodies, strict=True)), navigation=f"<ol>{links}</ol>"))
    assert levelled(parsed) == [
        block for name in names for block in (("heading", 1, f"Chapter {name}"), ("paragraph", 0, f"Text of {name}."))
    ]
    assert [dropped.reason for dropped in parsed.dropped] == ["navigation page"]


def test_chapters_of_an_older_book_are_named_by_its_ncx() -> None:
    points = '<navPoint><navLabel><text>One</text></navLabel><content src="a%20b.xhtml"/>{}</navPoint>'
    inner = '<navPoint><navLabel><text>Two</text></navLabel><content src="c.xhtml#x"/></navPoint>'
    pages = {"a b.xhtml": "<p>a<span/>b</p>", "c.xhtml": "<p>c</p>", "cover.xhtml": "<img src='x.png' alt='x'/>"}
    parsed = read(book(pages, ncx=points.format(inner)))
    assert headings(parsed) == [(1, "One"), (1, "Two")]
    assert parsed.text == "One\n\nab\n\nTwo\n\nc"


def test_metadata_are_those_of_the_package() -> None:
    assert read(book({"a.xhtml": "<p>text</p>"})).metadata == {
        "title": "On lungs", "author": "Ada", "language": "en", "keywords": ["lung", "CT"], "publisher": "House",
        "created": "2024-01-02", "description": "All about lungs.",
    }  # fmt: skip


PAGE = {"a.xhtml": "<p>text</p>"}
ENTITY = '<!DOCTYPE package [<!ENTITY a "b">]><package>&a;</package>'
LOCKED = '<encryption><CipherReference URI="OEBPS/a.xhtml"/></encryption>'
FONT = '<encryption><CipherReference URI="OEBPS/font.otf"/></encryption>'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04", "not a complete ZIP file"),
        (book(PAGE, others={"META-INF/container.xml": "<container/>"}), "it has no part"),
        (book(PAGE, others={"OEBPS/book.opf": ENTITY}), "has a document type"),
        (book(PAGE, others={"META-INF/encryption.xml": LOCKED}), "its pages are encrypted"),
        (book({"a.xhtml": "<img src='x.png'/>"}), "it has no text"),
        (book({"a.xhtml": "<p>" + " " * 18_000_000 + "</p>"}), "unpacks to more than 100 times"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_book_that_cannot_be_read_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        read(content)


def test_an_obfuscated_font_does_not_lock_a_book() -> None:
    assert read(book(PAGE, others={"META-INF/encryption.xml": FONT})).text == "text"
