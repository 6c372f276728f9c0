"""Manual pages: roff with the macros man(7) or mdoc(7), as text with sections. No program of roff is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from unicodedata import normalize

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Kind, Layout
from retrieve_cli.errors import BadDocument, NotADocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import BlockText, decoded


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
_BULLET = "•"
_INLINE = set(
    "Ad An Ar At Cd Cm Dv Em Er Ev Fa Fd Fl Fn Ft Ic In Lb Li Lk Ms Mt Nm No Ns Op Aq Bq Dq Pa Pf Pq Qq Ql St Sx Sy Tn "
    "Va Vt Xr Ao Ac Bo Bc Do Dc Oo Oc Po Pc Qo Qc So Sc Sq".split()
)
"""Macros of mdoc that have text."""
_AROUND = {pair[:2]: pair[2:] for pair in 'Op[] Aq<> Bq[] Dq“” Pq() Qq"" Ql‘’ Sq‘’ Oo[ Bo[ Po( Do“ Qo" So‘ Ao<'.split()}
_CLOSING = {"Oc": "]", "Bc": "]", "Pc": ")", "Dc": "”", "Qc": '"', "Sc": "’", "Ac": ">"}


class _Page:
    """The text of a page, line by line. Nothing before the first heading is text: macros are defined there."""

    def __init__(self) -> None:
        self.text = BlockText()
        self.title = self.section = self.called = self.source = ""
        self._kind: Kind = "paragraph"
        self._lines: list[str] = []
        self._literal = self._skipping = self._item = self._in_name = self._headed = False
        """Within literal lines, in the definition of a macro, before the term of an item, and so on."""
        self._heading = 0
        """Level of the heading that the next line has."""

    def take(self, line: str) -> None:
        """Take a line of the source."""
        if self._skipping and not line.startswith((".SH", ".Sh")):
            self._skipping = "".join(line.split()) != ".."
        elif line.startswith((".", "'")):
            name, _, rest = line[1:].lstrip().partition(" ")
            arguments = [quoted.replace('""', '"') or word for quoted, word in _ARGUMENT.findall(_uncommented(rest))]
            name = name.rstrip()
            self._skipping = name in ("de", "de1", "am", "am1", "ig")
            _MACROS.get(name, _Page.other)(self, name, list(map(_plain, arguments)))
        elif line.strip():
            self._words(_plain(_uncommented(line)))
        elif self._literal:
            self._lines.append("")
        else:
            self.end()

    def end(self) -> None:
        """End the block."""
        words = "\n".join(self._lines).strip("\n").rstrip()
        words = words if self._literal else " ".join(words.split())
        if words and self._in_name and not self.called:
            self.called = words.replace("—", "-").replace("–", "-")
        if words != _BULLET and self._headed:
            self.text.add(words, "code" if self._literal else self._kind)
        self._lines, self._kind = [], "paragraph"

    def _words(self, words: str) -> None:
        if self._heading:
            self.text.add(" ".join(words.split()), "heading", level=self._heading)
            self._in_name = self._heading == 1 and words.strip().upper() == "NAME"
            self._headed, self._heading = True, 0
        else:
            self._lines.append(words + ":" * self._item)
            self._item = False

    def identify(self, _: str, words: list[str]) -> None:
        self.title, self.section = [part.strip() for part in (*words, "", "")][:2]

    def head(self, name: str, words: list[str]) -> None:
        self.lay("", [])
        self._item, self._heading = False, 1 if name[1] in "Hh" else 2
        if words:
            self._words(" ".join(words))

    def begin_item(self, name: str, words: list[str]) -> None:
        self.end()
        self._kind, self._item = "list", name in ("TP", "TQ")
        if words and not self._item:
            term = " ".join(_mdoc(words)) if name == "It" else words[0].strip()
            self._words(term if term == _BULLET else term + ":")

    def lay(self, name: str, words: list[str]) -> None:
        self.end()
        self._literal = name in ("nf", "EX", "TS") or bool({"-literal", "-unfilled"}.intersection(words))

    def part(self, name: str, words: list[str]) -> None:
        if not self._literal:
            self.end()
        if name in ("D1", "Dl"):
            self._words(" ".join(_mdoc(words)))

    def fonts(self, name: str, words: list[str]) -> None:
        self._words(("" if len(name) == 2 and name[0] != "S" else " ").join(words))

    def other(self, name: str, words: list[str]) -> None:
        if name == "so":
            self.source = " ".join(words)
        elif name == "Nd":
            self._words(f"- {' '.join(words)}")
        elif name in ("UR", "MT", "URL"):
            self._words(" ".join(words[:1]))
        elif name in _INLINE:
            if name == "Nm" and not any(word[:1].isalnum() for word in words):
                words.insert(0, self.called.partition(" ")[0])
            self._words(" ".join(_mdoc([name, *words])))


_MACROS: Mapping[str, Callable[[_Page, str, list[str]], None]] = {
    **dict.fromkeys(("TH", "Dt"), _Page.identify),
    **dict.fromkeys(("SH", "SS", "Sh", "Ss"), _Page.head),
    **dict.fromkeys(("TP", "TQ", "IP", "HP", "It"), _Page.begin_item),
    **dict.fromkeys(("nf", "fi", "EX", "EE", "TS", "TE", "Bd", "Ed"), _Page.lay),
    **dict.fromkeys(("PP", "P", "LP", "Pp", "sp", "br", "RS", "RE", "El", "D1", "Dl"), _Page.part),
    **dict.fromkeys(("B", "I", "SM", "SB", "BR", "RB", "IR", "RI", "BI", "IB"), _Page.fonts),
}


def _mdoc(words: Sequence[str]) -> list[str]:
    """Return the words of a line of mdoc, with its marks in place of macros."""
    given: list[str] = [""]
    before, after, glued = "", "", False
    for at, word in enumerate(words):
        if word in _CLOSING:
            given[-1] += _CLOSING[word]
        elif word in _AROUND:
            before, after = before + _AROUND[word][0], _AROUND[word][1:] + after
        elif word in _INLINE:
            before, glued = before + "-" * (word == "Fl"), glued or word in ("Ns", "Pf")
        elif word in set(".,;:)]?!"):
            given[-1] += after + word if at == len(words) - 1 else word
            after = "" if at == len(words) - 1 else after
        elif at >= 2 and words[at - 2] == "Xr":
            given[-1] += f"({word})"
        else:
            given.append(given.pop() + before + word if glued else before + word)
            before, glued = "", False
    given[-1] += before + after
    return [word for word in given if word]


_ESCAPE = re.compile(
    r"\\(?:\[(?P<long>[^\]]{0,30})\]|\((?P<two>..)|\*(?:\[(?P<string>[^\]]{0,30})\]|\((?P<defined>..)|.)"
    r"|[fFgkmMnVY](?:\[[^\]]{0,30}\]|\(..|[+-]?.)|s(?:\[[^\]]{0,9}\]|\(..|[+-]?\d{1,2}|'[^']{0,9}')"
    r"|[ABCDhHlLNopRSvwxXZ]'(?P<drawn>[^']{0,80})'|(?P<one>.))"
)
_COMMENT = re.compile(r'(?<!\\)(?:\\\\)*\\["#].*')
_ONE = {"-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "'": "'", "`": "`", ".": ".", "t": "\t"}
_LONG = {
    pair[:2]: pair[2:]
    for pair in (
        "em— en– hy- bu• aq' dq\" lq“ rq” oq‘ cq’ co© rg® tm™ mu× ga` ha^ ti~ rs\\ ba| at@ sh# Do$ lB[ rB] lC{ rC} la< "
        "ra> ->→ <-← >=≥ <=≤ !=≠ +-± de° sc§ ssß eu€ Tm™ aeæ AEÆ oeœ OEŒ /oø /OØ oaå oAÅ --—"
    ).split()
}
"""Characters by their names."""
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
