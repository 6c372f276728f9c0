"""Writer of `graph.pkl`: the nodes and edges of files, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.graph.edges import GraphEdge, GraphNode, checked
from retrieve_cli.retrieval.graph.file_edges import DTYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_KINDS = 256


def packed(found: Iterable[GraphNode | GraphEdge]) -> dict[str, Json]:
    """Return the content of the file, the same for any order of the edges.

    Raises:
        UsageError: a weight is below 0 or no number, or there are too many kinds of edges.
    """
    stated: set[GraphNode] = set()
    edges: list[GraphEdge] = []
    for item in found:
        if isinstance(item, GraphNode):
            stated.add(item)
        else:
            checked(item.weight, f"{item.source} -> {item.target}")
            edges.append(item)
    declared: dict[str, dict[str, None]] = {}
    for node in sorted(stated, key=lambda node: (node.id, node.names)):
        declared.setdefault(node.id, {}).update(dict.fromkeys(node.names))
    kinds = sorted({edge.kind for edge in edges})
    if len(kinds) > MOST_KINDS:
        raise UsageError(f"the graph has {len(kinds)} kinds of edges", hint=f"at most {MOST_KINDS} are possible")
    texts = [name for node_id, names in declared.items() for name in (node_id, *names)]
    texts += [name for edge in edges for name in (edge.source, edge.target)]
    names = sorted(set(texts), key=lambda text: (canonical(text), text))
    number = {name: place for place, name in enumerate(names)}
    heaviest: dict[tuple[int, int, int], float] = {}
    """By source, kind and target, the weight of the heaviest edge. An edge to itself is not one."""
    for edge in edges:
        ends = number[edge.source], kinds.index(edge.kind), number[edge.target]
        if ends[0] != ends[2]:
            heaviest[ends] = max(edge.weight, heaviest.get(ends, 0.0))
    outward = _ordered([(source, kind, end, weight) for (source, kind, end), weight in heaviest.items()])
    ids = sorted(declared, key=number.__getitem__)
    aliases = [[number[name] for name in dict.fromkeys((*declared[node_id], node_id))] for node_id in ids]
    pairs = sorted((name, node) for node, named in enumerate(aliases) for name in named)
    encoded = [name.encode() for name in names]
    return {
        "kinds": kinds,
        "largest": [float(outward["weights"][outward["kinds"] == kind].max(initial=0.0)) for kind in range(len(kinds))],
        "names": np.frombuffer(b"".join(encoded), np.uint8),
        "name_ends": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        "nodes": np.array([number[node_id] for node_id in ids], np.int32),
        "alias_starts": np.cumsum([0, *map(len, aliases)], dtype=np.int64),
        "aliases": np.array([name for named in aliases for name in named], np.int32),
        "named": np.array([name for name, _ in pairs], np.int32),
        "owners": np.array([node for _, node in pairs], np.int32),
        "outward": outward,
        "inward": _ordered([(end, kind, source, weight) for (source, kind, end), weight in heaviest.items()]),
    }


def _ordered(edges: list[tuple[int, int, int, float]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of edges in one direction (name, kind, end, weight), the same for every order of the edges."""
    names, kinds, ends, weights = np.array(edges, np.float64).reshape(-1, 4).T
    stored = weights.astype(np.float32)
    order = np.lexsort((ends, -stored, kinds, names))
    columns: dict[str, NDArray[Any]] = {"names": names, "kinds": kinds, "ends": ends, "weights": stored}
    return {name: columns[name][order].astype(dtype) for name, dtype in DTYPES.items()}
