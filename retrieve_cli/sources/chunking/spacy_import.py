"""Import of spaCy without PyTorch, and masking of texts that take it quadratic time."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType

from retrieve_cli.errors import Unavailable

_UNBROKEN = re.compile(r"\S{300,}")
_NO_STOP = re.compile(r"[^.!?\u3002\uff01\uff1f]|[.!?\u3002\uff01\uff1f]{2,}")


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
            "spaCy, which finds sentences and names, is not installed", hint="pip install spacy"
        ) from error
    module: ModuleType = package
    return module


def mask_runs(text: str) -> str:
    """Replace long runs of marks, for which spaCy takes quadratic time, by letters; every character keeps its
    position."""
    return _UNBROKEN.sub(lambda run: _NO_STOP.sub(lambda marks: "x" * len(marks[0]), run[0]), text)


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
