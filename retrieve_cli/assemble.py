"""Settings to parts: the only file that names a concrete source, chunker, encoder, index or stage.

What the index was built with is read from its recipe, never from today's configuration: an index answers as it was
made. The configuration decides what is not part of an answer's meaning: where models lie, on which device they run,
how deep the legs are asked and how they are fused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from retrieve_cli.config import Settings
from retrieve_cli.contracts import (
    Chunk,
    Chunker,
    Encoder,
    Field,
    Index,
    Json,
    ModelCard,
    Record,
    Source,
    Stage,
    Unit,
)
from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.generation import BM25, CHUNKS, DENSE, RECORDS, Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.encoders.devices import Device
    from retrieve_cli.indexes.analyzer import Analyzer


# ------------------------------------------------------------------------------------------------- the way in


class TextIndex(Protocol):
    """A BM25 index being filled: one row at a time, then written."""

    def add(self, fields: Iterable[Field], /) -> None: ...

    def write(self, path: Path) -> int:
        """Writes the artifact and returns its number of rows."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a build works with."""

    chunker_for: Callable[[Record], Chunker]
    encoder: Encoder
    text_index: TextIndex
    text_rows: Callable[[Record, Sequence[Chunk]], list[Sequence[Field]]]
    """The rows that a record and its chunks add to the text index."""
    write_dense: Callable[[Vectors, Path], int]
    recipe: Mapping[str, Json]


def catalog_source(path: Path, settings: Settings) -> Source:
    """Raises: UsageError where `path` is no catalog."""
    from retrieve_cli.sources.catalog import CatalogSource
    from retrieve_cli.sources.fields import FieldMap

    configured = {key: (field.to, field.weight) for key, field in settings.catalog.fields.items()}
    return CatalogSource(path, FieldMap.of(configured))


def folder_source(path: Path, settings: Settings) -> Source:
    """Raises: UsageError where `path` is no folder."""
    from retrieve_cli.sources.folder import FolderSource

    return FolderSource(path, name_weight=settings.docs.name_weight)


def build_parts(source: Source, settings: Settings) -> Parts:
    """Raises: Unavailable where the encoder's model or device is not on this machine."""
    encoder = encoder_to_build(settings)
    chunkers = _chunkers(encoder, settings)
    unit = _text_unit(source, settings)
    text_index, text_card = _text_index(unit, settings)
    from retrieve_cli.indexes import dense

    chosen = settings.dense
    parameters = dense.Parameters(chosen.index, chosen.hnsw_m, chosen.hnsw_ef_construction)
    return Parts(
        chunker_for=chunkers,
        encoder=encoder,
        text_index=text_index,
        text_rows=partial(_text_rows, unit),
        write_dense=partial(dense.write, parameters=parameters),
        recipe={
            "source": source.card,
            "chunking": chunkers(Record("", "", "", source_kind(source), "")).card,
            "encoder": asdict(encoder.card),
            "bm25": text_card,
            "dense": parameters.card,
        },
    )


def source_kind(source: Source) -> Any:
    """The kind of record that decides a source's chunker: a folder's are cut as documents."""
    return "catalog" if source.kind == "catalog" else "markdown"


def _chunkers(encoder: Encoder, settings: Settings) -> Callable[[Record], Chunker]:
    """The chunker for a record: the configured one, or documents by section and catalog records by window."""
    from retrieve_cli.chunking.imrad import ImradChunker
    from retrieve_cli.chunking.section import SectionChunker
    from retrieve_cli.chunking.window import WindowChunker

    chunking = settings.chunking
    coherence = None
    if chunking.coherence:
        from retrieve_cli.chunking.coherence import Coherence

        coherence = Coherence(encoder.encode_passages)
    shared: dict[str, Any] = {
        "max_tokens": encoder.card.max_tokens,
        "size": chunking.size,
        "prefix": encoder.card.passage_prefix,
        "language": chunking.language,
        "coherence": coherence,
    }
    kinds: dict[str, Callable[[], Chunker]] = {
        "section": lambda: SectionChunker(encoder.tokenizer, **shared),
        "imrad": lambda: ImradChunker(encoder.tokenizer, **shared),
        "window": lambda: WindowChunker(encoder.tokenizer, overlap=chunking.overlap, **shared),
    }
    if chunking.strategy != "auto":
        chosen = kinds[chunking.strategy]()
        return lambda _: chosen
    window, section = kinds["window"](), kinds["section"]()
    return lambda record: window if record.kind == "catalog" else section


def _text_unit(source: Source, settings: Settings) -> Unit:
    """What BM25 scores: whole records of a catalog, chunks of documents, unless the configuration says otherwise."""
    if settings.bm25.unit != "auto":
        return settings.bm25.unit
    return "record" if source.kind == "catalog" else "chunk"


def _text_index(unit: Unit, settings: Settings) -> tuple[TextIndex, Mapping[str, Json]]:
    from retrieve_cli.indexes.analyzer import Analyzer
    from retrieve_cli.indexes.bm25 import Bm25Writer, Formula
    from retrieve_cli.indexes.rank_bm25 import RankBm25Writer

    bm25 = settings.bm25
    analyzer = Analyzer(stemming=bm25.stemming, stop_words=bm25.stop_words)
    formula = Formula(bm25.variant, bm25.k1, bm25.b)
    card = {"backend": bm25.backend, "unit": unit, "analyzer": dict(analyzer.card), **asdict(formula)}
    if bm25.backend == "rank_bm25":
        del card["variant"]  # that package has one
        return RankBm25Writer(analyzer=analyzer, unit=unit, k1=bm25.k1, b=bm25.b), card
    return Bm25Writer(analyzer=analyzer, unit=unit, formula=formula), card


def _text_rows(unit: Unit, record: Record, chunks: Sequence[Chunk]) -> list[Sequence[Field]]:
    if unit == "record":
        return [record.fields]
    # What is embedded names the record already, in its text or its header: only the rest of the weight is missing.
    weight = next((field.weight for field in record.fields if field.name == "name"), 1.0)
    name = Field("name", record.name, max(weight - 1.0, 0.0))
    return [(name, Field("embedded", chunk.embedded)) for chunk in chunks]


# --------------------------------------------------------------------------------------------------- encoders


def encoder_to_build(settings: Settings) -> Encoder:
    """The encoder that the configuration asks for.

    Raises:
        Unavailable: its model is not on this machine, or a GPU is required and there is none.
        UsageError: the model's folder is no sentence-transformers model.
    """
    chosen = settings.encoder
    if chosen.kind == "hashed":
        return _hashed(chosen.dim)
    return _transformer(settings, chosen.model, chosen.query_prefix, chosen.passage_prefix, device=chosen.device)


def encoder_to_query(settings: Settings, recipe: Mapping[str, Json]) -> Encoder:
    """The encoder that an index was built with, by its card in the recipe; the configuration says where models lie.

    Raises:
        Unavailable: the model is not on this machine.
        IndexCorrupt: models of that name are there, and none is the one that the index was built with.
    """
    card = query_card(recipe)
    if card.family == "hashed":
        return _hashed(card.dim)
    # A GPU takes seconds to wake; one short text is done on the CPU before that. It is used where it is asked for.
    device: Device = "cuda" if settings.encoder.device == "cuda" else "cpu"
    found: list[str] = []
    missing: Unavailable | None = None
    for model in dict.fromkeys((settings.encoder.model, card.name)):
        try:
            encoder = _transformer(settings, model, card.query_prefix, card.passage_prefix, device=device)
        except Unavailable as error:
            missing = error
            continue
        if encoder.card.revision == card.revision:
            return encoder
        found.append(f"{encoder.card.name} at {encoder.card.revision[:12]}")
    if missing is not None:
        raise missing
    raise IndexCorrupt(
        f"the index was built with {card.name} at revision {card.revision[:12]}; here is {', '.join(found)}",
        hint="build the index again: retrieve build; or set encoder.model to the model it was built with",
    )


def query_card(recipe: Mapping[str, Json]) -> ModelCard:
    """The card of the encoder that an index was built with.

    Raises:
        IndexCorrupt: the recipe has none, or not a whole one.
    """
    try:
        card = ModelCard(**recipe["encoder"])
        if not isinstance(card.dim, int) or card.family not in ("hashed", "transformer"):
            raise TypeError(f"dim {card.dim!r}, family {card.family!r}")
    except (KeyError, TypeError) as error:
        hint = "build again: retrieve build"
        raise IndexCorrupt(f"the recipe has no whole encoder card ({error})", hint=hint) from error
    return card


def _hashed(dim: int) -> Encoder:
    from retrieve_cli.encoders.hashed import HashedEncoder

    return HashedEncoder(dim=dim)


def _transformer(
    settings: Settings, model: str, query_prefix: str | None, passage_prefix: str | None, *, device: Device
) -> Encoder:
    from retrieve_cli.encoders.devices import choose
    from retrieve_cli.encoders.folder import read_folder
    from retrieve_cli.encoders.locate import locate

    chosen = settings.encoder
    place = locate(model, chosen.models_dir, download=chosen.download)
    folder = read_folder(place.path, name=place.name)
    prefixes: dict[str, Any] = {"query_prefix": query_prefix, "passage_prefix": passage_prefix}
    choice = choose(device, chosen.kind)
    if choice.kind == "onnx":
        from retrieve_cli.encoders.onnx import OnnxEncoder

        try:
            return OnnxEncoder(folder, cache_dir=_cache_dir(settings), **prefixes)
        except Unavailable:
            if chosen.kind == "onnx":
                raise  # asked for by name; `auto` goes on to torch, which runs every family, and names itself
    from retrieve_cli.encoders.torch import TorchEncoder

    return TorchEncoder(
        folder,
        cache_dir=_cache_dir(settings),
        device=choice.device,
        precision=chosen.precision,
        batch_size=chosen.batch_size,
        **prefixes,
    )


def _cache_dir(settings: Settings) -> Path:
    """Where exported models are kept: the configured folder, or the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return settings.encoder.cache_dir or base / "retrieve" / "models"


# ------------------------------------------------------------------------------------------------ the way out


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of a generation, opened."""

    bm25: Index
    analyzer: Analyzer
    """How the BM25 index reads text; also what marks the matched words of a hit."""
    dense: Index


def open_indexes(generation: Generation, settings: Settings) -> Indexes:
    """Maps the indexes into memory.

    Raises:
        IndexCorrupt: one is damaged, or they disagree about their rows.
    """
    from retrieve_cli import pickles
    from retrieve_cli.indexes import dense as dense_index

    stored = pickles.load(generation.folder / BM25)
    backend = stored.get("backend") if isinstance(stored, dict) else None
    bm25: Any
    if backend == "impacts":
        from retrieve_cli.indexes.bm25 import Bm25Index

        bm25 = Bm25Index(stored)
    elif backend == "rank_bm25":
        from retrieve_cli.indexes.rank_bm25 import RankBm25Index

        bm25 = RankBm25Index(stored)
    else:
        raise IndexCorrupt(f"{BM25} is from an unknown engine {backend!r}", hint="build again: retrieve build")
    dense = dense_index.open_index(generation.folder / DENSE, hnsw_ef_search=settings.dense.hnsw_ef_search)
    if dense.dim != (dim := query_card(generation.manifest.recipe).dim):
        hint = "build again: retrieve build"
        raise IndexCorrupt(f"{DENSE} has vectors of {dense.dim} numbers; the recipe says {dim}", hint=hint)
    rows = {"record": len(generation.records), "chunk": len(generation.chunks)}
    generation.expect(RECORDS, rows["record"])
    generation.expect(CHUNKS, rows["chunk"])
    for name, index in ((BM25, bm25), (DENSE, dense)):
        generation.expect(name, len(index))
        if len(index) != (wanted := rows.get(index.unit)):
            hint = "build again: retrieve build"
            raise IndexCorrupt(f"{name} has {len(index)} rows for {wanted} {index.unit}s", hint=hint)
    return Indexes(bm25=bm25, analyzer=bm25.analyzer, dense=dense)


def pipeline(
    generation: Generation,
    indexes: Indexes,
    settings: Settings,
    *,
    legs: Sequence[str],
    unit: Unit,
    k: int,
    encode: Callable[[Sequence[str]], Sequence[Vectors]],
) -> tuple[Stage, str]:
    """The stage that ranks by the named legs, and the fusion formula. `encode` gives the vectors of query texts."""
    from retrieve_cli.stages.fuse import Fuse
    from retrieve_cli.stages.retrieve import Layout, Leg, Retrieve

    shared: dict[str, Any] = {
        "layout": Layout(generation.starts, generation.chunk_id),
        "unit": unit,
        "depth": max(settings.search.depth, k),
    }
    known = {
        "bm25": lambda: Leg(name="bm25", index=indexes.bm25, prepare=lambda texts: texts, **shared),
        "dense": lambda: Leg(name="dense", index=indexes.dense, prepare=encode, **shared),
    }
    chosen = [known[name]() for name in legs]
    if len(chosen) == 1:
        return Retrieve(chosen[0]), "none"
    fusion = settings.fusion
    weights = {"bm25": fusion.bm25_weight, "dense": fusion.dense_weight}
    fuse = Fuse(
        chosen,
        weights=[weights[name] for name in legs],
        method=fusion.method,
        normalization=fusion.normalization,
        rrf_k=fusion.rrf_k,
    )
    return fuse, fuse.method
