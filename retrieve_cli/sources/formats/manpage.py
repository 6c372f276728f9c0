"""Manual pages: roff with the macros man(7) or mdoc(7), as text with sections. No program of roff is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from unicodedata import normalize

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Kind, Layout
from retrieve_cli.errors import BadDocument, NotADocument
from retrieve_cli.sources.formats.block_text import BlockText
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import decoded


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of a page; its title is the name and section, its description the one of the section NAME.

    Raises:
        BadDocument: it is not a text, or has none.
    """
    text, notices = decoded(content)
    page = _Page()
    for line in text.splitlines():
        page.take(line)
    page.end()
    if not page.text.blocks:
        if page.source:
            raise NotADocument(f"it only refers to {page.source[:80]}")
        raise BadDocument("it has no text")
    called, _, description = page.called.partition(" - ")
    title = f"{called.partition(',')[0] or page.title}({page.section})" if page.section else called or page.title
    metadata = {key: value for key, value in (("title", title), ("description", description)) if value}
    return Parsed(page.text.text, layout=Layout(page.text.blocks), metadata=metadata, notices=notices)


_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_FONTS = {"B", "I", "SM", "SB", "BR", "RB", "IR", "RI", "BI", "IB"}
_BREAKS = {"PP", "P", "LP", "Pp", "sp", "br", "RS", "RE", "El", "D1", "Dl"}
_SKIPPED_TO = dict.fromkeys(("de", "de1", "am", "am1", "ig"), "..")
_BULLET = "•"
_INLINE = set(
    "Ad An Ar At Bx Bsx Cd Cm Dv Em Er Ev Fa Fd Fl Fn Ft Fx Ic In Lb Li Lk Ms Mt Nm No Ns Nx Op Aq Bq Brq Dq Pa Pf Pq Qq "
    "Ql Rs Sq St Sx Sy Tn Ux Va Vt Xr Ao Ac Bo Bc Do Dc Oo Oc Po Pc Qo Qc So Sc".split()
)
"""Macros of mdoc that have text."""
_AROUND = {
    **{"Op": "[]", "Aq": "<>", "Bq": "[]", "Brq": "{}", "Dq": "“”", "Pq": "()", "Qq": '""', "Ql": "‘’", "Sq": "‘’"},
    **{"Oo": "[", "Bo": "[", "Po": "(", "Do": "“", "Qo": '"', "So": "‘", "Ao": "<"},
}
_CLOSING = {"Oc": "]", "Bc": "]", "Pc": ")", "Dc": "”", "Qc": '"', "Sc": "’", "Ac": ">"}


class _Page:
    """The text of a page, line by line."""

    def __init__(self) -> None:
        self.text = BlockText()
        self.title = self.section = self.called = self.source = ""
        self._kind: Kind = "paragraph"
        self._lines: list[str] = []
        self._literal = False
        self._until = ""
        """Line that ends a stretch without text."""
        self._heading = 0
        """Level of the heading that the next line has."""
        self._item = False
        """True if the next line is the term of an item."""
        self._in_name = self._headed = False
        """Nothing before the first heading is text: definitions of macros."""

    def take(self, line: str) -> None:
        """Take a line of the source."""
        if self._until and not line.startswith((".SH", ".Sh")):
            self._until = "" if "".join(line.split()) == self._until else self._until
        elif line.startswith((".", "'")):
            name, _, rest = line[1:].lstrip().partition(" ")
            if not name.startswith('\\"'):
                arguments = [
                    quoted.replace('""', '"') or word for quoted, word in _ARGUMENT.findall(_uncommented(rest))
                ]
                self._macro(name.rstrip(), arguments)
        elif line.strip():
            self._words(_plain(_uncommented(line)))
        elif self._literal:
            self._lines.append("")
        else:
            self.end()

    def end(self) -> None:
        """End the block."""
        joined = ("\n" if self._literal else " ").join(self._lines).rstrip()
        words = joined.strip("\n") if self._literal else " ".join(joined.split())
        if words and self._in_name and not self.called:
            self.called = words.replace("—", "-").replace("–", "-")
        if words != _BULLET and self._headed:
            self.text.add(words, "code" if self._literal else self._kind)
        self._lines, self._kind = [], "paragraph"

    def _words(self, words: str) -> None:
        if self._heading:
            self._head(words)
            return
        self._lines.append(words)
        if self._item and words.strip():
            self._lines[-1] += ":"
            self._item = False

    def _head(self, words: str) -> None:
        self._headed = True
        self.text.add(" ".join(words.split()), "heading", level=self._heading)
        self._in_name = self._heading == 1 and words.strip().upper() == "NAME"
        self._heading = 0

    def _macro(self, name: str, arguments: Sequence[str]) -> None:
        plain = [_plain(argument) for argument in arguments]
        if name in ("TH", "Dt"):
            self.title, self.section = [part.strip() for part in (*plain, "", "")][:2]
        elif name in ("SH", "SS", "Sh", "Ss"):
            self._begin(literal=False)
            self._item, self._heading = False, 1 if name[1] in "Hh" else 2
            if plain:
                self._head(" ".join(plain))
        elif name in ("TP", "TQ", "IP", "HP", "It"):
            self.end()
            self._kind, self._item = "list", name in ("TP", "TQ")
            if name in ("IP", "It") and plain:
                term = " ".join(_mdoc(plain)) if name == "It" else plain[0].strip()
                self._words(term if term == _BULLET else term + ":")
        elif name in ("nf", "EX", "Bd", "TS"):
            self._begin(literal=name != "Bd" or any(word in ("-literal", "-unfilled") for word in plain))
        elif name in ("fi", "EE", "Ed", "TE"):
            self._begin(literal=False)
        elif name in _FONTS:
            self._words(("" if len(name) == 2 and name[0] != "S" else " ").join(plain))
        elif name == "Nd":
            self._words(f"- {' '.join(plain)}")
        elif name in ("UR", "MT", "URL"):
            self._words(" ".join(plain[:1]))
        elif name in _INLINE or name in _CLOSING:
            if name == "Nm" and not any(word[0].isalnum() for word in plain if word):
                plain.insert(0, self.called.partition(" ")[0])
            self._words(" ".join(_mdoc([name, *plain])))
        elif name in _BREAKS:
            if not self._literal:
                self.end()
            if name in ("D1", "Dl"):
                self._words(" ".join(_mdoc(plain)))
        elif name == "so":
            self.source = " ".join(plain)
        self._until = _SKIPPED_TO.get(name, "")

    def _begin(self, *, literal: bool) -> None:
        self.end()
        self._literal = literal


def _mdoc(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a line of mdoc, with its marks in place of macros."""
    before, after, glued = "", [], False
    given: list[str] = []
    for at, word in enumerate(words):
        if word in _CLOSING:
            given[-1:] = [(given[-1] if given else "") + _CLOSING[word]]
        elif word in _AROUND:
            before += _AROUND[word][0]
            after.append(_AROUND[word][1:])
        elif word == "Fl":
            before += "-"
        elif word in _INLINE:
            glued = glued or word in ("Ns", "Pf")
        elif word in (".", ",", ";", ":", ")", "]", "?", "!") and given:
            given[-1] += word
        elif at >= 2 and words[at - 2] == "Xr" and given:
            given[-1] += f"({word})"
        else:
            given[-1:] = [given[-1] + before + word] if glued and given else [*given[-1:], before + word]
            before, glued = "", False
    if before:
        given.append(before)
    given[-1:] = [(given[-1] if given else "") + "".join(reversed(after))]
    yield from given


_ESCAPE = re.compile(
    r"\\(?:\[(?P<long>[^\]]{0,30})\]|\((?P<two>..)|\*(?:\[(?P<string>[^\]]{0,30})\]|\((?P<defined>..)|.)"
    r"|[fFgkmMnVY](?:\[[^\]]{0,30}\]|\(..|[+-]?.)|s(?:\[[^\]]{0,9}\]|\(..|[+-]?\d{1,2}|'[^']{0,9}')"
    r"|[ABCDhHlLNopRSvwxXZ]'(?P<drawn>[^']{0,80})'|(?P<one>.))"
)
_COMMENT = re.compile(r'(?<!\\)(?:\\\\)*\\["#].*')
_ONE = {"-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "'": "'", "`": "`", ".": ".", "t": "\t"}
_LONG = {
    **{"em": "—", "en": "–", "hy": "-", "bu": "•", "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’"},
    **{"co": "©", "rg": "®", "tm": "™", "mu": "×", "ga": "`", "ha": "^", "ti": "~", "rs": "\\", "ba": "|", "at": "@"},
    **{"sh": "#", "Do": "$", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "<", "ra": ">", "->": "→", "<-": "←"},
    **{">=": "≥", "<=": "≤", "!=": "≠", "+-": "±", "de": "°", "sc": "§", "ss": "ß", "eu": "€", "Tm": "™", "R": "®"},
    **{"ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "/o": "ø", "/O": "Ø", "oA": "Å", "oa": "å", "--": "—"},
}
_ACCENTS = {"'": "\u0301", "`": "\u0300", ":": "\u0308", "^": "\u0302", "~": "\u0303", ",": "\u0327"}
_HIGHEST = 0x10FFFF


def _uncommented(line: str) -> str:
    return _COMMENT.sub("", line) if '\\"' in line or "\\#" in line else line


def _plain(text: str) -> str:
    """Return a text with characters in place of escapes."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    name = match["long"] or match["two"] or match["string"] or match["defined"]
    if name is None:
        return _ONE.get(match["one"] or "", "")
    if name in _LONG:
        return _LONG[name]
    if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
        return normalize("NFC", name[1] + _ACCENTS[name[0]])
    code = re.fullmatch(r"u([0-9A-F]{4,6})", name)
    if code and int(code[1], 16) <= _HIGHEST and not 0xD800 <= int(code[1], 16) < 0xE000:
        return chr(int(code[1], 16))
    return ""
