"""The graph of a generation: built from columns and files, opened, and traversed from hits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.config.settings import ExpansionSettings, Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import UsageError, printable, shortened
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import GRAPH, Generation
from retrieve_cli.storage.vocabulary import Vocabulary
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.retrieval.graph.graph import Graph
    from retrieve_cli.retrieval.graph.walks import Walk
    from retrieve_cli.retrieval.stages.expand import LinkedRecord
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.columns import Columns


_REQUIRED_BY = "required_by"
"""Edges that page rank skips unless they are configured: score flowing back from a requirement to all records that
require it is lost to the required ones (ToolLinkOS, R@10 with all dependencies: 0.57 with them, 0.63 without)."""

_DECAY = 0.7
"""Share of its score that a record passes on over one edge."""


def card(settings: Settings) -> Mapping[str, Json]:
    """Return the graph's part of the recipe.

    Raises:
        UsageError: a file cannot be read.
    """
    settings.expect_trusted("graph")
    graph = settings.graph
    files = {path.name: _digest(path) for path in graph.files}
    named = {"undeclared": "nodes"} if files else {}
    return {"relations": dict(graph.relations), "entities": list(graph.entities), "files": files, **named}


def _digest(path: Path) -> str:
    try:
        with files.open_regular(path, limit=files.JUDGMENTS) as file:
            return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="see graph.files") from error


def write(columns: Columns, path: Path, settings: Settings) -> tuple[int, Sequence[str]] | None:
    """Write the graph of the records; return its number of edges and notes on unlinked names, or None without edges.

    Raises:
        UsageError: a file of edges is invalid.
    """
    from retrieve_cli.retrieval.graph.edges import is_ontology, read_edges, read_ontology
    from retrieve_cli.retrieval.graph.graph import Graph
    from retrieve_cli.retrieval.graph.writer import GraphWriter

    ids, names, tenants = (_values(columns.column(field)) for field in ("id", "name", TENANT))
    if ids is None or names is None:
        return None
    writer = GraphWriter(ids=ids, names=names, records=len(columns), tenants=tenants)
    for field, kind in settings.graph.relations.items():
        if (column := _values(columns.column(field))) is not None:
            writer.refer(kind, column)
    for field in settings.graph.entities:
        if (column := _values(columns.column(field))) is not None:
            writer.share(field, column)
    for file in settings.graph.files:
        writer.add(read_ontology(file) if is_ontology(file) else read_edges(file))
    stored = writer.finish()
    graph = Graph(stored)
    if not graph.edges:
        return None
    pickles.dump(stored, path)
    return graph.edges, list(_notes(graph, settings))


class _Values:
    """A column of the only segment of a build, as the writer reads it."""

    def __init__(self, column: Column) -> None:
        field = column.parts[0].field
        self.records, self.values = field.values_in(range(field.length))
        self.vocabulary = Vocabulary(*text_arrays(field.texts(0, len(field))))
        self.span = range(len(field))

    def __len__(self) -> int:
        return len(self.span)

    def text(self, value: int) -> str:
        return self.vocabulary[value]


def _values(column: Column | None) -> _Values | None:
    return None if column is None else _Values(column)


def text_arrays(texts: Sequence[str]) -> tuple[NDArray[np.uint8], Rows]:
    encoded = [text.encode() for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)], dtype=np.int64)


def _notes(graph: Graph, settings: Settings) -> Iterator[str]:
    """Yield sentences on names and values that link no records."""
    if graph.dangling:
        count = len(graph.dangling)
        yield f"{count} dangling reference{'s' * (count != 1)} (names of unknown records): retrieve inspect graph"
    if common := common_domains(graph, settings):
        named = ", ".join(printable(shortened(str(domain["node"]))) for domain in common[:3])
        more = f" and {len(common) - 3} more" if len(common) > 3 else ""
        share = f"{100 * settings.expansion.domain_share:g} %"
        links = "this value links" if len(common) == 1 else "these values link"
        yield f"note: more than {share} of the records share {named}{more}: {links} no records (expansion.domain_share)"


def common_domains(graph: Graph, settings: Settings) -> list[dict[str, Json]]:
    """Return the domains that too many records share to link them, with the number of records, most common first."""
    most = settings.expansion.domain_share * graph.records
    return [{"node": graph.label(node), "records": count} for node, count in graph.values("domain") if count > most]


def graph_of(generation: Generation) -> Graph | None:
    """Return the graph of a generation, opened once; None if it has no edges.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    return generation.once(open_graph)


def open_graph(generation: Generation) -> Graph | None:
    """Open the graph of a generation; None if it has no edges.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    if GRAPH not in generation.manifest.files:
        return None
    from retrieve_cli.retrieval.graph.graph import Graph

    return Graph(pickles.load(generation.file(GRAPH)))


def walks_of(graph: Graph, chosen: ExpansionSettings) -> Mapping[str, Walk]:
    """Return the rules for traversing the edges of a graph, by direction.

    Raises:
        UsageError: `expansion.kinds` or `expansion.weights` names a kind that the graph does not have.
    """
    from retrieve_cli.retrieval.graph import walks

    weights = chosen.weights
    if chosen.method == "pagerank" and _REQUIRED_BY not in chosen.kinds:
        weights = {_REQUIRED_BY: 0.0, **weights}
    return walks.chosen(graph.kinds, only=chosen.kinds, weights=weights, domain_share=chosen.domain_share)


def walk(
    graph: Graph,
    generation: Generation,
    chosen: ExpansionSettings,
    walks: Mapping[str, Walk],
    seeds: Sequence[tuple[int, float]],
    visible: Mask | None = None,
) -> list[LinkedRecord]:
    """Return the records reached from seeds (row, score from 0 to 1), best first, each with the path to it.

    With `visible`, (records,) bool, other records take no part.
    """
    from retrieve_cli.retrieval.graph.expand import WalkLimits, expand
    from retrieve_cli.retrieval.stages.expand import LinkedRecord

    reach = WalkLimits(depth=chosen.depth, max_nodes=chosen.max_nodes, decay=_DECAY, walks=walks)
    label = labels(graph, generation, visible)
    if chosen.method == "pagerank":
        from retrieve_cli.retrieval.graph.walks import PageRank

        # A random walk with restarts at the seeds: the record visited most has the score of one
        # step, the others a proportional score.
        shares = PageRank(graph, walks, visible=visible)(seeds)[: graph.records]
        shares[[row for row, _ in seeds]] = 0.0
        order = sorted(shares.nonzero()[0].tolist(), key=lambda row: (-shares[row], row))[: chosen.max_nodes]
        scores = {row: _DECAY * float(shares[row] / shares[order[0]]) for row in order}
        start = max(seeds, key=lambda seed: seed[1])[0]

        def path(row: int, score: float) -> str:
            return f"{label(start)} —pagerank→ {label(row)} ({score:.2f})"

        return [LinkedRecord(row, score, partial(path, row, score)) for row, score in scores.items()]
    found = expand(graph, seeds, reach, visible)
    return [LinkedRecord(path.steps[-1].node, path.score, partial(path.rendered, label)) for path in found]


def labels(graph: Graph, generation: Generation, visible: Mask | None) -> Callable[[int], str]:
    """Return a function for labels of nodes; a shared value is spelled as in the visible records."""
    if visible is None:
        return partial(graph.label, record=generation.record_id)
    from retrieve_cli.retrieval.graph.graph import View
    from retrieve_cli.storage.records.view import RecordView

    view, columns = View(graph, visible), RecordView(generation, visible).columns

    @cache
    def label(node: int) -> str:
        value = view.value(node)
        column = None if value is None else columns.column(value[0])
        if value is None or column is None:
            return graph.label(node, record=generation.record_id)
        return f"{value[0]}:{column.spelling(value[1])}"

    return label
