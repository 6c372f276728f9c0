"""The graph of a generation: the edges that its columns and files state, opened, and traversed from hits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.config.settings import ExpansionSettings, Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, shortened
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.recipe import reading_cards
from retrieve_cli.storage.records.view import RecordView
from retrieve_cli.storage.segment import GRAPH
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.retrieval.graph.graph import Graph
    from retrieve_cli.retrieval.graph.walks import Walk
    from retrieve_cli.retrieval.graph.whole_graph import WholeGraph
    from retrieve_cli.retrieval.stages.expand import LinkedRecord


def card(settings: Settings) -> Mapping[str, Json]:
    """Return the graph's part of the recipe.

    Raises:
        UsageError: a file cannot be read.
    """
    settings.expect_trusted("graph")
    graph = settings.graph
    digests = {path.name: _digest(path) for path in graph.files}
    return {"relations": dict(graph.relations), "entities": list(graph.entities), "files": digests}


def _digest(path: Path) -> str:
    try:
        with files.open_regular(path, limit=files.JUDGMENTS) as file:
            return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="see graph.files") from error


def write(path: Path, settings: Settings) -> int | None:
    """Write the nodes and edges of the configured files; return the number of edges, None without a file.

    Raises:
        UsageError: a file of edges is invalid.
    """
    if not settings.graph.files:
        return None
    from retrieve_cli.retrieval.graph.edges import is_ontology, read_edges, read_ontology
    from retrieve_cli.retrieval.graph.file_edges_writer import packed

    read = (read_ontology(file) if is_ontology(file) else read_edges(file) for file in settings.graph.files)
    content = packed(chain.from_iterable(read))
    pickles.dump(content, path)
    return len(content["outward"]["ends"])


def notes(generation: Generation, settings: Settings) -> list[str]:
    """Return sentences on names and values that link no records."""
    from retrieve_cli.retrieval.graph.whole_graph import WholeGraph

    graph = graph_of(generation)
    if graph is None:
        return []
    whole = WholeGraph(graph)
    found = []
    if whole.dangling:
        count = len(whole.dangling)
        found.append(
            f"{count} dangling reference{'s' * (count != 1)} (names of unknown records): retrieve inspect graph"
        )
    if common := common_domains(whole, settings):
        named = ", ".join(printable(shortened(str(domain["node"]))) for domain in common[:3])
        more = f" and {len(common) - 3} more" if len(common) > 3 else ""
        share = f"{100 * settings.expansion.domain_share:g} %"
        links = "this value links" if len(common) == 1 else "these values link"
        note = (
            f"note: more than {share} of the records share {named}{more}: {links} no records (expansion.domain_share)"
        )
        found.append(note)
    return found


def common_domains(whole: WholeGraph, settings: Settings) -> list[dict[str, Json]]:
    """Return the domains that too many records share to link them, with the number of records, most common first."""
    graph, most = whole.graph, settings.expansion.domain_share * whole.graph.records
    return [{"node": graph.label(node), "records": count} for node, count in whole.values("domain") if count > most]


def graph_of(generation: Generation) -> Graph | None:
    """Return the graph of a generation, opened once; None if no record and no file has an edge.

    Raises:
        IndexCorrupt: a file, or the recipe, is damaged.
    """
    return generation.once(_open)


def _open(generation: Generation) -> Graph | None:
    known = generation.manifest.recipe.graph or {"relations": {}, "entities": []}
    with reading_cards():
        relations = {str(field): str(kind) for field, kind in known["relations"].items()}
        entities = [str(field) for field in known["entities"]]
    columns = RecordView(generation, None).columns
    stored = next((segment for segment in reversed(generation.segments) if segment.has(GRAPH)), None)
    if stored is None and all(columns.column(field) is None for field in (*relations, *entities)):
        return None
    from retrieve_cli.retrieval.graph.file_edges import FileEdges
    from retrieve_cli.retrieval.graph.graph import Graph

    return Graph(
        columns,
        relations=relations,
        entities=entities,
        files=None if stored is None else FileEdges(pickles.load(stored.file(GRAPH))),
        lowest=partial(generation.lowest, unit="record"),
    )


def walks_of(graph: Graph, chosen: ExpansionSettings) -> Mapping[str, Walk]:
    """Return the rules for traversing the edges of a graph, by direction.

    Raises:
        UsageError: `expansion.kinds` or `expansion.weights` names a kind that the graph does not have.
    """
    from retrieve_cli.retrieval.graph import walks

    return walks.chosen(graph.kinds, only=chosen.kinds, weights=chosen.weights, domain_share=chosen.domain_share)


def walk(
    graph: Graph,
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

    reach = WalkLimits(depth=chosen.depth, max_nodes=chosen.max_nodes, walks=walks)
    view = graph.within(visible)
    return [
        LinkedRecord(path.node, path.score, partial(path.rendered, view.label))
        for path in expand(view, seeds, reach)
        if isinstance(path.node, int)
    ]
