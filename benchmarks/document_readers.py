"""One reader of documents over a list of files: CPU seconds, pages, files that it cannot read.

python benchmarks/document_readers.py NAME FILE... prints one line of JSON. `retrieve` goes from bytes to chunks; the
peers, found on PYTHONPATH, go from a file to its text.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace


def _retrieve() -> Callable[[Path], object]:
    from retrieve_cli.assemble.chunkers import chunkers_for
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Record
    from retrieve_cli.sources.formats import formats
    from retrieve_cli.sources.formats.formats import ParsingLimits

    source = SimpleNamespace(kind="docs", name="docs")
    chunkers = chunkers_for([source], None, Settings())  # type: ignore[list-item]

    def read(path: Path) -> object:
        content = path.read_bytes()
        kind = formats.format_of(path.name, content[:4096]) or "text"
        module = import_module(formats.FORMATS[kind].module)
        parsed = module.parse(content, name=path.name, limits=ParsingLimits(), on_page=_ignore)
        record = Record(
            id=path.name, name=path.name, text=parsed.text, kind=kind, source=path.name, layout=parsed.layout
        )
        return chunkers.cut(source, record)  # type: ignore[arg-type]

    return read


def _ignore(page: int) -> None:
    """Ignore the number of the page."""


def _pypdf() -> Callable[[Path], object]:
    from pypdf import PdfReader

    return lambda path: [page.extract_text() for page in PdfReader(path).pages]


def _pdfplumber() -> Callable[[Path], object]:
    import pdfplumber

    def read(path: Path) -> object:
        texts = []
        with pdfplumber.open(path) as file:
            for page in file.pages:
                texts.append((page.extract_text(), page.extract_tables()))
                page.close()
        return texts

    return read


def _markitdown() -> Callable[[Path], object]:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return lambda path: converter.convert(str(path)).text_content


def _trafilatura() -> Callable[[Path], object]:
    from trafilatura import extract

    return lambda path: extract(path.read_bytes(), include_tables=True)


READERS = {
    "retrieve": _retrieve,
    "pypdf": _pypdf,
    "pdfplumber": _pdfplumber,
    "markitdown": _markitdown,
    "trafilatura": _trafilatura,
}


def main() -> None:
    """Read the first file without the clock, then all with the clock on."""
    logging.disable(logging.ERROR)
    read = READERS[sys.argv[1]]()
    files = [Path(name) for name in sys.argv[2:]]
    read(files[0])
    failed = []
    begun = time.process_time()
    for path in files:
        try:
            read(path)
        except Exception as error:  # noqa: BLE001  a reader may fail in its own way
            failed.append(f"{path.name}: {type(error).__name__}: {error}"[:200])
    print(json.dumps({"cpu": time.process_time() - begun, "failed": failed}))


if __name__ == "__main__":
    main()
