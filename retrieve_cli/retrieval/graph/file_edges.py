"""`graph.pkl`: the nodes and edges of files, by their names. Names are looked up among the records when a walk meets
them, so that the file does not depend on the records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage.vocabulary import Vocabulary, rises

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Terms

_HINT = "build again: retrieve build"


DTYPES = {"names": "<i4", "kinds": "|u1", "ends": "<i4", "weights": "<f4"}
"""Arrays of the edges in one direction, in order of the name that they leave, kind, falling weight, and end."""


class FileEdges:
    """The file, opened: names are numbered from 0, in order of canonical form and text."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """`stored` is the content of the file. Raises: IndexCorrupt: parts are missing or disagree."""
        try:
            self.kinds: list[str] = [str(kind) for kind in stored["kinds"]]
            self.largest = [float(weight) for weight in stored["largest"]]
            """By kind the largest weight of an edge."""
            self._names = Vocabulary(stored["names"], stored["name_ends"])
            self._edges = {forward: stored[side] for forward, side in ((True, "outward"), (False, "inward"))}
            self._nodes: Terms = stored["nodes"]
            self._alias_starts: Rows = stored["alias_starts"]
            self._aliases: Terms = stored["aliases"]
            self._named: Terms = stored["named"]
            self._owners: Terms = stored["owners"]
            is_sound = self._is_sound()
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"graph.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not is_sound:
            raise _damaged()

    @classmethod
    def none(cls) -> FileEdges:
        """Return the edges of no files."""
        bare = {name: np.empty(0, np.int32) for name in ("nodes", "aliases", "named", "owners")}
        names = {
            "names": np.empty(0, np.uint8),
            "name_ends": np.zeros(1, np.int64),
            "alias_starts": np.zeros(1, np.int64),
        }
        edges = {name: np.empty(0, dtype) for name, dtype in DTYPES.items()}
        return cls({"kinds": [], "largest": [], **names, **bare, "outward": edges, "inward": edges})

    def _is_sound(self) -> bool:
        arrays: list[Any] = [self._nodes, self._aliases, self._named, self._owners]
        names, nodes = len(self._names), len(self._nodes)
        return (
            all(array.dtype.str == "<i4" and array.ndim == 1 for array in arrays)
            and self._names.text.dtype.str == "|u1"
            and self._names.ends.dtype.str == self._alias_starts.dtype.str == "<i8"
            and rises(self._names.ends, len(self._names.text), least=0)
            and rises(self._alias_starts, len(self._aliases), least=1)
            and len(self._alias_starts) == nodes + 1
            and len(self._named) == len(self._owners) == len(self._aliases)
            and all(_within(array, names) for array in (self._nodes, self._aliases, self._named))
            and _within(self._owners, nodes)
            and len(self.kinds) == len(self.largest)
            and all(
                arrays[name].dtype.str == dtype and arrays[name].shape == (self.count,)
                for arrays in self._edges.values()
                for name, dtype in DTYPES.items()
            )
        )

    @property
    def count(self) -> int:
        """Number of edges."""
        return len(self._edges[True]["ends"])

    def __len__(self) -> int:
        """Number of names."""
        return len(self._names)

    def name(self, number: int) -> str:
        """Return a name."""
        return self._names[number]

    def find(self, form: str) -> range:
        """Return the names of a canonical form."""
        first = end = bisect_left(range(len(self)), form, key=lambda number: canonical(self._names[number]))
        while end < len(self) and canonical(self._names[end]) == form:
            end += 1
        return range(first, end)

    def node(self, number: int) -> int | None:
        """Return the declared node whose id is a name; None if no node is called so."""
        place = int(np.searchsorted(self._nodes, np.int32(number)))
        return place if place < len(self._nodes) and self._nodes[place] == number else None

    def node_of(self, name: str) -> int | None:
        """Return the declared node with this id."""
        numbers = (number for number in self.find(canonical(name)) if self.name(number) == name)
        return next((node for number in numbers if (node := self.node(number)) is not None), None)

    def id_number(self, node: int) -> int:
        """Return the number of the id of a declared node."""
        return int(self._nodes[node])

    def aliases(self, node: int) -> list[str]:
        """Return the names of a declared node, its label first, its id among them."""
        start, end = self._alias_starts[node : node + 2].tolist()
        return [self.name(number) for number in self._aliases[start:end].tolist()]

    def owners(self, form: str) -> list[int]:
        """Return the declared nodes that have a name of a canonical form."""
        numbers = self.find(form)
        bounds = np.array([numbers.start, numbers.stop], np.int32)
        start, end = np.searchsorted(self._named, bounds).tolist()
        return sorted({*self._owners[start:end].tolist()})

    def edges(self, name: int, kind: str, *, forward: bool, limit: int) -> tuple[list[tuple[int, float]], int]:
        """Return the names at the other ends of the heaviest edges of a kind, with their weights, and the number of
        all. Raises: IndexCorrupt: an edge leads to no name."""
        arrays = self._edges[forward]
        if kind not in self.kinds:
            return [], 0
        start, end = (int(arrays["names"].searchsorted(np.int32(bound))) for bound in (name, name + 1))
        bounds = np.array([self.kinds.index(kind), self.kinds.index(kind) + 1])
        low, high = (start + np.searchsorted(arrays["kinds"][start:end], bounds)).tolist()
        stop = min(high, low + limit)
        ends = arrays["ends"][low:stop]
        if not _within(ends, len(self)):
            raise _damaged()
        return list(zip(ends.tolist(), arrays["weights"][low:stop].tolist(), strict=True)), high - low

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        """Yield each edge: its names and its kind. Raises: IndexCorrupt: a name or kind does not exist."""
        names, ends, kinds = (self._edges[True][part] for part in ("names", "ends", "kinds"))
        if not (_within(names, len(self)) and _within(ends, len(self)) and _within(kinds, len(self.kinds))):
            raise _damaged()
        for source, target, kind in zip(names.tolist(), ends.tolist(), kinds.tolist(), strict=True):
            yield source, target, self.kinds[kind]


def _damaged() -> IndexCorrupt:
    return IndexCorrupt("the parts of graph.pkl do not match", hint=_HINT)


def _within(numbers: Terms, limit: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)
