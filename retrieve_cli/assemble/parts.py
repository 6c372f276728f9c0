"""What a build works with: chunkers, the encoder, the indexes being filled, and the recipe that all of them make up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from retrieve_cli.assemble import graph
from retrieve_cli.assemble.encoders import encoder_to_build
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import (
    Chunk,
    Chunker,
    Encoder,
    Field,
    Json,
    Record,
    Source,
    SparseEncoder,
    TokenEncoder,
    Unit,
)
from retrieve_cli.errors import Unavailable
from retrieve_cli.records import columns

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.records.columns import Columns


class TextIndex(Protocol):
    """A BM25 index being filled one row at a time, then written."""

    def add(self, fields: Iterable[Field], /) -> None:
        """Appends a row of weighted fields."""

    def reuse(self, stored: Mapping[str, Json], /) -> None:
        """Takes the file of an older index, from which rows can be kept."""

    def keep(self, row: int, /) -> None:
        """Appends a row of the older index."""

    def write(self, path: Path) -> int:
        """Writes the artifact and returns its number of rows."""


class WriteDense(Protocol):
    """Writes the dense artifact from blocks of vectors, (m, dim) float32 each; returns its number of rows."""

    def __call__(self, blocks: Iterable[Vectors], path: Path, *, rows: int, dim: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What one build works with, and only one: the text index is filled by it."""

    chunkers: Mapping[str, Chunker]
    """By kind of source."""
    encoder: Encoder
    text_index: TextIndex
    text_unit: Unit
    """What a row of the text index stands for."""
    text_rows: Callable[[Record, Sequence[Chunk]], list[Sequence[Field]]]
    """The rows that a record and its chunks add to the text index."""
    write_dense: WriteDense
    recipe: Mapping[str, Json]
    write_graph: Callable[[Columns, Path], tuple[int, int] | None]
    """Writes the graph of the records' columns: how many edges it has, and how many names lead nowhere."""
    sparse: SparseEncoder | None = None
    """The encoder of the SPLADE leg, where there is one."""
    left_out: Sequence[str] = ()
    """What is configured and cannot be built here, in sentences."""
    keeps_tokens: bool = False
    """Whether the token vectors are kept, for a reranker that compares words."""


def parts_for(sources: Sequence[Source], settings: Settings) -> Parts:
    """Raises: Unavailable where the encoder's model or device is not on this machine."""
    kinds = sorted({source.kind for source in sources})
    encoder = encoder_to_build(settings)
    chunkers = _chunkers(kinds, encoder, settings)
    unit = _text_unit(kinds, settings)
    text_index, text_card = _text_index(unit, settings)
    from retrieve_cli.retrievers import dense
    from retrieve_cli.storage import token_table

    chosen = settings.dense
    parameters = dense.Parameters(chosen.index, chosen.hnsw_m, chosen.hnsw_ef_construction)
    left_out: list[str] = []
    sparse = _sparse(settings, left_out)
    keeps_tokens = settings.rerank.backend in ("auto", "maxsim") and isinstance(encoder, TokenEncoder)
    return Parts(
        chunkers=chunkers,
        encoder=encoder,
        text_index=text_index,
        text_unit=unit,
        text_rows=partial(_text_rows, unit),
        write_dense=partial(dense.write, parameters=parameters),
        recipe={
            "sources": {source.kind: source.card for source in sources},
            "chunking": {kind: chunker.card for kind, chunker in chunkers.items()},
            "encoder": asdict(encoder.card),
            "bm25": text_card,
            "dense": parameters.card,
            "columns": columns.CARD,
            "graph": graph.card(settings),
            **({"tokens": token_table.CARD} if keeps_tokens else {}),
            **({"splade": dict(sparse.card)} if sparse else {}),
        },
        sparse=sparse,
        left_out=left_out,
        keeps_tokens=keeps_tokens,
        write_graph=partial(graph.write, settings=settings),
    )


def _sparse(settings: Settings, left_out: list[str]) -> SparseEncoder | None:
    """The encoder of the SPLADE leg; where it cannot run and need not, None, and why among `left_out`."""
    from retrieve_cli.assemble import splade

    try:
        return splade.encoder_to_build(settings)
    except Unavailable as error:
        if settings.splade.policy == "required":
            raise
        left_out.append(f"splade is left out: {error.message} ({error.hint})")
        return None


def _chunkers(wanted: Collection[str], encoder: Encoder, settings: Settings) -> dict[str, Chunker]:
    """The chunker of each kind of source: the configured one, or documents by section and catalog records by window."""
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
    strategies = {"catalog": "window", "docs": "section"}
    return {kind: kinds[strategies[kind] if chunking.strategy == "auto" else chunking.strategy]() for kind in wanted}


def _text_unit(kinds: Collection[str], settings: Settings) -> Unit:
    """What BM25 scores: whole records of catalogs, chunks where documents are among them, or what is configured."""
    if settings.bm25.unit != "auto":
        return settings.bm25.unit
    return "chunk" if "docs" in kinds else "record"


def _text_index(unit: Unit, settings: Settings) -> tuple[TextIndex, Mapping[str, Json]]:
    from retrieve_cli.retrievers.analyzer import Analyzer
    from retrieve_cli.retrievers.bm25 import Bm25Writer, Formula
    from retrieve_cli.retrievers.rank_bm25 import RankBm25Writer

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
