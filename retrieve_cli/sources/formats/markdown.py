"""Markdown and plain text, in which three things change.

Lines of front matter are blank, pictures in base64 are cut, and other encodings and line ends are read by the one
decoder. Lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from posixpath import normpath
from urllib.parse import unquote

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Block, Dropped, Layout
from retrieve_cli.errors import BadDocument
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.untrusted.front_matter import front_matter
from retrieve_cli.untrusted.markdown_text import structure
from retrieve_cli.untrusted.texts import label_of, user_text

_DATA = re.compile(r"data:[\w.+-]{1,100}/[\w.+-]{1,100};base64,(?:[A-Za-z0-9+/=]{40,}+(?:\n(?=[A-Za-z0-9+/=]{40}))?)++")
"""A picture, or other data, within the text; base64 may be broken into lines."""


_NOTES = (".md", ".markdown")
_INLINE_CODE = re.compile(r"`[^`\n]{1,300}`")
_TAG = re.compile(r"(?<![^\s(])#(?=[\w/-]{0,100}[^\W\d_])([\w/-]{1,100})")
_WIKI = re.compile(r"\[\[([^\[\]|#^\n]{1,200})(?:[#^][^\[\]|\n]{0,200})?(?:\|[^\[\]\n]{0,200})?\]\]")
_RELATIVE = re.compile(
    r"\]\(<?([^()<>\s:#?]{1,300}\.(?:md|markdown|txt|rst|html?|pdf|docx|ipynb))(?:#[^()\s]{0,200})?[>)\s]",
    re.IGNORECASE,
)
_MOST_LINKS = 1000


def parse(
    content: bytes,
    *,
    name: str,
    limits: ParsingLimits,  # noqa: ARG001
    on_page: Callable[[int], None],  # noqa: ARG001
) -> Parsed:
    """Return the text of a file with its structure, its metadata, and its first heading as the title.

    Raises:
        BadDocument: it is not a text.
    """
    text, notices = decoded(content)
    parsed = markdown_document(text, notices=notices)
    layout = Layout(parsed.layout.blocks if parsed.layout else (), in_lines=True)
    metadata = dict(parsed.metadata)
    if name.lower().endswith(_NOTES):
        metadata |= _of_note(parsed.text, layout, metadata, folder=name.rpartition("/")[0])
    return replace(parsed, layout=layout, metadata=metadata)


def decoded(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, with a notice if it is not in UTF-8.

    Raises:
        BadDocument: it is not a text.
    """
    found = user_text(content)
    if found is None:
        raise BadDocument("it is not a text: it has bytes that no encoding of texts has")
    text, encoding = found
    return text, () if encoding.startswith("utf-8") else (f"read as {label_of(encoding)}, not UTF-8",)


def markdown_document(
    text: str, *, metadata: Mapping[str, Json] | None = None, title: str = "", notices: Sequence[str] = ()
) -> Parsed:
    """Return a Markdown text as a document. `metadata` and `title` of a file that was converted to Markdown take the
    place of front matter and first heading; `text` has "\\n" as its line ends."""
    text, dropped = _without_data(text)
    invalid: list[Block] = []
    if metadata is None:
        metadata, start, end, complaint = front_matter(text)
        notices = (*notices, complaint) if complaint else notices
        if complaint and end:
            invalid = [Block(start, end, "paragraph")]
        else:
            text = text[:start] + "\n" * text.count("\n", start, end) + text[end:]
    layout, first = structure(text, invalid[0].end if invalid else 0)
    blocks = Layout([*invalid, *layout.blocks])
    return Parsed(text, blocks, metadata, title or first, notices=tuple(notices), dropped=dropped)


def _of_note(text: str, layout: Layout, metadata: Mapping[str, Json], *, folder: str) -> dict[str, Json]:
    """Return the tags and links in the text of a note, beside its metadata: `#tag`, `[[Page]]`, and paths
    relative to its folder, which become paths from the top."""
    tags, links = list[str](), list[str]()
    for block in layout.blocks:
        if block.kind == "code":
            continue
        words = _INLINE_CODE.sub(" ", text[block.start : block.end])
        tags += _TAG.findall(words) if "#" in words else []
        links += [name.strip() for name in _WIKI.findall(words)] if "[[" in words else []
        links += [_from_top(path, folder) for path in _RELATIVE.findall(words)] if "](" in words else []
    found = {"tags": tags, "links_to": [link for link in links if link]}
    known = {key: metadata.get(key) for key in found}
    return {
        key: list(dict.fromkeys([*_listed(known[key]), *values]))[:_MOST_LINKS]
        for key, values in found.items()
        if values
    }


def _listed(value: Json) -> list[Json]:
    if isinstance(value, list):
        return [part for part in value if isinstance(part, str)]
    return [value] if isinstance(value, str) else []


def _from_top(path: str, folder: str) -> str:
    """Return a path in a folder from the top; empty if it leads out."""
    joined = normpath(f"{'' if path.startswith('/') else folder}/{unquote(path)}".lstrip("/"))
    return "" if joined.startswith("..") else joined


def _without_data(text: str) -> tuple[str, tuple[Dropped, ...]]:
    """Return the text without the data of its pictures, and these pictures; lines keep their numbers."""
    if ";base64," not in text:
        return text, ()
    dropped: list[Dropped] = []

    def cut(match: re.Match[str]) -> str:
        kind = match[0].partition(";")[0]
        dropped.append(Dropped("base64 picture", f"{kind}, {len(match[0]):,} characters"))
        return f"{kind};base64,…" + "\n" * match[0].count("\n")

    return _DATA.sub(cut, text), tuple(dropped)
