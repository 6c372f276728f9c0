"""Decoding of HTML: byte order mark, declared character set, UTF-8, and windows-1252 as the last resort.

Follows the WHATWG Encoding and HTML standards: a declaration counts within the first 1024 bytes, and a label stands for
the encoding that browsers use for it, such as windows-1252 for `iso-8859-1`.
"""

from __future__ import annotations

import re

from retrieve_cli.errors import quoted

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_DECLARED_WITHIN = 1024
_META = re.compile(rb"<meta[\t\n\f\r /][^>]*+", re.IGNORECASE)
_CHARSET = re.compile(rb"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+[\"']?+[\t\n\f\r ]*+([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]*?encoding[\t\n\r ]*+=[\t\n\r ]*+[\"']([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--(?:(?!-->).)*+(?:-->)?+", re.DOTALL)

_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8 utf-16 utf-16le utf-16be "
    "unicode ucs-2 iso-10646-ucs-2 csunicode unicodefeff unicodefffe",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 latin1 l1 ascii "
    "us-ascii ansi_x3.4-1968 cp819 ibm819 iso-ir-100 csisolatin1",
    "iso8859-2": "iso-8859-2 iso8859-2 iso88592 iso_8859-2 latin2 l2 csisolatin2",
    "iso8859-3": "iso-8859-3 iso8859-3 iso88593 iso_8859-3 latin3 l3",
    "iso8859-4": "iso-8859-4 iso8859-4 iso88594 iso_8859-4 latin4 l4",
    "iso8859-5": "iso-8859-5 iso8859-5 iso88595 iso_8859-5 cyrillic csisolatincyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 iso88596 iso_8859-6 arabic ecma-114 asmo-708",
    "iso8859-7": "iso-8859-7 iso8859-7 iso88597 iso_8859-7 greek greek8 ecma-118",
    "iso8859-8": "iso-8859-8 iso8859-8 iso88598 iso_8859-8 hebrew visual iso-8859-8-i logical",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6 l6",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 iso885915 iso_8859-15 latin9 l9",
    "iso8859-16": "iso-8859-16",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso88599 iso_8859-9 latin5 l5",
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "cp874": "windows-874 tis-620 iso-8859-11 iso8859-11 dos-874",
    "cp866": "ibm866 cp866 866 csibm866",
    "koi8-r": "koi8-r koi8 koi koi8_r cskoi8r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman csmacintosh",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "gb18030 gbk gb2312 gb_2312 gb_2312-80 chinese csgb2312 x-gbk iso-ir-58",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis ms_kanji ms932 windows-31j x-sjis csshiftjis",
    "cp949": "euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 korean windows-949 cseuckr",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}


def decode(content: bytes, charset: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text of a page, and notices about bytes that are not valid in its character set.

    `charset` is the label of a transport header; like a byte order mark, it wins over the page's own declaration.
    """
    for bom, codec in _BOMS:
        if content.startswith(bom):
            return _decoded(content[len(bom) :], codec)
    label = charset or _declared(content)
    if label and (declared := _CODECS.get(label.strip().lower())):
        return _decoded(content, declared)
    unknown = (f"its character set {quoted(label)} is not known",) if label else ()
    try:
        return content.decode("utf-8"), unknown
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
        return text, (*unknown, "it declares no known character set and is not UTF-8: read as windows-1252")


def _decoded(content: bytes, codec: str) -> tuple[str, tuple[str, ...]]:
    try:
        return content.decode(codec), ()
    except UnicodeDecodeError as error:
        text = content.decode(codec, "replace")
        return text, (f"its bytes are not valid {codec} (position {error.start}): replaced by \ufffd",)


def _declared(content: bytes) -> str:
    """Return the label that the page declares; empty if it declares none."""
    head = _COMMENT.sub(b"", content[:_DECLARED_WITHIN])
    for tag in _META.finditer(head):
        if charset := _CHARSET.search(tag[0]):
            return charset[1].decode("ascii")
    xml = _XML.match(head.lstrip())
    return xml[1].decode("ascii") if xml else ""
