"""Word documents: text and structure by mammoth, and hostile files that are rejected with a reason."""

import contextlib
import io
import zipfile
from pathlib import Path

import docx
import pytest
from hypothesis import given, settings, strategies as st
from sources.formats.docx.word_files import archive, cell, p, r, read, t, table, text_of, word_file
from sources.formats.layouts import levelled

from retrieve_cli.errors import BadDocument

WORDS = st.lists(st.sampled_from("lung heart dose mice slept on 3 mg".split()), min_size=1, max_size=6).map(" ".join)
PARTS = st.one_of(
    st.tuples(st.sampled_from(["paragraph", "heading", "list"]), WORDS),
    st.tuples(st.just("table"), st.lists(st.lists(WORDS, min_size=2, max_size=2), min_size=1, max_size=3)),
)


@settings(max_examples=10, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=8))
def test_a_document_of_another_library_is_read_in_its_order(parts: list[tuple[str, object]]) -> None:
    document = docx.Document()
    expected = []
    for kind, content in parts:
        if kind == "table":
            rows = document.add_table(len(content), 2).rows
            for row, cells in zip(rows, content, strict=True):
                for place, words in zip(row.cells, cells, strict=True):
                    place.text = words
            lines = [f"| {' | '.join(cells)} |" for cells in content]
            expected.append(("table", 0, "\n".join((lines[0], "|---|---|", *lines[1:]))))
        elif kind == "heading":
            document.add_heading(content, 2)
            expected.append(("heading", 2, content))
        elif kind == "list" and expected and expected[-1][0] == "list":
            document.add_paragraph(content, style="List Bullet")
            expected[-1] = ("list", 0, f"{expected[-1][2]}\n- {content}")
        else:
            document.add_paragraph(content, style="List Bullet" if kind == "list" else None)
            expected.append((kind, 0, f"- {content}" if kind == "list" else content))
    stream = io.BytesIO()
    document.save(stream)
    assert levelled(read(stream.getvalue())) == expected


def style(identifier: str, name: str, properties: str = "", *, based: str = "") -> str:
    based_on = f'<w:basedOn w:val="{based}"/>' if based else ""
    named = f'<w:name w:val="{name}"/>'
    return (
        f'<w:style w:type="paragraph" w:styleId="{identifier}">{named}{based_on}<w:pPr>{properties}</w:pPr></w:style>'
    )


def test_blocks_are_known_by_the_names_and_outlines_of_styles_and_of_those_below_them() -> None:
    styles = (
        style("berschrift1", "heading 1") + style("X", "Kapitel", '<w:outlineLvl w:val="1"/>')
        + style("Y", "Mein 'Kapitel'", based="X") + style("T", "Title") + style("A", "a", based="B")
        + style("B", "b", based="A") + style("C", "HTML Preformatted") + style("D", "Own", based="E")
        + style("E", "caption") + style("Q", "Quote") + style("Z", "z", '<w:outlineLvl w:val="9"/>', based="X")
    )  # fmt: skip
    names = ("T", "berschrift1", "Y", "A", "C", "C", "D", "Q", "Z")
    body = "".join(p(f"text {number}", name) for number, name in enumerate(names))
    assert levelled(read(word_file(body, parts={"styles": styles}))) == [
        ("heading", 1, "text 0"), ("heading", 1, "text 1"), ("heading", 2, "text 2"), ("paragraph", 0, "text 3"),
        ("code", 0, "text 4\ntext 5"), ("caption", 0, "text 6"), ("quote", 0, "text 7"),
        ("paragraph", 0, "text 8"),
    ]  # fmt: skip


def test_merged_cells_have_their_text_in_every_row_and_column() -> None:
    wide = cell(p("both"), '<w:gridSpan w:val="2"/>')
    tall, rest = cell(p("tall"), '<w:vMerge w:val="restart"/>'), cell(p(""), "<w:vMerge/>")
    rows = wide + cell(p("c")), tall + cell(p("1")) + cell(p("2")), rest + cell(p("3")) + cell(p("4"))
    assert text_of(table(*rows)) == "| both | both | c |\n|---|---|---|\n| tall | 1 | 2 |\n| tall | 3 | 4 |"


BOX = f"<w:pict><v:shape><v:textbox><w:txbxContent>{p('in a box')}</w:txbxContent></v:textbox></v:shape></w:pict>"
EQUATION = (
    "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>"
)
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (f"<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins>{r(t('new'))}</w:ins>", "so new"),
        (f"<w:moveFrom>{r(t('gone'))}</w:moveFrom><w:moveTo>{r(t('here'))}</w:moveTo>", "so here"),
        (r(t("hidden"), "<w:vanish/>") + r(t("shown"), '<w:vanish w:val="0"/>'), "so shown"),
        (f"<w:hyperlink>{r(t('a'))}</w:hyperlink><w:smartTag>{r(t('b'))}</w:smartTag>", "so ab"),
        (f"<w:sdt><w:sdtContent>{r(t('control'))}</w:sdtContent></w:sdt>", "so control"),
        (r(t("10")) + r(t("3"), '<w:vertAlign w:val="superscript"/>'), "so 10^3"),
        (r(t("H")) + r(t("2"), '<w:vertAlign w:val="subscript"/>') + r(t("O")), "so H2O"),
        (f"<m:oMathPara>{EQUATION}</m:oMathPara>", "so a+b 2"),
        (r("<w:sym w:font='Symbol' w:char='F061'/>"), "so α"),
        (FIELD.format("begin") + "<w:r><w:instrText>PAGE</w:instrText></w:r>" + FIELD.format("separate")
         + r(t("7")) + FIELD.format("end"), "so 7"),
        (f"<mc:AlternateContent><mc:Choice/><mc:Fallback>{r(BOX)}</mc:Fallback></mc:AlternateContent>",
         "so\n\nin a box"),
        (r('<w:commentReference w:id="1"/>'), "so"),
    ],
)  # fmt: skip
def test_text_is_the_text_that_word_shows(inner: str, expected: str) -> None:
    assert text_of(p("so ", inner=inner)) == expected


def test_a_note_is_a_mark_in_the_text_and_an_item_below_it() -> None:
    note = f'<w:footnote w:id="5">{p("First note.")}</w:footnote>'
    text = text_of(p("One", inner=r('<w:footnoteReference w:id="5"/>') + r(t(" and"))), footnotes=note)
    assert text == "One [1] and\n\n1. First note."


def test_metadata_are_the_core_properties() -> None:
    core = (
        "<dc:title>Mice</dc:title><dc:creator>A. Author</dc:creator><cp:keywords>mouse; sleep, rest</cp:keywords>"
        "<dc:subject>On sleep</dc:subject><dcterms:created>2024-01-02T03:04:05Z</dcterms:created>"
    )
    assert read(word_file(p("x"), core=core)).metadata == {
        "title": "Mice", "author": "A. Author", "description": "On sleep", "keywords": ["mouse", "sleep", "rest"],
        "created": "2024-01-02T03:04:05Z",
    }  # fmt: skip


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
STORED = word_file(p("x"), compression=zipfile.ZIP_STORED)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (OLE + "EncryptedPackage".encode("utf-16-le"), "it is encrypted"),
        (OLE, "it is a file of Office 97"),
        (b"{\\rtf1 text}", "it is an RTF file"),
        (b"", "not a complete ZIP file"),
        (word_file(p("x"))[:-40], "not a complete ZIP file"),
        (archive({"[Content_Types].xml": "<a/>", "xl/workbook.xml": "<a/>"}), "without a Word document"),
        (word_file(p("x"), document_type=ENTITIES), "has a document type"),
        (word_file(p("x"), others={f"word/media/{n}": b"" for n in range(10_001)}), "10,006 parts"),
        (word_file(p("x"), compression=zipfile.ZIP_BZIP2), "compressed in a way"),
        (STORED.replace(b">x<", b">y<"), "word/document.xml is damaged"),
        (word_file("<w:p>"), "word/document.xml is not valid XML"),
        (word_file(p(inner="<w:smartTag>" * 300 + "</w:smartTag>" * 300)), "nested deeper than 256"),
        (word_file(p()), "it has no text"),
    ],
)
def test_a_file_that_cannot_be_read_is_rejected_with_a_reason(content: bytes, expected: str) -> None:
    with pytest.raises(BadDocument, match=expected):
        read(content)


def test_too_much_compression_is_rejected_and_members_that_are_not_needed_are_not_unpacked() -> None:
    bomb = word_file(p(" " * 18_000_000))
    with pytest.raises(BadDocument, match=r"word/document.xml unpacks to more than 100"):
        read(bomb)
    with pytest.raises(BadDocument, match="unpack to more than 1 MB"):
        read(bomb, max_bytes=2**20)
    media = {"word/media/a.png": bytes(30_000_000), "word/embeddings/x.bin": bytes(30_000_000)}
    assert read(word_file(p("x"), others=media), max_bytes=2**20).text == "x"


def test_targets_outside_of_the_package_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "styles.xml"
    secret.write_text("<secret/>")
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    targets = ("http://127.0.0.1/x", f"../../../../..{secret}", str(secret))
    related = "".join(f'<Relationship Id="{t}" Type="{kinds}/styles" Target="{t}"/>' for t in targets)
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    others = {"word/_rels/document.xml.rels": f'<Relationships xmlns="{space}">{related}</Relationships>'.encode()}
    with contextlib.suppress(BadDocument):
        assert read(word_file(p("x"), others=others)).text == "x"
