"""Manual pages, man(7) and mdoc(7), as text with sections. No program of roff is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from unicodedata import normalize

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument, NotADocument
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.composed import joined, piece
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import decoded

_HEADS = {"SH": 1, "Sh": 1, "SS": 2, "Ss": 2}
_CODE, _ENDS = frozenset("nf EX TS Vb Bd".split()), frozenset("fi EE TE Ve Ed SH Sh SS Ss".split())
_PARTS = frozenset("br sp P PP LP Pp Sp RS RE El INDENT UNINDENT".split())
_BREAKS = _CODE | _ENDS | _PARTS | frozenset("TP TQ IP HP It".split())
_SILENT = (_BREAKS - _HEADS.keys() - {"IP", "It"}) | frozenset(
    "TH Dt UC AT DT Dd Os PD IX Bl Bk Ek Sm UE ME YS".split()
)
"""Macros without text; requests of roff have none either, and their names begin with a small letter."""
_INLINE = frozenset(
    "Ad An Ao Aq Ar At Bo Bq Bc Cd Cm Dq Dv Em Er Ev Fa Fd Fl Fn Ft Ic In Li Lk Ms Mt Nm No Ns Oc Oo Op Pa Pc Pf Po"
    " Pq Ql Qq Sq St Sx Sy Tn Va Vt Xc Xo Xr".split()
)
"""Macros of mdoc within a line."""
_WORD = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_SOURCE = re.compile(r"^\.so +(\S{1,80})", re.MULTILINE)


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of a page; its title is the name and section, its description the one of the section NAME.

    Raises:
        BadDocument: it is not a text, or has none.
    """
    text, notices = decoded(content)
    page = _Page()
    for line in text.splitlines():
        page.take(_COMMENT.sub("", line) if "\\" in line else line)
    page.end()
    source = _SOURCE.search(text)
    if not page.parts:
        raise NotADocument(f"it only refers to {source[1]}") if source else BadDocument("it has no text")
    if source:
        notices += (f"the text of {source[1]}, which it includes, is not read",)
    names, _, description = page.names.partition(" - ")
    title = names.partition(",")[0] or page.title
    metadata = {"title": f"{title}({page.section})" if page.section else title, "description": description}
    metadata = {key: value for key, value in metadata.items() if value}
    return replace(joined(page.parts), metadata=metadata, notices=notices)


class _Page:
    """The text of a page, line by line. Nothing before the first heading is text: macros are defined there."""

    def __init__(self) -> None:
        self.parts: list[Parsed] = []
        self.title = self.section = self.names = ""
        """Words of the header, and the text of the section NAME."""
        self._lines: list[str] = []
        self._code = self._defining = False
        self._level = 0
        """Level of the heading whose words are next."""

    def take(self, line: str) -> None:
        """Take a line of the source."""
        if self._defining and line[1:3] not in _HEADS:
            self._defining = line.replace(" ", "") != ".."
        elif line.startswith((".", "'")):
            name, _, rest = line[1:].strip().partition(" ")
            self._defining = name in ("de", "de1", "am", "am1", "ig")
            words = [quoted.replace('""', '"') or word for quoted, word in _WORD.findall(rest)]
            self._macro(name, [_ESCAPE.sub(_character, word) for word in words])
        elif line.strip() or self._code:
            self._words(_ESCAPE.sub(_character, line))
        else:
            self.end()

    def end(self) -> None:
        """End the block."""
        text = "\n".join(self._lines).strip("\n").rstrip()
        text = text if self._code else " ".join(text.split())
        if self.parts and text.strip():
            if len(self.parts) == 1 and self.parts[0].text.upper() == "NAME":
                self.names = text.replace("—", "-").replace("–", "-")
            self.parts.append(piece(text, "code" if self._code else "paragraph"))
        self._lines = []

    def _words(self, text: str) -> None:
        if self._level and text.strip():
            self.parts.append(piece(" ".join(text.split()), "heading", level=self._level))
            self._level = 0
        else:
            self._lines.append(text)

    def _macro(self, name: str, words: Sequence[str]) -> None:
        if name in _BREAKS and not (self._code and name in _PARTS):
            self.end()
            self._code = (self._code or name in _CODE) and name not in _ENDS
        self._level = _HEADS.get(name, self._level)
        if name in ("TH", "Dt"):
            self.title, self.section = [word.strip() for word in (*words, "", "")][:2]
        elif name in _INLINE or name in ("It", "Nd"):
            if name == "Nm" and not "".join(words).strip(".,"):
                words = [self.names.partition(" ")[0], *words]
            self._words("- " * (name == "Nd") + _mdoc([name, *words]))
        elif name not in _SILENT and not name[:1].islower():
            fonts = len(name) == 2 and set(name) <= set("BIR")
            self._words(("" if fonts else " ").join(words[:1] if name == "IP" else words))


def _mdoc(words: Sequence[str]) -> str:
    """Return a line of mdoc without its macros; options have their dash, references their parentheses."""
    line = re.sub(r"\bXr (\S++) (\d\w*+)", r"\1(\2)", " ".join(words))
    line = line.replace("Fl Ns ", "-").replace("Fl ", "-")
    text = " ".join(word for word in line.split() if word == "Ns" or word not in _INLINE).replace(" Ns ", "")
    return re.sub(r" (?=[.,;:)?!](?: |$))", "", text.removeprefix("It ").removeprefix("Nd "))


_ESCAPE = re.compile(
    r"\\(?:\[(?P<long>[^\]]{0,30})\]|\((?P<two>..)|\*(?:\[[^\]]{0,30}\]|\((?P<defined>..)|.)"
    r"|[fFgkmMnVY](?:\[[^\]]{0,30}\]|\(..|[+-]?.)|s(?:\[[^\]]{0,9}\]|\(..|[+-]?\d{1,2}|'[^']{0,9}')"
    r"|[ABCDhHlLNopRSvwxXZ]'[^']{0,80}'|(?P<one>.))"
)
_COMMENT = re.compile(r'(?<!\\)(?:\\\\)*\\["#].*')
_CHARACTERS = (
    "em— en– hy- bu• aq' dq\" lq“ rq” oq‘ cq’ co© rg® tm™ mu× ga` ha^ ti~ rs\\ ba| at@ sh# Do$ lB[ rB] lC{ rC} la< "
    "ra> ->→ <-← >=≥ <=≤ !=≠ +-± de° sc§ ssß eu€ aeæ AEÆ oeœ OEŒ /oø /OØ oaå oAÅ --—"
)
_NAMED = {pair[:2]: pair[2:] for pair in _CHARACTERS.split()} | {char: char for char in "- \\'`."}
_NAMED |= {"e": "\\", "0": " ", "~": " ", "t": "\t"}
_ACCENTS = {"'": "\u0301", "`": "\u0300", ":": "\u0308", "^": "\u0302", "~": "\u0303", ",": "\u0327"}


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape; nothing for fonts, sizes and unknown names."""
    name = match["long"] or match["two"] or match["defined"] or match["one"] or ""
    if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
        return normalize("NFC", name[1] + _ACCENTS[name[0]])
    code = re.fullmatch(r"u(?!D[89A-F])([0-9A-F]{4})", name)
    return chr(int(code[1], 16)) if code else _NAMED.get(name, "")
