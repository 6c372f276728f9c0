"""Views of `inspect`: parts of the current generation as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.assemble.graph import common_domains, graph_of
from retrieve_cli.assemble.indexes import open_indexes
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.search.conditions import allowed_by
from retrieve_cli.storage.beside import beside
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.records.rows import shown_row
from retrieve_cli.storage.records.view import RecordView
from retrieve_cli.storage.segment import RECORDS
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.retrieval.graph.graph import Graph, Node


def records(generation: Generation, *, filters: Sequence[str], limit: int) -> dict[str, Json]:
    """Return at most `limit` records that pass every filter (0: all), read one by one, and how many pass.

    Raises:
        UsageError: a filter has another form, or no record has the field.
    """
    allowed = allowed_by(_all(generation), filters)
    rows = generation.in_order(allowed)
    shown = (_line(generation, row) for row in (rows[:limit] if limit else rows))
    return {"matched": len(rows), "total": generation.size, "records": shown}


def _all(generation: Generation) -> RecordView:
    """Return the operator's view."""
    return RecordView(generation, None)


def _line(generation: Generation, row: int) -> dict[str, Json]:
    """Return a record as a line of a catalog that restores it: the stored record with the text of each field.

    Only a catalog's record has such fields; the text of a document becomes a description.
    """
    record = generation.records[row]
    spans, text = record.pop("spans", ()), generation.record_text(row)
    texts = {name: text[slice(*span)] for name, span in zip(record["fields"], spans, strict=False)}
    return {**shown_row(record), "texts": texts or {"name": record["name"], "description": text.strip()}}


_OF_CHUNK = ("id", "section", "start", "end", "tokens")
_OF_PLACE = ("page", "page_end", "page_label", "page_label_end", "anchor", "content_type")
"""Keys of a chunk whose record has a layout."""


def record(generation: Generation, record_id: str) -> dict[str, Json]:
    """Return a stored record, the parser of its format, the text that was indexed, and its chunks.

    Raises:
        UsageError: the record does not exist.
    """
    at = _all(generation).find_record(record_id)
    chunks = [generation.chunks[row] for row in range(int(generation.starts[at]), int(generation.starts[at + 1]))]
    shown = [{key: chunk[key] for key in (*_OF_CHUNK, *(key for key in _OF_PLACE if key in chunk))} for chunk in chunks]
    row, text = shown_row(generation.records[at]), "\n".join(str(chunk["text"]) for chunk in chunks)
    card = (generation.manifest.recipe.documents or {}).get(str(row["kind"]))
    return {**row, **({"parser": card} if card else {}), "text": text, "chunks": shown}


def chunk(generation: Generation, chunk_id: str, settings: Settings) -> dict[str, Json]:
    """Return a stored chunk, the text that was embedded, and the terms of its text.

    Raises:
        UsageError: the chunk does not exist.
    """
    row = generation.chunks[_all(generation).find_chunk(chunk_id)]
    recipe = generation.manifest.recipe
    prefix = recipe.encoder_card.passage_prefix if recipe.encoder is not None else ""
    analyzer = open_indexes(generation, settings).analyzer
    return {
        **shown_row(row),
        "embedded": f"{prefix}{row['header']}{row['text']}",
        "terms": analyzer.terms(str(row["text"])),
    }


def graph(generation: Generation, name: str | None, settings: Settings) -> dict[str, Json]:
    """Return the edges between records by kind with dangling references, or the neighbours of one record.

    Raises:
        UsageError: the record does not exist.
    """
    edges = graph_of(generation)
    if edges is None:
        if name is not None:
            _all(generation).find_record(name)
        return {
            "edges": 0,
            "note": "no record refers to another: see graph.relations and graph.entities in config.yaml",
        }
    if name is None:
        return _whole(edges, settings)
    edges = edges.within(None)
    label = edges.label
    node = _node(edges, generation, name)
    neighbours = [
        {"kind": each.kind, "node": label(each.node), "weight": each.weight, "leads_there": each.forward}
        for each in edges.neighbours(node, limit=100)
    ]
    degree = {kind: {"out": out, "in": into} for kind, (out, into) in edges.degree(node).items()}
    return {"node": label(node), "degree": degree, "neighbours": neighbours}


def _whole(edges: Graph, settings: Settings) -> dict[str, Json]:
    from retrieve_cli.retrieval.graph.whole_graph import WholeGraph

    whole = WholeGraph(edges)
    return {
        "edges": sum(whole.counts.values()),
        "kinds": whole.counts,
        "nodes": {"records": edges.records, "others": len(whole.others)},
        "components": whole.sizes()[:20],
        "common": common_domains(whole, settings),
        "dangling": [
            {
                "record": None if entry.record is None else edges.id_of(entry.record),
                "kind": entry.kind,
                "name": entry.name,
                "why": entry.why,
            }
            for entry in whole.dangling
        ],
    }


def _node(edges: Graph, generation: Generation, name: str) -> Node:
    """Return the node of a record id, of a value that records share, or of a name in a file."""
    try:
        return _all(generation).find_record(name)
    except UsageError as error:
        try:
            return edges.find(name)
        except UsageError as other:
            raise (other if ":" in name else error) from None


def verify(store: Store, settings: Settings) -> dict[str, Json]:
    """Return the state of every file of the current generation, checked against its SHA-1 and the other files, and of
    the files beside it that carry digests: the inbox and the keys.

    Raises:
        IndexMissing, IndexCorrupt: the generation has no readable manifest.
    """
    manifest, faults = store.verify()
    if not faults:
        try:
            with open_generation(store) as generation:
                dict(open_indexes(generation, settings))  # each is opened when it is reached
        except IndexCorrupt as error:
            faults["generation"] = error.message
    names = [*manifest.files, *(name for name in faults if "/" in name)]
    for name, read in beside(store.path).items():
        names.append(name)
        try:
            read()
        except (RetrieveError, OSError) as error:
            faults[name] = str(error)
    files = {name: faults.get(name, "sound") for name in names}
    return {"generation": manifest.id, "ok": not faults, "files": files, "faults": faults}


def history(store: Store) -> list[dict[str, Json]]:
    """Return the generations on disk, newest publication first."""
    return [
        {
            "generation": kept.manifest.id,
            "current": kept.live,
            "live": kept.live,
            "at": kept.manifest.built.get("at"),
            "sequence": kept.manifest.sequence,
            "records": sum(source.records for source in kept.manifest.sources),
            "chunks": kept.manifest.built.get("chunks"),
            "segments": len(kept.manifest.segments) + (RECORDS in kept.manifest.files),
            "quarantined": sum(source.refused for source in kept.manifest.sources),
            "changes": kept.manifest.built.get("changes", {}),
            "kinds": sorted({source.kind for source in kept.manifest.sources}),
            "bytes": kept.bytes,
        }
        for kept in reversed(store.kept())
    ]
