"""Objects of a request body: known keys, values of a kind and within bounds; each error names the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted.nearest import nearest

MOST_RESULTS = 1000
"""The most results that a request may choose."""


class Body:
    """A JSON object with known keys; null is the same as an absent key."""

    def __init__(self, item: Json, known: Collection[str], path: str = "") -> None:
        """`path` leads to the object, with a dot at its end.

        Raises:
            UsageError: it is not an object, or has an unknown key.
        """
        if not isinstance(item, Mapping):
            raise UsageError(f"`{path.rstrip('.') or 'the body'}` is not an object", hint=f"keys: {', '.join(known)}")
        for key in item:
            if key not in known:
                near = nearest(key, known)
                hint = f"did you mean `{path}{near}`?" if near else f"keys: {', '.join(known)}"
                raise UsageError(f"unknown key {quoted(path + key)}", hint=hint)
        self._item = item
        self._path = path

    def __contains__(self, key: str) -> bool:
        """Return True if a key is given."""
        return self._item.get(key) is not None

    def value(self, key: str) -> Json:
        """Return the value of a key, whatever it is; None if it is absent."""
        return self._item.get(key)

    def text(self, key: str) -> str | None:
        """Return the text of a key. Raises: UsageError."""
        value = self._item.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def required_text(self, key: str) -> str:
        """Return the text of a key that must be given. Raises: UsageError."""
        value = self.text(key)
        if value is None:
            raise UsageError(f"`{self._path}{key}` is missing", hint=f'add it: "{key}": "…"')
        return value

    def texts(self, key: str) -> Sequence[str] | None:
        """Return the texts of a key. Raises: UsageError."""
        value = self._item.get(key)
        if value is not None and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
            raise self._wrong(key, "a list of texts")
        return value

    def one_of(self, key: str, known: Sequence[str]) -> str | None:
        """Return the value of a key that takes one of some texts. Raises: UsageError."""
        value = self.text(key)
        if value is not None and value not in known:
            raise self._wrong(key, " or ".join(known))
        return value

    def flag(self, key: str) -> bool | None:
        """Return the value of a key that is true or false. Raises: UsageError."""
        value = self._item.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def count(self, key: str, most: int = MOST_RESULTS) -> int | None:
        """Return the whole number of a key, from 1. Raises: UsageError."""
        value = self._item.get(key)
        if value is not None and (type(value) is not int or not 1 <= value <= most):
            raise self._wrong(key, f"a whole number from 1 to {most}")
        return value

    def number(self, key: str, least: float, most: float) -> float | None:
        """Return the number of a key. Raises: UsageError."""
        value = self._item.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self._wrong(key, "a number")
        if not least <= value <= most:
            raise self._wrong(key, f"a number from {least:g} to {most:g}")
        return float(value)

    def inner(self, key: str, known: Collection[str]) -> Body | None:
        """Return the object of a key. Raises: UsageError."""
        value = self._item.get(key)
        return None if value is None else Body(value, known, f"{self._path}{key}.")

    def inners(self, key: str, known: Collection[str], most: int) -> list[Body]:
        """Return the objects of a key that is a list; none if it is absent. Raises: UsageError."""
        value = self._item.get(key)
        if value is not None and (not isinstance(value, list) or len(value) > most):
            raise self._wrong(key, f"a list of at most {most} objects")
        return [Body(item, known, f"{self._path}{key}[{place}].") for place, item in enumerate(value or ())]

    def _wrong(self, key: str, kind: str) -> UsageError:
        return UsageError(f"`{self._path}{key}` is {quoted(self._item.get(key))}", hint=f"it takes {kind}")
