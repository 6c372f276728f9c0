"""Optional packages, imported at first use.

Work spread over threads, and what lets threads share one encoder.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from threading import Lock, RLock
from typing import Any, Generic, TypeVar, overload

from retrieve_cli.errors import Unavailable

_EXTRAS = {
    "onnx": "pip install onnx",
    "onnxruntime": "pip install onnxruntime",
    "tokenizers": "pip install tokenizers",
    "openvino": "pip install 'retrieve-cli[openvino]'",
    "torch": "pip install 'retrieve-cli[torch]'",
    "transformers": "pip install 'retrieve-cli[torch]'",
    "sentence_transformers": "pip install 'retrieve-cli[torch]'",
    "huggingface_hub": "pip install huggingface_hub",
}


def require(name: str) -> Any:
    """Import a package that only some settings need.

    Raises:
        Unavailable: it is not installed, or it cannot be loaded.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f"The package {name} cannot be imported: {error}."
        raise Unavailable(message, hint=_EXTRAS.get(name, f"pip install {name}")) from error


T = TypeVar("T")

_COUNTING = Lock()


def spread(work: Callable[[T], None], items: Sequence[T], *, threads: int) -> None:
    """Call `work` with each item on several threads; onnxruntime and NumPy release the interpreter meanwhile."""
    threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor  # a single query does without it, and it costs 3 ms

    with ThreadPoolExecutor(threads) as workers:
        for _ in workers.map(work, items):
            pass


class once(Generic[T]):  # noqa: N801  a decorator, named as `property` is
    """A property that is computed at its first use under its object's lock: threads load a model once.

    `functools.cached_property` has no lock since Python 3.12.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        members = instance.__dict__
        with members.setdefault("_loading", RLock()):
            if self._name not in members:
                members[self._name] = self._make(instance)
            value: T = members[self._name]
        return value


class Truncating:
    """Counts the truncated texts of all threads."""

    truncated: int = 0
    """Number of texts so far that were longer than the model's limit and lost their end."""

    def _count_truncated(self, count: int) -> None:
        if count:
            with _COUNTING:
                self.truncated += count
