"""`graph.pkl`: the nodes and edges of files, by their names. Names are looked up among the records when a walk meets
them, so that the file does not depend on the records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.retrieval.graph.adjacency import Adjacency, EdgeList, pack
from retrieve_cli.storage.vocabulary import Vocabulary, rises

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Terms

_HINT = "build again: retrieve build"


class FileEdges:
    """The file, opened: names are numbered from 0, in order of canonical form and text."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """`stored` is the result of `packed`. Raises: IndexCorrupt: parts are missing or disagree."""
        try:
            self.kinds: list[str] = [str(kind) for kind in stored["kinds"]]
            self.largest = [float(weight) for weight in stored["largest"]]
            """By kind the largest weight of an edge."""
            self._names = Vocabulary(stored["names"], stored["name_ends"])
            self.outward = Adjacency(stored["outward"], len(self._names))
            self.inward = Adjacency(stored["inward"], len(self._names))
            self._nodes: Terms = stored["nodes"]
            self._alias_starts: Rows = stored["alias_starts"]
            self._aliases: Terms = stored["aliases"]
            self._named: Terms = stored["named"]
            self._owners: Terms = stored["owners"]
            is_sound = self._is_sound()
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"graph.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not is_sound:
            raise IndexCorrupt("the parts of graph.pkl do not match", hint=_HINT)

    @classmethod
    def none(cls) -> FileEdges:
        """Return the edges of no files."""
        bare = {name: np.empty(0, np.int32) for name in ("nodes", "aliases", "named", "owners")}
        names = {
            "names": np.empty(0, np.uint8),
            "name_ends": np.zeros(1, np.int64),
            "alias_starts": np.zeros(1, np.int64),
        }
        edges = pack(EdgeList.joined([]), 0)
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
            and len(self.outward) == len(self.inward)
        )

    def __len__(self) -> int:
        """Number of names."""
        return len(self._names)

    def name(self, number: int) -> str:
        """Return a name."""
        return self._names[number]

    def find(self, form: str) -> range:
        """Return the names of a canonical form."""
        first = end = bisect_left(range(len(self)), form, key=self._names.folded)
        while end < len(self) and self._names.folded(end) == form:
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

    def kind(self, number: int) -> str:
        """Return the name of a kind. Raises: IndexCorrupt: it has no name."""
        if number >= len(self.kinds):
            raise IndexCorrupt("graph.pkl has an edge without a kind", hint=_HINT)
        return self.kinds[number]


def _within(numbers: Terms, limit: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)
