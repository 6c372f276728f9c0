"""The parts of a build: chunkers, encoders, the writers of its indexes, and the recipe that results from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble import documents, graph, registry
from retrieve_cli.assemble.chunkers import Chunkers, Facets, chunkers_for, facets_for
from retrieve_cli.assemble.encoders import encoder_to_build, prefix_sources, sparse_encoder_to_build
from retrieve_cli.assemble.executors import workers_for
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.saved import indexed
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, Json, Source, SparseEncoder, TokenEncoder
from retrieve_cli.contracts.models import EmbeddingWorkers
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import Frozen, asdict, replace
from retrieve_cli.retrieval.retrievers.retriever import IndexWriter
from retrieve_cli.storage import token_table
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.records import columns

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation

Writers = Mapping[str, IndexWriter]
"""Writers of the artifacts, by retriever."""


class _Building(NamedTuple):
    settings: Settings
    kinds: Collection[str]
    encoder: Encoder | None
    sparse: SparseEncoder | None


class Parts(Frozen, eq=False):
    """The parts of one build. They cannot be used for another one: the build fills the writers."""

    chunkers: Chunkers
    encoder: Encoder | None
    """None if the index has no vectors."""
    sparse: SparseEncoder | None
    """Encoder of learned term weights, if there is one."""
    writers: Callable[[], Writers]
    """Function that returns new writers of the artifacts."""
    recipe: Recipe
    """The recipe without the cards of the parsers, which depend on the records."""
    document_cards: Callable[[Collection[str]], Mapping[str, Json] | None]
    """Function from the kinds of records to the parsers of their formats."""
    write_graph: Callable[[Path], int | None]
    """Function that writes the edges of files; see `graph.write`."""
    graph_notes: Callable[[Generation], Sequence[str]]
    """Function that returns notes on names that link no records; see `graph.notes`."""
    remote: Settings | None = None
    """The settings, if indexes live in engines."""
    facets: Facets | None = None
    """Maker of the facets of chunks, if they are configured."""
    skipped: Sequence[str] = ()
    """Sentences on configured parts that cannot be built here."""
    missing: Unavailable | None = None
    """Why there is no encoder although one is configured: it makes no index lose the vectors that it has."""
    keeps_tokens: bool = False
    """True if token vectors are stored, for a reranker that compares words."""
    settings: Mapping[str, Json] = {}
    """Keys that shape the index, unless they are at their default."""
    prefixes: Mapping[str, str] = {}
    """Sources of the prefixes of queries and passages, if there are any."""
    about: Mapping[str, str] = {}
    """Name and description of the index that the configuration has."""
    workers: Callable[[Callable[[str], None]], EmbeddingWorkers | None] = lambda _: None
    """Function that returns the workers by which texts are encoded, given what receives notices; None without
    workers."""

    def recipe_of(self, kinds: Collection[str]) -> Recipe:
        """Return the complete recipe of an index with records of these kinds."""
        return replace(self.recipe, documents=self.document_cards(kinds))


def parts_for(sources: Sequence[Source], settings: Settings) -> Parts:
    """Return the parts of one build.

    Raises:
        Unavailable: the encoder's model or device is not on this machine, or a plug-in cannot be loaded.
    """
    kinds = sorted({source.kind for source in sources})
    skipped: list[str] = []
    encoder, missing = _encoder(settings, skipped)
    building = _Building(settings, kinds, encoder, _sparse(settings, skipped))
    chunkers = chunkers_for(sources, encoder, settings)
    facets = facets_for(encoder, settings)
    cards = {
        retriever.name: (retriever, card)
        for retriever in registry.to_build(settings)
        if (card := retriever.card(building)) is not None
    }
    keeps_tokens = settings.rerank.backend in TOKEN_BACKENDS and isinstance(encoder, TokenEncoder)
    return Parts(
        chunkers=chunkers,
        encoder=encoder,
        sparse=building.sparse,
        writers=lambda: {name: retriever.writer(building) for name, (retriever, _) in cards.items()},
        recipe=Recipe(
            sources={source.kind: source.card for source in sources},
            chunking=chunkers.cards,
            retrievers={name: card for name, (_, card) in cards.items()},
            encoder=None if encoder is None else asdict(encoder.card),
            columns=columns.CARD,
            tokens=token_table.CARD if keeps_tokens else None,
            facets=None if facets is None else facets.maker.card,
            graph=graph.card(settings),
        ),
        remote=settings if settings.engines.in_use else None,
        facets=facets,
        skipped=skipped,
        missing=missing,
        keeps_tokens=keeps_tokens,
        workers=partial(workers_for, settings, encoder, building.sparse, keeps_tokens),
        settings=indexed(settings),
        about={key: text for key, text in asdict(settings.about).items() if text},
        prefixes={} if encoder is None else prefix_sources(encoder, settings),
        document_cards=documents.cards_of,
        write_graph=partial(graph.write, settings=settings),
        graph_notes=partial(graph.notes, settings=settings),
    )


def _encoder(settings: Settings, skipped: list[str]) -> tuple[Encoder | None, Unavailable | None]:
    """Return the encoder, if one is configured; None, and why, if it cannot run and `encoder.policy` is `skip`."""
    encoder = None
    try:
        encoder = encoder_to_build(settings) if settings.dense.enabled else None
        if encoder is not None and settings.encoder.policy == "skip":
            _ = encoder.card  # reading it fails if the server is missing
    except Unavailable as error:
        if settings.encoder.policy != "skip":
            raise
        skipped.append(f"dense is skipped: {error.message} ({error.hint}); the next build or sync that has it adds it")
        return None, error
    return encoder, None


def _sparse(settings: Settings, skipped: list[str]) -> SparseEncoder | None:
    """Return the encoder of term weights; None, with the reason in `skipped`, if it cannot run and is optional."""
    try:
        encoder = sparse_encoder_to_build(settings)
        if encoder is not None:
            _ = encoder.card  # reading it fails if the device is missing
        return encoder
    except Unavailable as error:
        if settings.splade.policy == "required":
            raise
        skipped.append(f"splade is skipped: {error.message} ({error.hint}); the next build or sync that has it adds it")
        return None
