"""Structure of Markdown and plain text by CommonMark 0.31 with the tables of GFM, without recursion or quadratic time.

Only the blocks are parsed; the words of a heading are read one by one. HTML, shortcodes and inline marks are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from typing import TYPE_CHECKING

from retrieve_cli.contracts.layout import Block, Kind, Layout

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_KINDS: dict[str, Kind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "table_open": "table",
    "fence": "code",
    "code_block": "paragraph",
    "blockquote_open": "quote",
    "html_block": "paragraph",
}
"""Kinds of blocks by the tokens that begin them; a rule (`hr`) has no text. Indented text may be code as well as prose,
which people indent by habit."""
_SETEXT_LINES = 3
"""Most lines of an underlined heading; more lines are a paragraph above a rule."""
_LONGEST = 800
"""Characters of a heading that are read, and of a line in bold that acts as one."""
_BOLD_LEVEL = 8
"""Below all headings with marks, and below lines that are listed titles (7)."""
_ATTRIBUTES = re.compile(r"\{([#.:][^{}]*)\}$")
_BOLD_LINE = re.compile(r"[ ]{0,3}(\*\*|__)(?=[^\s*_])([^*\n]{1,200})(?<=[^\s*_])\1[ \t]*\n?")
_NO_HEADING = ".,;:!?。，；：！？"
"""Marks that end a sentence or introduce the next text."""
_CAPTION = re.compile(
    r"[ \t>]{0,9}[*_]{0,3}fig(?:ure|\.)?[ \t]{0,3}[a-z]?\d{1,4}(?:\.\d{1,3})?[a-z]?"
    r"[*_]{0,3}[ \t]{0,3}(?:[.:|)*_—–-]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_FIGURE = re.compile(r"[ ]{0,3}<(?:img|figure)\b", re.IGNORECASE)
_HTML_TITLE = re.compile(r"<h1\b[^<>]{0,1000}>(.{1,1000}?)</h1", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,1000}>")


def structure(text: str, start: int = 0) -> tuple[Layout, str]:
    """Return the blocks of `text[start:]`, and the words of its first heading or `<h1>`.

    Every character is in a block but for white space, rules, and marks without letters and digits.
    """
    source = text[start:] if start else text
    starts = [start, *(start + match.end() for match in re.finditer(r"\r\n?|\n", source))]
    starts.append(len(text))
    blocks: list[Block] = []
    title = ""
    for token in _parser().parse(source):
        kind = _KINDS.get(token.type)
        if token.level or token.map is None or kind is None:
            continue
        block = _block(token, kind, text, starts[token.map[0]], starts[token.map[1]])
        blocks += [*_gaps(text, blocks[-1].end if blocks else start, block.start), block]
        if not title and block.kind == "heading":
            title = block.title
        elif not title and token.type == "html_block":
            title = _html_title(text[block.start : block.end])
    blocks += _gaps(text, blocks[-1].end if blocks else start, len(text))
    return Layout(blocks), title


@cache
def _parser() -> MarkdownIt:
    """Return the parser of blocks."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    return parser.disable(["inline", "text_join"])


def _block(token: Token, kind: Kind, text: str, start: int, end: int) -> Block:
    """Return the block of a token, without the blank lines after it."""
    words = text[start:end]
    end = start + len(words.rstrip())
    if kind == "heading":
        lines = words.count("\n")
        if token.markup in "=-" and lines > _SETEXT_LINES:
            return Block(start, end, "paragraph")
        title, anchor = heading_words(_content(words.rstrip(), token.markup))
        return Block(start, end, kind, int(token.tag[1:]), anchor, title)
    if kind == "paragraph" and token.type == "paragraph_open" and (bold := bold_heading(words)):
        title, anchor = heading_words(bold)
        return Block(start, end, "heading", _BOLD_LEVEL, anchor, title)
    if token.type == "html_block" and words.lstrip()[:4].lower() == "<pre":
        kind = "code"
    elif kind == "paragraph" and (words.startswith("![") or is_caption(words) or _FIGURE.match(words)):
        kind = "caption"
    return Block(start, end, kind)


def _content(heading: str, markup: str) -> str:
    """Return a heading without its line of `=` or `-`, or the marks around it."""
    if markup in "=-":
        return heading.rpartition("\n")[0]
    words = heading.strip().lstrip("#").strip()
    bare = words.rstrip("#")
    return bare.rstrip() if bare != words and (not bare or bare[-1].isspace()) else words


def _gaps(text: str, start: int, end: int) -> list[Block]:
    """Return a paragraph of what the parser takes for no block: definitions of references."""
    gap = text[start:end]
    if not any(map(str.isalnum, gap)):
        return []
    return [Block(start + len(gap) - len(gap.lstrip()), start + len(gap.rstrip()), "paragraph")]


def heading_words(heading: str) -> tuple[str, str]:
    """Return the words of a heading without marks, pictures, comments and the addresses of links, and its anchor."""
    heading = heading[:_LONGEST]
    anchor = ""
    attributes = _ATTRIBUTES.search(heading.rstrip())
    if attributes is not None:
        heading = heading[: attributes.start()]
        names = [name[1:] for name in attributes[1].split() if name.startswith("#")]
        anchor = names[0] if names else ""
    words = "".join(_words(_inline().parseInline(heading)))
    return " ".join(words.split()) or " ".join(heading.split()), anchor


@cache
def _inline() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the texts of inline tokens."""
    for token in tokens:
        if token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type == "inline":
            yield from _words(token.children or ())


def bold_heading(line: str) -> str | None:
    """Return the words of a line that is bold throughout and neither a sentence nor a caption; None for other lines.

    Follows markdownlint's rule MD036 on emphasis used instead of a heading.
    """
    match = _BOLD_LINE.fullmatch(line)
    if match is None or match[2][-1] in _NO_HEADING or is_caption(line) or not any(map(str.isalpha, match[2])):
        return None
    return match[2]


def is_caption(text: str) -> bool:
    """Return True for a text that begins like the caption of a figure: `Figure 3. …`, `Fig. 2: …`."""
    return _CAPTION.match(text) is not None


def _html_title(block: str) -> str:
    """Return the words of the first `<h1>` in a block of HTML; empty if it has none."""
    match = _HTML_TITLE.search(block)
    return " ".join(unescape(_TAG.sub(" ", match[1])).split()) if match else ""
