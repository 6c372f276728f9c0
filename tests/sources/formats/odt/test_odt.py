"""OpenDocument texts: structure, and packages that are out of bounds."""

from __future__ import annotations

import io
import zipfile

import pytest
from sources.formats.layouts import levelled, read

from retrieve_cli.errors import BadDocument

NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "drawing", "meta")
)
STYLES = """<style:style style:name="T1"><style:text-properties style:text-position="super 58%"/></style:style>
<style:style style:name="P1" style:parent-style-name="Title"/>
<text:list-style style:name="L1"><text:list-level-style-number/><text:list-level-style-bullet/></text:list-style>"""
TABLE = """<table:table><table:table-header-rows><table:table-row><table:table-cell>
<text:p>dose</text:p></table:table-cell>
<table:table-cell table:number-columns-repeated="2"><text:p>g</text:p></table:table-cell></table:table-row>
</table:table-header-rows><table:table-row><table:table-cell table:number-rows-spanned="2"><text:p>lime</text:p>
</table:table-cell><table:table-cell><text:p>1</text:p></table:table-cell><table:table-cell><text:p>2</text:p>
</table:table-cell></table:table-row><table:table-row><table:covered-table-cell><text:p>old</text:p>
</table:covered-table-cell><table:table-cell><text:p>3</text:p></table:table-cell><table:table-cell><text:p>4</text:p>
</table:table-cell></table:table-row></table:table>"""
BODY = f"""<text:p text:style-name="P1">Kettles</text:p>
<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h text:outline-level="2">Descaling</text:h>
<text:p>10<text:span text:style-name="T1">3</text:span> cups<text:note><text:note-citation>1</text:note-citation>
<text:note-body><text:p>of <text:s text:c="2"/>tea</text:p></text:note-body></text:note>
<office:annotation><text:p>why?</text:p></office:annotation></text:p>
<text:list text:style-name="L1"><text:list-item><text:p>fill</text:p><text:list><text:list-item>
<text:p>a &lt; b</text:p></text:list-item></text:list></text:list-item><text:list-item>
<text:p>boil</text:p></text:list-item></text:list>
{TABLE}<text:p><drawing:frame><drawing:image/></drawing:frame></text:p>"""
META = "<meta:keyword>tea</meta:keyword><meta:keyword>water</meta:keyword><meta:creator>Ada</meta:creator>"


def written(body: str = BODY, **parts: str) -> bytes:
    """Return a document; `parts` replace others, `meta` for `meta.xml`."""
    texts = f"<office:automatic-styles>{STYLES}</office:automatic-styles><office:body>{body}</office:body>"
    content = f"<office:document-content {NAMES}>{texts}</office:document-content>"
    members = {"content": content, "meta": f"<office:document-meta {NAMES}>{META}</office:document-meta>", **parts}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.text", zipfile.ZIP_STORED)
        for name, text in members.items():
            file.writestr(f"{name}.xml", text)
    return target.getvalue()


def test_headings_lists_tables_and_notes_are_read_and_the_rest_is_counted() -> None:
    made = read("odt", written())
    assert levelled(made) == [
        ("heading", 1, "Kettles"), ("heading", 2, "Descaling"), ("paragraph", 0, "10^3 cups[1]"),
        ("list", 0, "1. fill\n  - a < b\n2. boil"),
        ("table", 0, "| dose | g | g |\n|---|---|---|\n| lime | 1 | 2 |\n| lime | 3 | 4 |"),
        ("paragraph", 0, "[1] of tea"),
    ]  # fmt: skip
    assert made.metadata == {"title": "Kettles", "author": "Ada", "keywords": ["tea", "water"]}
    assert [(text.reason, text.text) for text in made.dropped] == [
        ("deleted text", "gone"), ("comment", "why?"), ("picture", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (written("<text:p>" * 300 + "</text:p>" * 300), "nested"),
        (written(content="<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"), "document type"),
        (written(content="<a>"), "not valid XML"),
        (written("<text:p/>"), "no text"),
        (written(**{"META-INF/manifest": "<encryption-data/>"}), "encrypted"),
    ],
    ids=["deep", "entities", "damaged", "empty", "encrypted"],
)
def test_a_file_that_is_damaged_or_out_of_bounds_is_rejected(content: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        read("odt", content)
