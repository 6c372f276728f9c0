"""Damaged, disguised and hostile Word documents: each is rejected with a reason, or read within limits."""

import contextlib
import random
import zipfile

import pytest
from sources.formats.docx.word_files import archive, cell, members_of, p, r, read, t, table, text_of, word_file

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import zipped_format

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)


def reason(content: bytes, **limits: float) -> str:
    with pytest.raises(BadDocument) as caught:
        read(content, **limits)
    return f"{caught.value} {caught.value.hint or ''}"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (OLE + "WordDocument".encode("utf-16-le"), "it is a Word 97 file save it as .docx"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "it is encrypted save it without a password"),
        (OLE, "compound file without a Word document"),
        (b"{\\rtf1 text}", "it is an RTF file"),
        (b"", "not a complete ZIP file"),
        (b"PK\x03\x04 and nothing else", "not a complete ZIP file"),
        (word_file(p("x"))[:-40], "not a complete ZIP file"),
    ],
)
def test_files_of_other_kinds_are_named(content: bytes, expected: str) -> None:
    assert expected in reason(content)


def test_documents_are_recognised_by_their_types_alone() -> None:
    """Pictures before the text may fill the first bytes."""
    members, picture = members_of(word_file(p("x"))), {"docProps/thumbnail.jpeg": random.Random(7).randbytes(9000)}
    types = {"[Content_Types].xml": members["[Content_Types].xml"]}
    pictured = archive({**types, **picture, "word/document.xml": members["word/document.xml"]})
    assert zipped_format(pictured[:4096]) == "docx"
    assert zipped_format(b"PK\x03\x04" + bytes(4000)) is None
    workbook = archive({"[Content_Types].xml": "spreadsheetml.sheet.main", "xl/workbook.xml": ""})
    assert zipped_format(workbook[:4096]) is None


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    ],
)
def test_document_types_and_entities_are_rejected(declared: str) -> None:
    assert "has a document type" in reason(word_file(p("x"), document_type=declared))


def test_too_much_compression_is_rejected() -> None:
    bomb = word_file(p(" " * 18_000_000))
    assert "word/document.xml unpacks to more than 100" in reason(bomb)
    assert "unpack to more than 1 MB" in reason(bomb, max_bytes=2**20)


def test_members_that_are_not_needed_are_never_unpacked() -> None:
    media = {"word/media/a.png": bytes(30_000_000), "word/embeddings/x.bin": bytes(30_000_000)}
    assert read(word_file(p("x"), others=media), max_bytes=2**20).text == "x"


def test_too_many_members_are_rejected() -> None:
    assert "10,006 parts" in reason(word_file(p("x"), others={f"word/media/{n}": b"" for n in range(10_001)}))


def test_a_directory_that_is_too_large_is_not_read() -> None:
    content = bytearray(word_file(p("x")))
    end = content.rfind(b"PK\x05\x06")
    content[end + 12 : end + 16] = (2**31).to_bytes(4, "little")
    assert "directory of its ZIP file" in reason(bytes(content))


def test_encrypted_and_strangely_compressed_members_are_rejected() -> None:
    content = bytearray(word_file(p("x")))
    place = content.rfind(b"PK\x01\x02")
    for start in (place for place in range(len(content)) if content.startswith(b"PK\x01\x02", place)):
        content[start + 8] |= 1
    assert place > 0
    assert "it is encrypted" in reason(bytes(content))
    assert "compressed in a way" in reason(word_file(p("x"), compression=zipfile.ZIP_BZIP2))


def test_a_damaged_part_is_named() -> None:
    content = word_file(p("x"), compression=zipfile.ZIP_STORED).replace(b">x<", b">y<")
    assert "word/document.xml is damaged" in reason(content)
    assert "word/document.xml is not valid XML" in reason(word_file("<w:p>"))


def test_more_pages_than_the_limit_are_rejected() -> None:
    body = p("", inner=r("<w:lastRenderedPageBreak/>" + t("x"))) * 11
    assert "it has 12 pages; the limit is 10" in reason(word_file(body), max_pages=10)


def test_elements_that_are_nested_too_deeply_are_rejected() -> None:
    deep = "<w:smartTag>" * 300 + "</w:smartTag>" * 300
    assert "nested deeper than 256" in reason(word_file(p(inner=deep)))


def nested(opening: str, inner: str, closing: str) -> str:
    times = 248 // opening.count("<")
    return opening * times + inner + closing * times


@pytest.mark.parametrize(
    "body",
    [
        p(inner=nested("<w:smartTag>", r(t("x")), "</w:smartTag>")),
        nested("<w:sdt><w:sdtContent>", p("x"), "</w:sdtContent></w:sdt>"),
        nested("<w:tbl><w:tr><w:tc>", p("x"), f"</w:tc>{cell(p('y'))}</w:tr></w:tbl>"),
        nested("<w:tbl><w:tr><w:tc>", p("x"), "</w:tc></w:tr></w:tbl>"),
        nested("<w:p><w:r><w:pict><w:txbxContent>", p("x"), "</w:txbxContent></w:pict></w:r></w:p>"),
        p(inner=f"<m:oMath>{nested('<m:f>', '<m:r><m:t>x</m:t></m:r>', '</m:f>')}</m:oMath>"),
    ],
)
def test_the_deepest_nesting_is_read(body: str) -> None:
    assert "x" in text_of(body)


def test_targets_outside_of_the_package_are_not_followed() -> None:
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    related = "".join(
        f'<Relationship Id="{place}" Type="{kinds}/styles" Target="{target}" {mode}/>'
        for place, (target, mode) in enumerate(
            (("http://127.0.0.1/x", 'TargetMode="External"'), ("../../../../etc/passwd", ""), ("/etc/passwd", ""))
        )
    )
    others = {"word/_rels/document.xml.rels": f'<Relationships xmlns="{package}">{related}</Relationships>'.encode()}
    assert read(word_file(p("x"), others=others)).text == "x"


@pytest.mark.parametrize(
    "numbers", ['w:val="99999999999999999999"', 'w:val="-5"', 'w:val="x"', 'w:val="١٢"', 'w:val=""', ""]
)
def test_numbers_of_a_file_are_never_trusted(numbers: str) -> None:
    spread = cell(p("a"), f"<w:gridSpan {numbers}/>") + cell(p("b"))
    listed = p("c", f"<w:numPr><w:ilvl {numbers}/><w:numId {numbers}/></w:numPr><w:outlineLvl {numbers}/>")
    numbering = (
        f'<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start {numbers}/><w:lvlText w:val="%1"/></w:lvl>'
        f'</w:abstractNum><w:num w:numId="1"><w:abstractNumId {numbers}/></w:num>'
    )
    size = numbers.replace("w:val", "w:w")
    pages = f"<w:sectPr><w:pgSz {size}/><w:pgNumType {numbers.replace('w:val', 'w:start')}/></w:sectPr>"
    content = word_file(
        table(spread) + listed + p("", inner=r("<w:lastRenderedPageBreak/>")) + pages, parts={"numbering": numbering}
    )
    parsed = read(content)
    assert {"a", "b", "c"} <= set(parsed.text.split())
    assert len(parsed.text) < 1000


def test_damaged_files_never_end_in_another_error() -> None:
    body = p("text", '<w:outlineLvl w:val="0"/>') + table(cell(p("a")) + cell(p("b"))) + p("end")
    content = word_file(body, compression=zipfile.ZIP_STORED, core="<dc:title>x</dc:title>")
    chance = random.Random(19)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if chance.random() < 0.2:
            del damaged[chance.randint(len(damaged) // 2, len(damaged)) :]
        with contextlib.suppress(BadDocument):
            read(bytes(damaged))


def test_fields_within_fields_end_at_a_depth() -> None:
    begun = r('<w:fldChar w:fldCharType="begin"/>') * 5000
    assert text_of(p("a", inner=begun + r(t("b"))) + p("c")) == "a\n\nc"
