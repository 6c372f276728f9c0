"""What `inspect` shows: the live generation's parts as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from retrieve_cli.assemble import encoders, pipelines
from retrieve_cli.config import Settings, unknown
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.generation import CHUNKS, RECORDS, Generation
from retrieve_cli.store import Store


def status(generation: Generation, artifacts: Path) -> dict[str, Json]:
    """What the live generation is made of."""
    manifest = generation.manifest
    return {
        "generation": manifest.id,
        "artifacts": str(artifacts),
        "records": len(generation.records),
        "chunks": len(generation.chunks),
        "built": dict(manifest.built),
        "sources": [asdict(source) for source in manifest.sources],
        "recipe": dict(manifest.recipe),
        "files": {name: asdict(entry) for name, entry in manifest.files.items()},
    }


def records(generation: Generation, *, filters: Sequence[str], limit: int) -> dict[str, Json]:
    """Records that pass every `FIELD=VALUE`, at most `limit` of them (0: all), and how many there are in all.

    Raises:
        UsageError: a filter is not of that form, or no record has the field.
    """
    wanted = [_filter(text) for text in filters]
    found: list[dict[str, Json]] = []
    matched = 0
    fields: set[str] = set()
    for row in generation.records:
        values = flat(row)
        fields |= values.keys()
        if all(value.casefold() in values.get(field, ()) for field, value in wanted):
            matched += 1
            if not limit or len(found) < limit:
                found.append(row)
    for field, _ in wanted:
        if field not in fields:
            raise unknown(f"field `{field}`: no record has it", field, sorted(fields))
    return {"matched": matched, "total": len(generation.records), "records": found}


def record(generation: Generation, record_id: str) -> dict[str, Json]:
    """A record as it is kept, the text that was indexed, and its chunks.

    Raises:
        UsageError: there is no such record.
    """
    at = generation.find_record(record_id)
    chunks = [generation.chunks[row] for row in range(int(generation.starts[at]), int(generation.starts[at + 1]))]
    shown = [{key: chunk[key] for key in ("id", "section", "start", "end", "tokens")} for chunk in chunks]
    return {**generation.records[at], "text": "\n".join(str(chunk["text"]) for chunk in chunks), "chunks": shown}


def chunk(generation: Generation, chunk_id: str, settings: Settings) -> dict[str, Json]:
    """A chunk as it is kept, what was embedded of it, and the terms of its text.

    Raises:
        UsageError: there is no such chunk.
    """
    row = generation.chunks[generation.find_chunk(chunk_id)]
    prefix = encoders.query_card(generation.manifest.recipe).passage_prefix
    analyzer = pipelines.open_indexes(generation, settings).analyzer
    return {**row, "embedded": f"{prefix}{row['header']}{row['text']}", "terms": analyzer.terms(str(row["text"]))}


def verify(store: Store, settings: Settings) -> dict[str, Json]:
    """Every file of the live generation against its digest, and the parts against each other.

    Raises:
        IndexMissing, IndexCorrupt: there is no manifest to hold the files to.
    """
    manifest, faults = store.verify()
    if not faults:
        try:
            pipelines.open_indexes(Generation(*store.open()), settings)
        except IndexCorrupt as error:
            faults["generation"] = error.message
    files = {name: faults.get(name, "sound") for name in manifest.files}
    return {"generation": manifest.id, "ok": not faults, "files": files, "faults": faults}


def history(store: Store) -> list[dict[str, Json]]:
    """The generations on the disk, newest publication first."""
    return [
        {
            "generation": kept.manifest.id,
            "live": kept.live,
            "in_use": kept.in_use,
            "at": kept.manifest.built.get("at"),
            "sequence": kept.manifest.sequence,
            "records": kept.manifest.files[RECORDS].rows,
            "chunks": kept.manifest.files[CHUNKS].rows,
            "quarantined": sum(source.refused for source in kept.manifest.sources),
            "changes": changes if isinstance(changes := kept.manifest.built.get("changes"), dict) else {},
            "bytes": kept.bytes,
        }
        for kept in reversed(store.kept())
        if {RECORDS, CHUNKS} <= kept.manifest.files.keys()
    ]


def flat(row: Mapping[str, Json]) -> dict[str, list[str]]:
    """A record's values by field, folded for comparison; a nested one by its own name and by its dotted path."""
    values: dict[str, list[str]] = {}
    waiting: list[tuple[str, str, Json]] = [(key, key, value) for key, value in row.items()]
    while waiting:
        path, name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{path}.{key}", key, inner) for key, inner in value.items()]
            continue
        parts = value if isinstance(value, list) else [value]
        texts = [str(part).casefold() for part in parts if not isinstance(part, Mapping | list) and part is not None]
        for known_as in {path, name}:
            values.setdefault(known_as, []).extend(texts)
    return values


def _filter(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise UsageError(f"--filter {text!r} is not FIELD=VALUE", hint="for example: --filter license=MIT")
    return field, value
