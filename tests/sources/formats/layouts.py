"""Of a document that was parsed, its layout, and the texts of its blocks."""

from importlib import import_module

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Layout
from retrieve_cli.sources.formats.formats import FORMATS, ParsingLimits


def read(kind: str, content: bytes, limits: ParsingLimits = ParsingLimits()) -> Parsed:
    """Return a document of a format, parsed in this process."""
    made: Parsed = import_module(FORMATS[kind].module).parse(
        content, name=f"a b{FORMATS[kind].suffixes[0]}", limits=limits, on_page=lambda page: None
    )
    return made


def layout_of(parsed: Parsed) -> Layout:
    """Return the layout, which must be there."""
    assert parsed.layout is not None
    return parsed.layout


def levelled(parsed: Parsed) -> list[tuple[str, int, str]]:
    """Return the kind, the level and the text of each block."""
    return [(each.kind, each.level, parsed.text[each.start : each.end]) for each in layout_of(parsed).blocks]


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    """Return the kind and the text of each block."""
    return [(kind, text) for kind, _, text in levelled(parsed)]


def headings(parsed: Parsed) -> list[tuple[int, str]]:
    """Return the level and the text of each heading."""
    return [(level, text) for kind, level, text in levelled(parsed) if kind == "heading"]
