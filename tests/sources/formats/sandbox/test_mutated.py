"""A damaged file of any format is read or rejected with a reason: nothing hangs, and nothing ends the build.

`RETRIEVE_MUTATED=500 python -m pytest tests/sources/formats/sandbox/test_mutated.py -s` runs 500 files of each format
and prints the reasons of rejection; by default there are a few. `RETRIEVE_MUTATED_SEED` draws others.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sources.formats.sandbox.mutated import KINDS, mutated, seeds

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import FORMATS, ParsingLimits
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.sources.formats.processes.pool import ParserPool

COUNT = int(os.environ.get("RETRIEVE_MUTATED", "25"))
SEED = os.environ.get("RETRIEVE_MUTATED_SEED", "mutated")
LIMITS = ParsingLimits(max_bytes=64 << 20, max_pages=200, memory_bytes=1 << 30, cpu_s=20)
FAULTS = ("please report it", "makes no sense")
"""Parts of reasons that name a fault of a parser: an unforeseen error, places outside of the text."""


@pytest.fixture(scope="module")
def readers() -> Iterator[ParserPool]:
    """Processes for all formats, so that damage by one file would show in the next."""
    with closing(ParserPool(LIMITS.memory_bytes, workers=2)) as pool:
        yield pool


def begun(pool: ParserPool, path: Path, kind: str, content: bytes) -> Future[Any]:
    """Write a file and begin to read it."""
    path.write_bytes(content)
    sha1 = hashlib.sha1(content).digest()
    return pool.begin(ParseRequest(FORMATS[kind].module, path, sha1, path.name, LIMITS, LIMITS.max_bytes))


def outcome(reading: Future[Any]) -> Parsed | str:
    """Return a document, or the reason why it is rejected."""
    error = reading.exception()
    return error.message if isinstance(error, BadDocument) else reading.result()


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_rejected_with_a_reason(readers: ParserPool, tmp_path: Path, kind: str) -> None:
    reasons: Counter[str] = Counter()
    faults = {}
    files = {tmp_path / f"{number}{FORMATS[kind].suffixes[0]}": f"{SEED} {kind} {number}" for number in range(COUNT)}
    readings = {path: begun(readers, path, kind, mutated(Random(seed), kind)) for path, seed in files.items()}
    for path, reading in readings.items():
        said = outcome(reading)
        if isinstance(said, Parsed):
            said.text.encode()
            blocks = said.layout.blocks if said.layout else ()
            assert all(said.text[block.start : block.end].strip() for block in blocks)
        elif any(fault in said for fault in FAULTS):
            faults[path.name] = said
        reasons["read" if isinstance(said, Parsed) else re.sub(r"\d+", "N", said)] += 1
    print(f"\n{kind}: {COUNT} files")
    for reason, count in reasons.most_common():
        print(f"  {count:4} {reason}")
    assert faults == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_in_another_process_as_in_this_one(readers: ParserPool, tmp_path: Path, kind: str) -> None:
    parser = import_module(FORMATS[kind].module)
    assert seeds(kind)
    for number, content in enumerate(seeds(kind)):
        path = tmp_path / f"{number}{FORMATS[kind].suffixes[0]}"
        said = outcome(begun(readers, path, kind, content))
        free = parser.parse(content, name=path.name, limits=LIMITS, on_page=lambda _: None)
        assert isinstance(said, Parsed), said
        assert messages.packed(said) == messages.packed(free)
        assert "ungs" in said.text
