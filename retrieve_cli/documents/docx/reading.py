"""Word documents: bytes -> text with headings, lists, tables, notes and, as far as the file has them, pages."""

from __future__ import annotations

from collections.abc import Callable

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.documents.docx.body import Document, Story
from retrieve_cli.documents.docx.markup import Node, children, read
from retrieve_cli.documents.docx.notes import Notes
from retrieve_cli.documents.docx.numbering import Numbering
from retrieve_cli.documents.docx.package import Package
from retrieve_cli.documents.docx.pages import pages_of
from retrieve_cli.documents.docx.styles import Styles
from retrieve_cli.documents.limits import Limits
from retrieve_cli.errors import BadDocument
from retrieve_cli.layout.layout import Layout

PAGES_AS = "as last saved"
"""Value of `pages_as`: the pages are those of the layout when the file was last saved."""
_NAMES = {"dc:title": "title", "dc:creator": "author", "dcterms:created": "created", "dc:language": "language"}
"""Core properties (ECMA-376, part 2, 11.1), by the names that all formats use."""
_LONGEST = 1000
_MOST_KEYWORDS = 50


def parse(content: bytes, *, name: str, limits: Limits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return a Word document.

    Raises:
        BadDocument: it is damaged, encrypted, of another kind, or exceeds a limit.
    """
    package = Package(content, limits)
    main = package.main_part()
    parts = _parts(package, main)
    styles = Styles(parts.get("styles"))
    notes = Notes({kind: parts[kind] for kind in ("footnotes", "endnotes") if kind in parts}, parts.get("settings"))
    story = Story(Document(styles, Numbering(parts.get("numbering"), styles), notes, on_page))
    try:
        story.read(children(package.pieces(main), main, root="w:document", of="w:body"))
    except RecursionError as error:
        raise BadDocument("its elements are nested too deeply") from error
    return _parsed(package, story, limits)


def _parsed(package: Package, story: Story, limits: Limits) -> Parsed:
    text = story.writer.text
    pages = pages_of(text, story.writer.marks, story.sections)
    if len(pages) > limits.max_pages:
        raise BadDocument(f"it has {len(pages):,} pages; the limit is {limits.max_pages:,}")
    metadata = _metadata_of(_core(package))
    if pages:
        metadata |= {"pages": len(pages), "pages_as": PAGES_AS}
    notices = (_skipped(story.skipped),) if story.skipped else ()
    return Parsed(text, Layout(story.writer.blocks, pages), metadata, title=_title(story, text), notices=notices)


def _title(story: Story, text: str) -> str:
    """Return the title that the text shows: in the style Title, or the first heading."""
    first = next((text[block.start : block.end] for block in story.writer.blocks if block.kind == "heading"), "")
    return story.title or first


def _parts(package: Package, main: str) -> dict[str, Node]:
    """Return the parts that the main part relates to, by kind."""
    wanted = {"styles", "numbering", "settings", "footnotes", "endnotes"}
    parts: dict[str, Node] = {}
    for relation in package.relations(main).values():
        if relation.kind in wanted and relation.kind not in parts and relation.target in package:
            parts[relation.kind] = read(package.pieces(relation.target), relation.target)
    return parts


def _core(package: Package) -> Node | None:
    """Return the core properties, if the package has them."""
    targets = (relation.target for relation in package.relations().values() if relation.kind == "core-properties")
    target = next((target for target in targets if target in package), None)
    return None if target is None else read(package.pieces(target), target)


def _metadata_of(core: Node | None) -> dict[str, Json]:
    """Return the core properties that have a value."""
    texts = (
        {node.name: " ".join(node.text[: 4 * _LONGEST].split())[:_LONGEST] for node in core.children} if core else {}
    )
    metadata: dict[str, Json] = {name: texts[key] for key, name in _NAMES.items() if texts.get(key)}
    description = texts.get("dc:description") or texts.get("dc:subject")
    if description:
        metadata["description"] = description
    parts = texts.get("cp:keywords", "").replace(";", ",").split(",")
    if keywords := [part.strip() for part in parts if part.strip()][:_MOST_KEYWORDS]:
        metadata["keywords"] = keywords
    return metadata


def _skipped(count: int) -> str:
    return f"skipped {count} embedded document{'s' * (count != 1)}"
