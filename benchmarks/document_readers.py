"""One reader of documents over a list of files: their contents, and its CPU seconds from bytes to chunks or to text.

python benchmarks/document_readers.py NAME FILE... prints one line of JSON. `retrieve` is the package on PYTHONPATH,
which may be that of another checkout; the peers go from a file to its text.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple


class Read(NamedTuple):
    """Contents of a document as its reader found them."""

    text: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def _retrieve() -> Callable[[Path], Read]:
    from retrieve_cli.assemble.chunkers import chunkers_for
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Record
    from retrieve_cli.sources.formats import formats
    from retrieve_cli.sources.formats.formats import ParsingLimits

    source = SimpleNamespace(kind="docs", name="docs")
    chunkers = chunkers_for([source], None, Settings())  # type: ignore[list-item]

    def read(path: Path) -> Read:
        content = path.read_bytes()
        kind = formats.format_of(path.name, content[:4096])
        if kind is None:
            raise LookupError("no reader of this format")
        module = import_module(formats.FORMATS[kind].module)
        parsed = module.parse(content, name=path.name, limits=ParsingLimits(), on_page=_ignore)
        text, layout = parsed.text, parsed.layout
        record = Record(id=path.name, name=path.name, text=text, kind=kind, source=path.name, layout=layout)
        chunkers.cut(source, record)  # type: ignore[arg-type]
        if layout is None:
            return _markdown(text)
        blocks = [(block, text[block.start : block.end]) for block in layout.blocks]
        headings = [
            getattr(block, "title", "") or part.lstrip("#") for block, part in blocks if block.kind == "heading"
        ]
        return Read(text, headings, _rows("\n".join(part for block, part in blocks if block.kind == "table")))

    return read


def _ignore(page: int) -> None:
    """Ignore the number of the page."""


def _rows(text: str) -> list[list[str]]:
    """Return the cells of pipe tables, without the rows of dashes."""
    lines = [line.strip() for line in text.split("\n")]
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|") and line.strip("|-: ")]
    return [[cell.strip() for cell in row] for row in rows]


def _markdown(text: str) -> Read:
    """Return a text with the structure that its marks show."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return Read(text, re.findall(r"^#{1,6} (.*)", plain, re.MULTILINE), _rows(plain))


def _pdf_oxide() -> Callable[[Path], Read]:
    from pdf_oxide import PdfDocument

    return lambda path: _markdown(PdfDocument(str(path)).to_markdown_all())


def _pypdfium2() -> Callable[[Path], Read]:
    from pypdfium2 import PdfDocument

    return lambda path: Read("\n".join(page.get_textpage().get_text_range() for page in PdfDocument(path)), [], [])


READERS = {"retrieve": _retrieve, "pdf_oxide": _pdf_oxide, "pypdfium2": _pypdfium2}


def main() -> None:
    """Read the files without the clock, which loads all modules, then again with the clock on."""
    logging.disable(logging.ERROR)
    read = READERS[sys.argv[1]]()
    contents: dict[str, object] = {}
    seconds = {}
    for path in map(Path, sys.argv[2:]):
        try:
            contents[str(path)] = read(path)
            begun = time.process_time()
            read(path)
            seconds[str(path)] = time.process_time() - begun
        except Exception as error:  # noqa: BLE001  a reader may fail in its own way
            contents[str(path)] = f"{type(error).__name__}: {error}"[:200]
    print("\n" + json.dumps({"seconds": seconds, "contents": contents}))


if __name__ == "__main__":
    main()
