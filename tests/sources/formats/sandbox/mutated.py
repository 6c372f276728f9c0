"""Small valid files of each format of documents, and damage done to them."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from random import Random

from retrieve_cli.sources.formats.formats import FORMATS

_HUGE = (b"0", b"-1", b"65535", b"2147483647", b"4294967295", b"9223372036854775807", b"99999999999999999999", b"1e308")
_WORDS = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80")
_NUMBER = re.compile(rb"\d+")
_DEEP: Mapping[str, tuple[bytes, ...]] = {
    "pdf": (b"[", b"<<", b"(", b"q "),
    "html": (b"<div>", b"<table><tr><td>", b"<ul><li>", b"<b>", b"<svg>", b"<pre><code>"),
    "docx": (b"<w:tbl><w:tr><w:tc>", b"<w:p>", b"<w:sdt><w:sdtContent>", b"<w:txbxContent>"),
    "json": (b"[", b'{"a":'),
    "notebook": (b"[", b'{"a":'),
    "rst": (b"> ", b"* ", b"   ", b"| ", b".. note:: "),
    "pptx": (b"<p:grpSp>", b"<a:p>", b"<a:tbl><a:tr><a:tc>"),
    "odt": (b"<text:p>", b"<text:list><text:list-item>", b"<table:table><table:table-row><table:table-cell>"),
    "eml": (b"Content-Type: message/rfc822\n\n", b"Content-Type: multipart/mixed; boundary=b\n\n--b\n", b"<div>"),
    "xml": (b"<sec>", b"<list><item>", b"<table><tr><td>", b"<sup>", b"<a><title>b</title>"),
}
"""Beginnings of structures that can be nested without end."""
_TEXTS = ("word/document.xml", "ppt/slides/slide1.xml", "content.xml")
_MOST = 1 << 20
"""Bytes of a mutated file."""

KINDS = tuple(name for name, each in FORMATS.items() if each.apart)


@cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """Return small valid files of a format."""
    return _SEEDS.get(kind, _texts)()


def mutated(dice: Random, kind: str) -> bytes:
    """Return a damaged file of a format."""
    content = dice.choice(seeds(kind))
    if zipfile.is_zipfile(io.BytesIO(content)) and dice.random() < 0.7:
        content = _with_damaged_part(dice, kind, content)
        if dice.random() < 0.8:
            return content
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        content = dice.choice(_DAMAGES)(dice, kind, content)[:_MOST]
    return content


def _with_damaged_part(dice: Random, kind: str, content: bytes) -> bytes:
    """Return an archive that is valid, of which a part is damaged."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = dice.choice([*parts, *_TEXTS, *_TEXTS])
    if name in parts:
        parts[name] = dice.choice(_DAMAGES)(dice, kind, parts[name])
    if dice.random() < 0.1:
        parts.pop(dice.choice(list(parts)))
    if dice.random() < 0.1:
        parts[dice.choice(list(parts))] = b"\x00" * (1 << 24)
    return _zipped(parts)


def _zipped(parts: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return target.getvalue()


# ------------------------------------------------------------------------------------------------------- damages


def _flipped(dice: Random, kind: str, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(dice.choice((1, 3, 30)) if damaged else 0):
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def _cut(dice: Random, kind: str, content: bytes) -> bytes:
    return content[: dice.randint(0, len(content))]


def _beheaded(dice: Random, kind: str, content: bytes) -> bytes:
    return content[dice.randint(0, len(content) // 2) :]


def _spliced(dice: Random, kind: str, content: bytes) -> bytes:
    other = dice.choice(seeds(dice.choice((kind, kind, *KINDS))))
    return content[: dice.randint(0, len(content))] + other[dice.randint(0, len(other)) :]


def _swapped(dice: Random, kind: str, content: bytes) -> bytes:
    a, b, c = sorted(dice.randint(0, len(content)) for _ in range(3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def _repeated(dice: Random, kind: str, content: bytes) -> bytes:
    start = dice.randint(0, len(content))
    piece = content[start : start + dice.choice((1, 10, 100, 1000))]
    return content[:start] + piece * dice.choice((2, 50, 2000)) + content[start:]


def _with_huge_number(dice: Random, kind: str, content: bytes) -> bytes:
    numbers = list(_NUMBER.finditer(content))
    if not numbers or dice.random() < 0.2:
        start = dice.randint(0, max(0, len(content) - 4))
        return content[:start] + dice.choice(_WORDS) + content[start + 4 :]
    number = dice.choice(numbers)
    return content[: number.start()] + dice.choice(_HUGE) + content[number.end() :]


def _nested(dice: Random, kind: str, content: bytes) -> bytes:
    start = dice.randint(0, len(content))
    return content[:start] + dice.choice(_DEEP.get(kind, (b"[",))) * dice.choice((100, 20_000)) + content[start:]


def _with_noise(dice: Random, kind: str, content: bytes) -> bytes:
    start = dice.randint(0, len(content))
    return content[:start] + dice.randbytes(dice.choice((1, 8, 300))) + content[start:]


_DAMAGES: tuple[Callable[[Random, str, bytes], bytes], ...] = (
    _flipped, _flipped, _cut, _beheaded, _spliced, _swapped, _repeated, _with_huge_number, _with_huge_number, _nested,
    _with_noise)  # fmt: skip

# --------------------------------------------------------------------------------------------------------- seeds


def _pdfs() -> tuple[bytes, ...]:
    from reportlab.pdfgen.canvas import Canvas

    made = []
    for compressed in (0, 1):
        target = io.BytesIO()
        canvas = Canvas(target, pagesize=(300, 400), pageCompression=compressed, invariant=1)
        for page in range(3):
            canvas.bookmarkPage(f"p{page}")
            canvas.addOutlineEntry(f"Section {page}", f"p{page}", level=min(page, 1))
            canvas.setFont("Helvetica-Bold", 16)
            canvas.drawString(40, 350, f"Section {page}")
            canvas.setFont("Times-Roman", 10)
            for line in range(8):
                canvas.drawString(40, 320 - 14 * line, f"Lungs are segmen- {line} ted in two columns")
                canvas.drawString(170, 320 - 14 * line, f"and hearts, too, {line}")
            canvas.grid((40, 100, 160), (60, 90, 120))
            canvas.drawString(45, 95, "organ")
            canvas.drawString(45, 65, "lung")
            canvas.setPageRotation(90 * (page == 2))
            canvas.showPage()
        canvas.save()
        made.append(target.getvalue())
    return tuple(made)


_PAGE = b"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Lungs</title>
<link rel="canonical" href="https://example.org/lungs"></head><body><nav><a href="/">Home</a></nav><main>
<h1 id="top">Lungs</h1><p>Lungs are segmented &amp; measured; this text is long enough to be the main one.</p>
<h2 id="install">Install</h2><pre><code>pip install lungs\n</code></pre><ul><li>one<ol><li>two</li></ol></li></ul>
<table><caption>Organs</caption><tr><th colspan="2">organ</th></tr><tr><td rowspan="2">lung</td><td>2</td></tr></table>
</main><footer>imprint</footer></body></html>"""


def _pages() -> tuple[bytes, ...]:
    return _PAGE, _PAGE.replace(b'"utf-8"', b'"shift_jis"'), b"\xff\xfe" + _PAGE.decode().encode("utf-16-le")


def _word_files() -> tuple[bytes, ...]:
    from docx import Document

    document = Document()
    document.add_heading("Lungs", 0)
    document.add_heading("Methods", 1)
    document.add_paragraph("Lungs are segmented.")
    document.add_paragraph("first", style="List Number")
    document.add_paragraph("second", style="List Bullet")
    table = document.add_table(2, 2)
    for number, cell in enumerate(table._cells):
        cell.text = f"cell {number}"
    document.add_page_break()
    document.add_paragraph("The end.")
    target = io.BytesIO()
    document.save(target)
    with zipfile.ZipFile(target) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return (_zipped({name: part for name, part in parts.items() if not name.startswith("docProps/thumb")}),)


def _slides() -> tuple[bytes, ...]:
    from pptx import Presentation

    deck, target = Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Lungs", "are segmented"
    slide.shapes.add_table(2, 2, 0, 0, 9, 9).table.cell(0, 0).text = "organ"
    slide.notes_slide.notes_text_frame.text = "Speak up"
    deck.save(target)
    with zipfile.ZipFile(target) as archive:
        return (_zipped({name: archive.read(name) for name in archive.namelist() if "jpeg" not in name}),)


_MAIL = b"""From: Ada <ada@example.org>
Subject: =?utf-8?q?Lungs?=
Date: Mon, 4 May 2026 10:00:00 +0000
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

<h1>Lungs</h1><p>are =E9<table><tr><td>1</table>
--b
Content-Type: message/rfc822

Subject: Hearts

as well
--b
Content-Type: application/pdf
Content-Disposition: attachment; filename*0*=utf-8''a; filename*1*=%20b

--b--
"""


def _open_documents() -> tuple[bytes, ...]:
    from docutils.core import publish_string

    return (publish_string(_STRUCTURED.decode(), writer="odt", settings_overrides={"report_level": 5}),)


def _notebooks() -> tuple[bytes, ...]:
    output = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Lungs\n", "are segmented"]},
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "print(1)", "outputs": [output]},
    ]
    value = {"cells": cells, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(value, indent=1).encode(), json.dumps(value).encode()


_STRUCTURED = b"""Lungs
=====

.. _install:

Install
-------

Text *here*.

* one
* two

.. code-block:: python

   print(1)

=====  =====
organ  n
=====  =====
lung   2
=====  =====

+---+---+
| a | b |
+---+---+
"""


def _structured_texts() -> tuple[bytes, ...]:
    return (_STRUCTURED,)


_ARTICLE = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "JATS.dtd"><article xml:lang="en"><front><article-meta>
<article-id pub-id-type="doi">10.5555/1</article-id><title-group><article-title>Lungs</article-title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Doe</surname></name></contrib></contrib-group>
<pub-date><day>3</day><month>5</month><year>2022</year></pub-date><abstract><p>Short&nbsp;text.</p></abstract>
</article-meta></front><body><sec id="s1"><label>1</label><title>Methods</title>
<p>Lungs<sup><xref rid="b">1</xref></sup><list list-type="order"><list-item><p>one</p></list-item></list></p>
<table-wrap><label>T</label><caption>c</caption>
<table><tr><th colspan="2">organ</th></tr><tr><td>lung</td><td/></tr></table></table-wrap></sec></body></article>"""


def _articles() -> tuple[bytes, ...]:
    label = b"<label><dosage><p>Lungs &amp; <b>more</b></p></dosage><steps><step>a</step><step>b</step></steps></label>"
    return _ARTICLE, label, _ARTICLE.decode().replace("UTF-8", "UTF-16").encode("utf-16")


def _values() -> tuple[bytes, ...]:
    value = {"organ": "Lungs", "state": "segmented", "numbers": [1, 2.5, None, True], "deep": {"a": {"b": "c"}}}
    return json.dumps(value, indent=2).encode(), b"".join(json.dumps(value).encode() + b"\n" for _ in range(3))


def _texts() -> tuple[bytes, ...]:
    return (b"Lungs are segmented.\n",)


_SEEDS: Mapping[str, Callable[[], tuple[bytes, ...]]] = {
    "pdf": _pdfs, "html": _pages, "docx": _word_files, "notebook": _notebooks, "rst": _structured_texts,
    "json": _values, "xml": _articles, "pptx": _slides, "odt": _open_documents, "eml": lambda: (_MAIL,),
    "man": lambda: (b'.TH LUNGS 1\n.SH NAME\nlungs \\- segment lungs\n',),
}  # fmt: skip
