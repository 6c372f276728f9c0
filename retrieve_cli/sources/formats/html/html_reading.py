"""HTML pages as documents (`documents.formats`): decoding, text, and metadata.

Decoding follows the WHATWG Encoding and HTML standards: byte order mark, declared character set within the first 1024
bytes, UTF-8, and windows-1252 as the last resort; a label means the encoding that browsers use for it, such as
windows-1252 for `iso-8859-1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Layout
from retrieve_cli.errors import NotADocument, quoted
from retrieve_cli.sources.formats.formats import BOMS, ParsingLimits
from retrieve_cli.sources.formats.html.main_part import PagePart, main_part
from retrieve_cli.sources.formats.html.text import HtmlText
from retrieve_cli.sources.formats.html.tree import checked, one_line, read

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_FEW_WORDS = 20
"""Words below which a page may be a mere shell for what scripts load, or a sign to another page."""


def parse(
    content: bytes,
    *,
    name: str,
    limits: ParsingLimits,
    on_page: Callable[[int], None],  # noqa: ARG001  a page has no pages
    charset: str | None = None,
) -> Parsed:
    """Return the main content of a page, or all of it without `limits.main_content`.

    `charset` is the label of a transport header, if there is one.

    Raises:
        NotADocument: it contains no text.
        BadDocument: its markup is out of bounds.
    """
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    text, notices = decode(content, charset)
    xhtml = name.lower().endswith((".xhtml", ".xht")) or text.lstrip().startswith("<?xml")
    source = checked(text, xhtml=xhtml)
    page = LexborHTMLParser(source, options=LexborDocumentOptions.WO_EVENTS)
    if page.body is None or page.body.tag == "frameset":
        raise NotADocument("it is a set of frames without text: the pages in the frames are separate files")
    tree = read(page.body)
    part = main_part(tree, source) if limits.main_content else PagePart(0, frozenset())
    written = HtmlText(tree, part.skipped)
    written.write(part.root)
    _check_text(written.text, page)
    firsts = [block for block in written.blocks if block.kind == "heading" and block.level == 1]
    heading = written.text[firsts[0].start : firsts[0].end] if len(firsts) == 1 else ""
    return Parsed(
        written.text,
        layout=Layout(written.blocks),
        metadata=metadata(page, heading=heading),
        notices=(*notices, *((part.notice,) if part.notice else ())),
    )


def _check_text(text: str, page: LexborHTMLParser) -> None:
    """Raises: NotADocument: the page contains no text."""
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


_MOST_TAGS = 500
_LONGEST = 1000
_LONGEST_NAME = 200
_MOST_KEYWORDS = 50
_LONGEST_URL = 2000
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}")
_URL = re.compile(r"https?://[^\s@/\\<>\"]+(?:/[^\s<>\"\\]*)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_SEPARATORS = (" | ", " — ", " – ", " - ", " :: ", " · ", " » ", " « ", ": ")
_NAMES: Mapping[str, Sequence[str]] = {
    "title": ("og:title", "twitter:title", "dc.title", "dcterms.title", "citation_title"),
    "site": ("og:site_name", "application-name"),
    "description": ("description", "og:description", "dc.description", "dcterms.description", "dcterms.abstract"),
    "url": ("og:url",),
    "language": ("content-language", "dc.language", "dcterms.language"),
    "created": ("article:published_time", "datepublished", "citation_publication_date", "dcterms.created",
                "dcterms.issued", "dc.date", "dcterms.date", "date"),
    "modified": ("article:modified_time", "datemodified", "dcterms.modified", "last-modified"),
    "author": ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author"),
    "keywords": ("keywords", "news_keywords", "article:tag"),
}  # fmt: skip
"""Names of `<meta>` elements with each value, best first."""


def metadata(page: LexborHTMLParser, *, heading: str) -> dict[str, Json]:
    """Return the metadata of a page; `heading` is the only heading of the first level in its main part, if any."""
    tags = _tags(page)
    values = {name: next((tags[key] for key in keys if key in tags), []) for name, keys in _NAMES.items()}
    first = {name: one_line(texts[0])[:_LONGEST] if texts else "" for name, texts in values.items()}
    element = page.css_first("title")
    written = one_line(element.text()[: 4 * _LONGEST]) if element is not None else ""
    html = page.css_first("html")
    attributes = html.attributes if html is not None else {}
    language = attributes.get("lang") or attributes.get("xml:lang") or first["language"]
    names = [one_line(name)[:_LONGEST_NAME] for name in values["author"] if not _URL.match(name.strip())]
    links = (node.attributes for node in islice(page.css("link"), _MOST_TAGS))
    canonical = (link for link in links if "canonical" in (link.get("rel") or "").lower().split())
    lists = [text if "," in text else text.replace(";", ",") for text in values["keywords"][:_MOST_KEYWORDS]]
    words = (one_line(word)[:_LONGEST_NAME] for text in lists for word in text.split(","))
    found: dict[str, Json] = {
        "title": (heading or _title(first["title"] or written, first["site"]))[:_LONGEST],
        "description": first["description"],
        "url": _url((next(canonical, {}).get("href") or "").strip()) or _url(first["url"]),
        "language": language if _LANGUAGE.fullmatch(language := language.strip()) else "",
        "created": _date(first["created"]) or _time(page),
        "modified": _date(first["modified"]),
        "author": ", ".join(dict.fromkeys(name for name in names[:_MOST_KEYWORDS] if name)),
        "keywords": list(dict.fromkeys(islice(filter(None, words), _MOST_KEYWORDS))),
    }
    return {name: value for name, value in found.items() if value}


def _tags(page: LexborHTMLParser) -> dict[str, list[str]]:
    """Return the contents of the `<meta>` elements by their name in lower case."""
    tags: dict[str, list[str]] = {}
    for node in islice(page.css("meta"), _MOST_TAGS):
        attributes = node.attributes
        content = (attributes.get("content") or "")[: 4 * _LONGEST]
        for key in ("name", "property", "itemprop", "http-equiv"):
            if (name := attributes.get(key)) and content.strip():
                tags.setdefault(name.strip().lower(), []).append(content)
                break
    return tags


def _title(title: str, site: str) -> str:
    """Return a title without the name of its site in front or at the end."""
    for separator in _SEPARATORS:
        if site and title.endswith(separator + site):
            return title.removesuffix(separator + site)
        if site and title.startswith(site + separator):
            return title.removeprefix(site + separator)
    return title


def _url(address: str) -> str:
    """Return an address with http(s); empty for any other."""
    usable = len(address) <= _LONGEST_URL and address.isprintable() and _URL.fullmatch(address)
    return address if usable else ""


def _time(page: LexborHTMLParser) -> str:
    """Return the date of the only `<time>` that is marked as the publication's."""
    times = (node.attributes for node in islice(page.css("time"), _MOST_TAGS))
    marked = (time for time in times if "pubdate" in time or (time.get("itemprop") or "").lower() == "datepublished")
    return next(filter(None, (_date(time.get("datetime") or "") for time in marked)), "")


def _date(text: str) -> str:
    """Return a date in the form of ISO 8601; empty if it is another form or no date."""
    text = text.strip()[:40].replace("/", "-")
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(f"{text}-01"[:10]).isoformat()[: len(text)]
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return ""


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
    for bom, codec in BOMS.items():
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
