"""Documents with a layout made by hand, indexed through the real folder, chunker and writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from retrieve_cli.assemble.parts import parts_for
from retrieve_cli.config.loading import load
from retrieve_cli.contracts import DocumentFile, Parsed, Reading
from retrieve_cli.contracts.layout import Block, DocumentPage, Kind, Layout, Words
from retrieve_cli.ingest.build import build
from retrieve_cli.ingest.report import LossLimits as BuildLimits
from retrieve_cli.sources.folders.docs_folder import FolderSource
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader
from retrieve_cli.storage.store import Store

HEADS = {".pdf": b"%PDF-1.7\n", ".html": b"<!doctype html>\n", ".docx": b"PK\x03\x04 word/\n"}
"""First bytes by which the format of a file is recognised."""
WIDTH, HEIGHT, LEFT, LINE, LETTER = 595.0, 842.0, 72.0, 14.0, 6.0
"""Points of a page, its left margin, a line and a letter."""


class Part(NamedTuple):
    """A block of a document."""

    text: str
    kind: Kind = "paragraph"
    level: int = 0
    anchor: str = ""
    page: str | None = None
    """Printed label of the page that begins with it; None: the page goes on."""


def document(*parts: Part, **metadata: Any) -> Parsed:
    """Return a document of these blocks, with a line of its page for each; pages are numbered from 1."""
    text = "\n\n".join(part.text for part in parts)
    blocks: list[Block] = []
    begun: list[tuple[int, str]] = []
    words, start, line = Words(), 0, 0
    for part in parts:
        if part.page is not None:
            begun.append((start, part.page))
            line = 0
        blocks.append(Block(start, start + len(part.text), part.kind, part.level, part.anchor))
        line += 1
        place = 0
        for word in part.text.split() if begun else ():
            place = part.text.index(word, place)
            left, top = LEFT + LETTER * place, LEFT + 2 * LINE * line
            box = (left, top, left + LETTER * len(word), top + LINE)
            words.add(start + place, start + place + len(word), len(begun), *box)
            place += len(word)
        start += len(part.text) + 2
    ends = [*(first for first, _ in begun[1:]), len(text)]
    pages = (
        [
            DocumentPage(number, label, WIDTH, HEIGHT, first, end)
            for number, ((first, label), end) in enumerate(zip(begun, ends, strict=True), 1)
        ]
        if begun
        else []
    )
    return Parsed(text, Layout(blocks, pages, words if begun else None), metadata)


class HandReader(SandboxedReader):
    """The reader, which has these documents as if their files had been parsed."""

    def __init__(self, parsed: Mapping[str, Parsed]) -> None:
        super().__init__(ParsingLimits())
        self._parsed = parsed

    def begin(self, file: DocumentFile, kind: str, *, name: str) -> Reading:
        parsed = self._parsed.get(name)
        return super().begin(file, kind, name=name) if parsed is None else Done(parsed)


class Done(NamedTuple):
    """A document that was read."""

    parsed: Parsed

    def result(self) -> Parsed:
        return self.parsed


class Silent:
    """Progress that nobody reads."""

    def say(self, sentence: str) -> None:
        pass


def index_of(documents: Mapping[str, Parsed | str], folder: Path, artifacts: Path) -> None:
    """Write files into a folder and index them; a document that is a text is Markdown."""
    for name, content in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else HEADS[path.suffix] + name.encode())
    settings = load(None)
    parsed = {name: content for name, content in documents.items() if isinstance(content, Parsed)}
    sources: Sequence[FolderSource] = [FolderSource(folder, HandReader(parsed), name_weight=settings.docs.name_weight)]
    limits = BuildLimits(max_fail=0.05, keep=1, wait=0.0)
    report = build(sources, parts_for(sources, settings), Store(artifacts), limits=limits, progress=Silent())
    assert (report.records, report.quarantined) == (len(documents), 0), report.rejected


PAPER = document(
    Part("Cooling of kettles", "heading", 1, page="i"),
    Part("A preface thanks the potters who lent their kettles to us for a whole winter."),
    Part("Method", "heading", 2, page="ii"),
    Part("Every kettle was heated to boiling, and a thermometer was read each minute until it was tepid."),
    Part("The quiet room had neither draught nor sunlight while thermometers were read by two people.", page="3"),
    Part("Results", "heading", 2, page="4"),
    Part("| kettle | minutes |\n|---|---|\n| copper | 31 |\n| porcelain | 47 |", "table"),
    title="Cooling of kettles",
    author="Ada Potter",
    language="en",
)
GUIDE = document(
    Part("Guide", "heading", 1, anchor="top"),
    Part("Install", "heading", 2, anchor="install"),
    Part("Unpack the archive of the samovar and run its installer as an administrator."),
    Part("samovar --install --quiet", "code"),
    Part("Removal", "heading", 2, anchor="rm (all)%"),
    Part("Uninstalling deletes each grommet of the samovar."),
    title="Guide",
    url="https://example.org/guide/",
)
LETTER_ = document(Part("Letter", "heading", 1), Part("Dear archivist, the ledger is in the cellar."), title="Letter")
DOCUMENTS: Mapping[str, Parsed | str] = {
    "docs/paper.pdf": PAPER,
    "docs/guide.html": GUIDE,
    "docs/letter.docx": LETTER_,
    "docs/notes.md": "# Notes\n\nThe gramophone is wound by hand.\n",
}
