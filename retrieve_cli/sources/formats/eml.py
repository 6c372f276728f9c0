"""Mail (RFC 5322 and MIME): headers, text, names of attachments, and the messages in it as sections below.

Headers are read by the tolerant functions of the standard library: a broken one stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message as Mail
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Dropped, Layout
from retrieve_cli.errors import BadDocument, NotADocument
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.composed import joined, piece
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import codec_of, html_document
from retrieve_cli.untrusted.texts import user_text

_LONGEST = 10_000
"""Characters of a header that are read."""
_READ = ("text/plain", "text/html", "multipart/")
_GAP = re.compile(r"\n(?:[ \t]*+\n)++")
_HEADERS = ("Message-ID", "In-Reply-To", "List-Id")
"""Headers that are kept as metadata, unless they are empty."""


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return a message.

    Raises:
        BadDocument: it has no headers, or is nested too deeply.
    """
    try:
        mail = message_from_bytes(content)
        made = joined(_parts(mail, 1))
    except RecursionError as error:
        raise BadDocument("its parts are nested too deeply") from error
    if not mail.keys():
        raise BadDocument("it is not a mail: it does not begin with headers")
    metadata: dict[str, Json] = {"title": _header(mail, "Subject"), "date": _date(mail)}
    metadata |= {"from": ", ".join(_people(mail, "From")), "to": [*_people(mail, "To")], "cc": [*_people(mail, "Cc")]}
    metadata |= {name.lower().replace("-", "_"): _header(mail, name).strip("<>") for name in _HEADERS}
    return replace(made, metadata={key: value for key, value in metadata.items() if value})


def _parts(mail: Mail, level: int) -> Iterator[Parsed]:
    """Yield the subject, people and date, texts, attachments and inner messages of a message."""
    subject = _header(mail, "Subject")
    people = {name: ", ".join(_people(mail, name)) for name in ("From", "To", "Cc")} | {"Date": _date(mail)}
    texts: list[Parsed] = []
    attached: list[str] = []
    inner: list[Mail] = []
    for part in _leaves(mail):
        kind, payload = part.get_content_type(), part.get_payload()
        if kind == "message/rfc822" and isinstance(payload, list):
            inner += payload
        elif part.get_content_disposition() == "attachment" or not kind.startswith(_READ):
            attached.append(f"{_words(part.get_filename() or '') or 'without a name'} ({kind})")
        elif kind == "text/html":
            texts.append(_html(_text(part), level))
        else:
            texts += [piece(text.strip("\n").rstrip()) for text in _GAP.split(_text(part))]
    body = joined(texts)
    if subject != body.title:  # HTML may repeat it
        yield piece(subject, "heading", level=min(6, level))
    yield piece("\n".join(f"{name}: {words}" for name, words in people.items() if words))
    yield body
    names = "\n".join(["Attachments:", *(f"- {name}" for name in attached)]) if attached else ""
    yield replace(piece(names, "list"), dropped=tuple(Dropped("attachment", name) for name in attached))
    for message in inner:
        yield from _parts(message, level + 1)


def _leaves(part: Any) -> list[Any]:
    """Return the parts that have no parts themselves; of alternatives, no HTML if there is text."""
    if part.get_content_maintype() != "multipart" or not part.is_multipart():
        return [part]
    leaves = [leaf for child in part.get_payload() for leaf in _leaves(child)]
    if part.get_content_subtype() != "alternative":
        return leaves
    text = any(leaf.get_content_type() == "text/plain" and _text(leaf).strip() for leaf in leaves)
    return [leaf for leaf in leaves if leaf.get_content_type() != ("text/html" if text else "text/plain")]


def _html(html: str, level: int) -> Parsed:
    """Return the text of HTML, with its headings below the one of the message."""
    try:
        made = html_document(html, main_content=False)
    except NotADocument:
        return replace(piece(""), dropped=(Dropped("HTML part", "without text"),))
    blocks = made.layout.blocks if made.layout else ()
    levels = (min(6, block.level + level) if block.kind == "heading" else 0 for block in blocks)
    return replace(made, layout=Layout([block._replace(level=new) for block, new in zip(blocks, levels, strict=True)]))


def _text(part: Mail) -> str:
    """Return the text of a part in its charset, or in the likely one if it names none."""
    content: Any = part.get_payload(decode=True) or b""
    codec = codec_of(part.get_content_charset(""))
    text = content.decode(codec, "replace") if codec else (user_text(content) or (content.decode("latin-1"),))[0]
    return str(text).replace("\r\n", "\n")


def _words(value: str) -> str:
    """Return a header's value on one line, with the words that are encoded in it."""
    text = " ".join(value.encode("utf-8", "surrogateescape").decode("utf-8", "replace").split())
    try:
        return " ".join(str(make_header(decode_header(text))).split())
    except (MessageError, LookupError, ValueError):
        return text


def _values(mail: Mail, name: str) -> list[str]:
    """Return the values of a header, undecoded."""
    return [str(value)[:_LONGEST] for key, value in mail.raw_items() if key.lower() == name.lower()]


def _header(mail: Mail, name: str) -> str:
    return _words("".join(_values(mail, name)[:1]))


def _people(mail: Mail, name: str) -> list[str]:
    """Return the names and addresses in a header; a broken one is a single name."""
    values = _values(mail, name)
    people = [(_words(person), _words(address)) for person, address in getaddresses(values) if person or address]
    return [f"{person} <{address}>" if person else address for person, address in people] or [*map(_words, values)]


def _date(mail: Mail) -> str:
    """Return the date in ISO 8601, or the words of the header if they are not a date."""
    date = _header(mail, "Date")
    try:
        return parsedate_to_datetime(date).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return date
