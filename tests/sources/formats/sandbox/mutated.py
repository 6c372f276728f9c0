"""Small valid files of each format of documents, and damage done to them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from functools import cache
from random import Random

from benchmarks.truth_corpus import WRITERS, Made, Node
from retrieve_cli.sources.formats.formats import FORMATS

_HUGE = (b"0", b"-1", b"65535", b"2147483647", b"4294967295", b"9223372036854775807", b"99999999999999999999", b"1e308")
_WORDS = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80")
_NUMBER = re.compile(rb"\d+")
_HTML = (b"<div>", b"<table><tr><td>", b"<ul><li>", b"<b>", b"<svg>", b"<pre><code>")
_DEEP: Mapping[str, tuple[bytes, ...]] = {
    "pdf": (b"[", b"<<", b"(", b"q "),
    "html": _HTML,
    "epub": _HTML,
    "eml": (*_HTML, b"Content-Type: multipart/mixed; boundary=a\n\n--a\n"),
    "docx": (b"<w:tbl><w:tr><w:tc>", b"<w:p>", b"<w:sdt><w:sdtContent>", b"<w:txbxContent>"),
    "pptx": (b"<p:grpSp>", b"<a:p>", b"<p:sp>"),
    "odt": (b"<text:p>", b"<text:list><text:list-item>", b"<table:table><table:table-row><table:table-cell>"),
    "json": (b"[", b'{"a":'),
    "notebook": (b"[", b'{"a":', b"> "),
    "rst": (b"> ", b"* ", b"   ", b"| ", b".. note:: "),
    "xml": (b"<sec>", b"<list><item>", b"<table><tr><td>", b"<sup>", b"<a><title>b</title>"),
}
"""Beginnings of structures that can be nested without end."""
_MOST = 1 << 20
"""Bytes of a mutated file."""

KINDS = tuple(FORMATS)


@cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """Return small valid files of a format; a format without any is an error."""
    names = [name for name in WRITERS if name not in ("pdf-1", "pdf-2")]  # those of typst take longer
    written = [write(_MADE) for suffix, write in (WRITERS[name] for name in names) if suffix in FORMATS[kind].suffixes]
    return (*written, *_MORE.get(kind, ()))


def mutated(dice: Random, kind: str) -> bytes:
    """Return a damaged file of a format."""
    content = dice.choice(seeds(kind))
    if zipfile.is_zipfile(io.BytesIO(content)) and dice.random() < 0.7:
        content = _with_damaged_part(dice, kind, content)
        if dice.random() < 0.8:
            return content
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        content = _damaged(dice, kind, content)[:_MOST]
    return content


def _with_damaged_part(dice: Random, kind: str, content: bytes) -> bytes:
    """Return an archive that is valid, of which a part is damaged."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    texts = [name for name in parts if name.endswith((".xml", ".xhtml", ".opf")) and "theme" not in name]
    name = dice.choice([*parts, *texts, *(part for part in texts if "document" in part or "slide1" in part)])
    parts[name] = _damaged(dice, kind, parts[name])
    if dice.random() < 0.1:
        parts.pop(dice.choice(list(parts)))
    if dice.random() < 0.1:
        parts[dice.choice(list(parts))] = b"\x00" * (1 << 24)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return target.getvalue()


_DAMAGES = ("flip", "flip", "cut", "cut", "splice", "swap", "repeat", "number", "number", "nest", "noise")


def _damaged(dice: Random, kind: str, content: bytes) -> bytes:
    """Return a content with one damage."""
    a, b, c = sorted(dice.randint(0, len(content)) for _ in range(3))
    damage = dice.choice(_DAMAGES)
    if damage == "flip":
        bits = bytearray(content or b" ")
        for _ in range(dice.choice((1, 3, 30))):
            bits[dice.randrange(len(bits))] ^= 1 << dice.randrange(8)
        return bytes(bits)
    if damage == "cut":
        return content[dice.choice((0, 0, a)) : c]
    if damage == "splice":
        other = dice.choice(seeds(dice.choice((kind, kind, *KINDS))))
        return content[:a] + other[dice.randint(0, len(other)) :]
    if damage == "swap":
        return content[:a] + content[b:c] + content[a:b] + content[c:]
    if damage == "number" and (numbers := list(_NUMBER.finditer(content))) and dice.random() < 0.8:
        number = dice.choice(numbers)
        return content[: number.start()] + dice.choice(_HUGE) + content[number.end() :]
    added = {
        "repeat": content[a : a + dice.choice((1, 10, 100, 1000))] * dice.choice((2, 50, 2000)),
        "number": dice.choice(_WORDS),
        "nest": dice.choice(_DEEP.get(kind, (b"[",))) * dice.choice((100, 20_000)),
        "noise": dice.randbytes(dice.choice((1, 8, 300))),
    }
    return content[:a] + added[damage] + content[a + 4 * (damage == "number") :]


_MADE = Made(
    1,
    (
        Node("heading", "Lungs", 1),
        Node("paragraph", "Lungs are segmented and measured; this text is long enough to be the main one."),
        Node("heading", "Methods", 2),
        Node("list", items=("first", "second")),
        Node("numbers", items=("one", "two")),
        Node("table", rows=(("organ", "n"), ("lung", "200"), ("heart", "100")), ruled=True),
        Node("table", rows=(("part", "n"), ("lobe", "500")), ruled=False),
        Node("code", "pip install lungs"),
        Node("note", "[1] The end."),
    ),
)
_PAGE = b"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Lungs</title></head><body><main>
<h1 id="top">Lungs</h1><p>Lungs are segmented &amp; measured; this text is long enough to be the main one.</p>
<table><caption>Organs</caption><tr><th colspan="2">organ</th></tr><tr><td rowspan="2">lung</td><td>2</td></tr></table>
<div role="tabpanel" hidden><p>10<sup>3</sup></p></div></main></body></html>"""
_ARTICLE = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "JATS.dtd"><article xml:lang="en"><front><article-meta>
<article-id pub-id-type="doi">10.5555/1</article-id><title-group><article-title>Lungs</article-title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Doe</surname></name></contrib></contrib-group>
<pub-date><day>3</day><month>5</month><year>2022</year></pub-date><abstract><p>Short&nbsp;text.</p></abstract>
</article-meta></front><body><sec id="s1"><label>1</label><title>Methods</title>
<p>Lungs<sup><xref rid="b">1</xref></sup><list list-type="order"><list-item><p>one</p></list-item></list></p>
<table-wrap><label>T</label><caption>c</caption>
<table><tr><th colspan="2">organ</th></tr><tr><td>lung</td><td/></tr></table></table-wrap></sec></body></article>"""
_MORE: Mapping[str, tuple[bytes, ...]] = {
    "html": (_PAGE.replace(b'"utf-8"', b'"shift_jis"'), b"\xff\xfe" + _PAGE.decode().encode("utf-16-le")),
    "xml": (
        _ARTICLE,
        b"<label><dosage><p>Lungs &amp; <b>more</b></p></dosage><steps><step>a</step><step>b</step></steps></label>",
        _ARTICLE.decode().replace("UTF-8", "UTF-16").encode("utf-16"),
    ),
    "json": (b'{"organ": "Lungs", "n": [1, 2.5, null], "deep": {"a": {"b": "c"}}}', b'{"organ": "Lungs"}\n' * 3),
    "text": (b"Lungs are segmented.\n",),
    "man": (b".TH LUNGS 1\n.SH NAME\nlungs \\- segment lungs\n",),
}
