"""Status of the index: all of its parts for programs, nine lines for people; and the generations in its engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.graph import graph_of
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import IndexCorrupt, RetrieveError, printable, shortened
from retrieve_cli.frozen import asdict
from retrieve_cli.search.about import about_of
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records import columns
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Engine

_LABEL = 10
"""Columns of the first word of a line."""
_PATH = 4096
"""Characters of a line with a path, which is not to be cut."""
_SOURCES = 3
"""Sources that are named."""


def status(generation: Generation, artifacts: Path, settings: Settings) -> dict[str, Json]:
    """Return the parts of the current generation, and the pipeline that answers queries."""
    manifest, about, graph = generation.manifest, about_of(generation, None), graph_of(generation)
    manifests = {manifest.id: manifest, **{part.name: part.manifest for part in generation.segments}}.values()
    return {
        "generation": manifest.id,
        "name": about.name,
        "description": about.description,
        "artifacts": str(artifacts),
        "records": generation.size,
        "chunks": generation.chunk_size,
        "segments": [
            {"generation": part.name, "records": part.record_count, "chunks": part.chunk_count}
            for part in generation.segments
        ],
        "built": dict(manifest.built),
        "sources": [asdict(source) for source in manifest.sources],
        "rejected": sum(source.refused for source in manifest.sources),
        "bytes": sum(entry.bytes for part in manifests for entry in part.files.values()),
        "retrievers": list(manifest.recipe.retrievers),
        **_pipeline(artifacts, settings),
        "recipe": manifest.recipe.to_json(),
        **_prefixes(generation),
        **_columns(generation),
        "graph": "no edges: nothing is expanded" if graph is None else {"edges": graph.stated, "kinds": graph.kinds},
        "files": {name: asdict(entry) for name, entry in manifest.files.items()},
    }


def _pipeline(artifacts: Path, settings: Settings) -> dict[str, Json]:
    """Return the stages that answer a query; the reason instead if one of them cannot run here."""
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.searcher import Searcher

    try:
        return {"pipeline": str(Searcher(Opened.of(Store(artifacts), settings)).pipeline())}
    except RetrieveError as error:
        return {"pipeline": None, "pipeline_error": error.message}


def _prefixes(generation: Generation) -> dict[str, Json]:
    """Return the prefixes of queries and passages with their source."""
    manifest = generation.manifest
    if manifest.recipe.encoder is None:
        return {}
    card, sources = manifest.recipe.encoder_card, manifest.built.get("prefixes", {})
    texts = {"query": card.query_prefix, "passage": card.passage_prefix}
    return {"prefixes": {kind: {"text": text, "from": sources.get(kind)} for kind, text in texts.items()}}


def _columns(generation: Generation) -> dict[str, Json]:
    """Return the fields to filter by, how many records have more values in one than are kept, and the number of
    documents in each format, with its parser, unless all records are of catalogs."""
    found, cards = columns.columns_of(generation), generation.manifest.recipe.documents or {}
    found = found.within(generation.live)
    counts = found.stored("kind").counts()
    formats = {kind: {"records": count, **cards.get(kind, {})} for kind, count in counts.items() if kind != "catalog"}
    filters = {"fields": found.fields, "omitted": found.omitted}
    return {"filters": filters, "formats": formats} if formats else {"filters": filters}


# ------------------------------------------------------------------------------------------------ for people


def status_lines(view: Mapping[str, Json], *, width: int) -> list[str]:
    """Return the nine lines of a status, and one on formats if any has a parser; all but that one and those with paths
    are at most `width` columns wide."""
    store, built, sources = Store(Path(view["artifacts"])), view["built"], view["sources"]
    rejected = f"{figures.count(view['rejected'], 'item')}, listed in {store.quarantine}"
    graph, card = view["graph"], view["recipe"].get("encoder")
    links = f", {figures.count(graph['edges'], 'link')} between them" if isinstance(graph, Mapping) else ""
    model = "none: the index has no embeddings"
    if isinstance(card, Mapping):
        model = f"{card.get('name')} ({card.get('dim')} dimensions, {card.get('max_tokens')} tokens)"
    totals = {"document": 0, "record": 0}
    for entry in sources:
        totals[figures.noun_for([entry["kind"]])] += entry["records"]
    contents = ", ".join(figures.count(total, noun) for noun, total in totals.items() if total) or "no records"
    lines = {
        "index": f"{view['artifacts']}, generation {view['generation']}",
        "about": ": ".join(filter(None, (view["name"], view["description"]))),
        "contents": f"{contents}, {figures.count(view['chunks'], 'chunk')}{links}",
        **_formats_line(view.get("formats", {})),
        "sources": f"{_sources(sources)}; read {_moment(built.get('at'))}",
        "model": model,
        "pipeline": view["pipeline"] or f"{', '.join(view['retrievers'])} ({view['pipeline_error']})",
        "size": figures.size(view["bytes"]),
        "rejected": rejected if view["rejected"] else "none",
        "filter by": _fields(view.get("filters", {}).get("fields", []), width - _LABEL - 1),
    }
    room = {label: _PATH if label in ("index", "formats", "rejected") else width - _LABEL - 1 for label in lines}
    return [f"{label:{_LABEL}} {printable(shortened(text, room[label]))}" for label, text in lines.items()]


def _formats_line(formats: Mapping[str, Mapping[str, Json]]) -> dict[str, str]:
    """Return the line on formats, `pdf 12 (pypdfium2 5.15.0), markdown 3`; nothing if none has a parser."""
    if not any("parser" in each for each in formats.values()):
        return {}
    named = (
        f"{kind} {each['records']:,}" + (f" ({each['parser']})" if "parser" in each else "")
        for kind, each in formats.items()
    )
    return {"formats": ", ".join(named)}


def noun_of(kinds: Iterable[str]) -> str:
    """Return `document` if all kinds of sources are folders, else `record`."""
    return "document" if set(kinds) == {"docs"} else "record"


def _sources(sources: Sequence[Mapping[str, Json]]) -> str:
    named = [
        f"{entry['name']} ({figures.count(entry['records'], noun_of([entry['kind']]))})" for entry in sources[:_SOURCES]
    ]
    more = len(sources) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "") if named else "none"


def _moment(at: Json) -> str:
    """Return the time of a build and its age; a text that is not a time is returned unchanged."""
    try:
        moment = datetime.fromisoformat(at)
        seconds = (datetime.now(UTC) - moment.astimezone(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return shortened(str(at))
    return f"{figures.age(seconds)} ({moment:%Y-%m-%d %H:%M})"


def _fields(fields: Sequence[str], room: int) -> str:
    """Return as many names of fields as fit, those without a dot first, and how many more there are."""
    if not fields:
        return "nothing: the index has no fields"
    ordered = sorted(fields, key=lambda name: "." in name)
    for shown in range(len(ordered), 0, -1):
        more = len(ordered) - shown
        text = ", ".join(ordered[:shown]) + (f" and {more} more (-v)" if more else "")
        if len(text) <= room:
            return text
    return f"{len(ordered)} fields (-v)"


def engine_status(store: Store, settings: Settings) -> dict[str, Json]:
    """Return by engine its facts, and its collections that this index made.

    Raises:
        Unavailable: one cannot be reached.
    """
    from retrieve_cli.assemble.engines import engine, marker
    from retrieve_cli.storage import engine_record

    current = store.live() or ""
    status = {}
    for name in settings.engines.in_use:
        chosen = engine(name, settings)
        published = chosen.published()
        collections = []
        for held in engine_record.read(store.path):
            generation = marker(chosen, held.name) if held.engine == name else None
            if generation is not None:
                facts = {"collection": held.name, "generation": generation or None, "rows": chosen.count(held.name)}
                uses = {"published": held.name == published, "current": current in held.generations}
                collections.append({**facts, **uses})
        fault = engine_fault(chosen, store, current) if current else ""
        status[name] = {"facts": dict(chosen.describe()), "fault": fault, "collections": collections}
    return status


def engine_fault(chosen: Engine, store: Store, generation: str) -> str:
    """Return what an engine lacks of a generation; empty if it has its rows."""
    from retrieve_cli.assemble.engines import marker
    from retrieve_cli.storage import engine_record
    from retrieve_cli.storage.generation import open_generation

    try:
        held = engine_record.find(store.generations / generation, chosen.name)
        if held is None:
            return f"generation {generation} was not sent to it"
        holds = marker(chosen, held.name)
        if holds != generation:
            fault = "it lost the rows" if holds is None else f"it holds generation {holds or 'in part'}"
            return f"{fault} of {held.name}: {generation} is current"
        with open_generation(store, generation) as opened:
            wanted = opened.chunk_size
        rows = chosen.count(held.name)
    except IndexCorrupt as error:
        return error.message
    return "" if rows == wanted else f"it has {rows:,} rows, and {wanted:,} were sent to it"
