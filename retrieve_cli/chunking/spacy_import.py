"""spaCy, imported without PyTorch, and texts as it reads them in linear time."""

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
    """The package spaCy.

    Its rules need no PyTorch, whose import takes seconds and hundreds of megabytes: if nothing has imported that yet,
    spaCy's own library of networks is told that it is not installed. It can be imported afterwards.

    Raises:
        Unavailable: it is not installed.
    """
    try:
        if "thinc.compat" not in sys.modules and "torch" not in sys.modules:
            with without("torch"):
                import thinc.compat  # noqa: F401  the one module of spaCy's that imports it
        import spacy as package
    except ImportError as error:
        raise Unavailable(
            "spaCy, which finds sentences and names, is not installed", hint="pip install spacy"
        ) from error
    module: ModuleType = package
    return module


def masked(text: str) -> str:
    """The text with letters in place of long runs of marks, over which spaCy takes a square of the time; every
    character keeps its place."""
    return _UNBROKEN.sub(lambda run: _NO_STOP.sub(lambda marks: "x" * len(marks[0]), run[0]), text)


@contextmanager
def without(package: str) -> Iterator[None]:
    """Let this thread find no package of that name; others import it as ever."""
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Says in one thread that a package is not there."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._thread = get_ident()

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return None, which leaves it to the finders behind.

        Raises:
            ModuleNotFoundError: it is the package, asked for by the thread.
        """
        if name == self._package and get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not looked for", name=name)
        return None
