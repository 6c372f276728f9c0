"""Import of spaCy without PyTorch, and sentence boundaries by its blank pipelines: rules only, no download."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING

from retrieve_cli.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from spacy.language import Language


def spacy() -> ModuleType:
    """Import the package spaCy.

    Its rules do not need PyTorch, whose import takes seconds and hundreds of megabytes. If nothing has imported PyTorch
    yet, it is hidden from spaCy's library of networks. It can still be imported afterwards.

    Raises:
        Unavailable: spaCy is not installed.
    """
    try:
        if "thinc.compat" not in sys.modules and "torch" not in sys.modules:
            with hide_package("torch"):
                import thinc.compat  # noqa: F401  the only module of spaCy that imports PyTorch
        import spacy as package
    except ImportError as error:
        raise Unavailable(
            "spaCy, which finds names, and sentences in other languages than English, is not installed",
            hint="pip install 'retrieve-cli[spacy]'",
        ) from error
    module: ModuleType = package
    return module


@contextmanager
def hide_package(package: str) -> Iterator[None]:
    """Hide a package from imports of this thread; other threads can import it."""
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Finder that reports a package as missing in one thread."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._thread = get_ident()

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return None, so that the next finders are tried.

        Raises:
            ModuleNotFoundError: this thread imports the hidden package.
        """
        if name == self._package and get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is hidden from this import", name=name)
        return None


_BLOCK = 100_000
"""Characters passed to spaCy at once; below the `max_length` of any pipeline."""

_STOP_OR_SPACE = (re.compile(r"(?<=[.!?])\s+|(?<=[。！？｡।])"), re.compile(r"\s+"))


def starts_in(text: str, language: str) -> Iterator[int]:
    """Yield the character positions at which sentences of a language begin. Long runs of marks take quadratic
    time: the caller masks them.

    Raises:
        UsageError: spaCy has no blank pipeline of this language.
        Unavailable: spaCy, or a package that it needs for this language, is not installed.
    """
    pipeline = _pipeline(language)
    for offset, block in _blocks(text):
        for sentence in pipeline(block).sents:
            yield offset + sentence.start_char


@lru_cache(maxsize=4)
def _pipeline(language: str) -> Language:
    package = spacy()  # takes seconds: only for a block that must be cut
    try:
        pipeline: Language = package.blank(language)
    except ImportError as error:
        if "E048" in str(error):
            raise UsageError(
                f"spaCy has no language `{language}`", hint='use a code such as "en" or "de", or "xx" for any'
            ) from error
        raise Unavailable(
            f"spaCy cannot read `{language}` here: {error}", hint='use "xx", which needs no extra package'
        ) from error
    pipeline.add_pipe("sentencizer")
    return pipeline


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in parts that spaCy accepts, cut after a sentence or a word if possible."""
    start = 0
    while len(text) - start > _BLOCK:
        end = start + _BLOCK
        for boundary in _STOP_OR_SPACE:
            ends = [match.end() for match in boundary.finditer(text, start + _BLOCK * 3 // 4, end)]
            if ends:
                end = ends[-1]
                break
        yield start, text[start:end]
        start = end
    yield start, text[start:]
