"""The parts of a build: chunkers, encoders, the writers of its indexes, and the recipe that results from them.

Executors: the processes and machines by which a build embeds, by the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from retrieve_cli.assemble import documents, graph, registry
from retrieve_cli.assemble.chunkers import Chunkers, Facets, chunkers_for, facets_for
from retrieve_cli.assemble.encoders import encoder_to_build, prefix_sources, sparse_encoder_to_build
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.contracts import Encoder, Json, Source, SparseEncoder, TokenEncoder
from retrieve_cli.contracts.models import Executor
from retrieve_cli.cores import available_cores
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.frozen import Described, replace
from retrieve_cli.retrieval.retrievers.retriever import IndexWriter, RangeWriter
from retrieve_cli.storage import token_table
from retrieve_cli.storage.recipe import Recipe, encoder_json
from retrieve_cli.storage.records import columns

if TYPE_CHECKING:
    from retrieve_cli.models.executors.encoding import Encoders
    from retrieve_cli.models.executors.http import Model
    from retrieve_cli.models.executors.workers import EncodingWorker, ProbeAnswer, WorkerSlot
    from retrieve_cli.models.remote.client import Client
    from retrieve_cli.storage.records.columns import Columns


Writers = Mapping[str, IndexWriter]
"""Writers of the artifacts, by retriever."""


def _used() -> Parts:
    raise ValueError("these parts were made for one build alone")


class _Building(NamedTuple):
    settings: Settings
    kinds: Collection[str]
    encoder: Encoder | None
    sparse: SparseEncoder | None


class Parts(Described):
    """The parts of one build. They cannot be used for another one: the build fills the writers."""

    apart: ClassVar = ("again",)
    chunkers: Chunkers
    encoder: Encoder | None
    """None if the index has no vectors."""
    sparse: SparseEncoder | None
    """Encoder of learned term weights, if there is one."""
    writers: Writers
    recipe: Recipe
    """The recipe without the cards of the graph and of the parsers, which depend on the records."""
    graph_card: Callable[[Columns], Mapping[str, Json]]
    document_cards: Callable[[Columns], Mapping[str, Json] | None]
    """Function from the columns of records to the parsers of their formats."""
    write_graph: Callable[[Columns, Path], tuple[int, Sequence[str]] | None]
    """Function that writes the graph of the records' columns; see `graph.write`."""
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
    prefixes: Mapping[str, str] = {}
    """Sources of the prefixes of queries and passages, if there are any."""
    executor: Callable[[Callable[[str], None]], Executor | None] = lambda _: None
    """Function that returns the workers by which texts are encoded, given what receives notices; None without
    workers."""
    again: Callable[[], Parts] = _used
    """Function that returns new parts for the same build."""

    def recipe_of(self, columns: Columns) -> Recipe:
        """Return the complete recipe of an index whose records have these columns."""
        return replace(self.recipe, graph=self.graph_card(columns), documents=self.document_cards(columns))


def keep(writers: Writers, records: range) -> None:
    """Append to every artifact the rows of a contiguous range of records of the older generation."""
    for writer in writers.values():
        if isinstance(writer, RangeWriter):
            writer.keep_all(records)
        else:
            for record in records:
                writer.keep(record)


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
        writers={name: retriever.writer(building) for name, (retriever, _) in cards.items()},
        recipe=Recipe(
            sources={source.kind: source.card for source in sources},
            chunking=chunkers.cards,
            retrievers={name: card for name, (_, card) in cards.items()},
            encoder=None if encoder is None else encoder_json(encoder.card),
            columns=columns.CARD,
            tokens=token_table.CARD if keeps_tokens else None,
            facets=None if facets is None else facets.maker.card,
        ),
        remote=settings if settings.engines.in_use else None,
        facets=facets,
        skipped=skipped,
        missing=missing,
        keeps_tokens=keeps_tokens,
        executor=partial(executor_for, settings, encoder, building.sparse, keeps_tokens),
        again=partial(parts_for, sources, settings),
        prefixes={} if encoder is None else prefix_sources(encoder, settings),
        graph_card=graph.card(settings),
        document_cards=partial(documents.cards_of, settings=settings),
        write_graph=partial(graph.write, settings=settings),
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


FACTORY = f"{__name__}:encoders_of"
"""Function by which a worker makes its encoders."""
_OF_RECORDS = frozenset({"catalog", "docs", "parsing", "chunking", "facets", "graph"})
"""Sections that change an index, and not the encoders of a worker."""
_UNIT_TOKENS = {"cpu": 8_192, "cuda": 65_536}
"""Tokens of a unit: about a second of a core, or the batches that fill a GPU."""
_LANES = 2
"""Requests at once to a server: while one is computed, the next one is on its way."""
_HINT = "--executor http:HOST:PORT,HOST:PORT, or ray:auto"


class _Executing(NamedTuple):
    settings: Settings
    encoder: Encoder | None
    sparse: SparseEncoder | None
    keeps_tokens: bool

    @property
    def device(self) -> str:
        """`cuda` if the encoder computes on a GPU, else `cpu`."""
        device = "" if self.encoder is None else self.encoder.device
        return "cuda" if device.startswith("cuda") else "cpu"


def executor_for(
    settings: Settings,
    encoder: Encoder | None,
    sparse: SparseEncoder | None,
    keeps_tokens: bool,
    say: Callable[[str], None],
) -> Executor | None:
    """Return the configured workers for these encoders; None if no workers are configured.

    Raises:
        UsageError: they cannot be used with this configuration.
        Unavailable: Ray is not installed, or has no cluster.
    """
    settings.expect_trusted("executors")
    chosen = settings.executors
    if (chosen.workers == 0 and chosen.executor is None) or (encoder is None and sparse is None):
        return None
    if settings.dense.enabled and settings.encoder.kind == "remote":
        raise UsageError(
            "a server encodes already (encoder.kind: remote); workers would only pass texts on to it",
            hint="raise encoder.concurrency instead, or name a model of this machine in encoder.kind",
        )
    from retrieve_cli.models.executors.coordinator import Admission, Coordinator
    from retrieve_cli.models.executors.scheduler import Policy

    building = _Executing(settings, encoder, sparse, keeps_tokens)
    kind, seats = _seats(building)
    tokens = chosen.unit_tokens or _UNIT_TOKENS[building.device]
    policy = Policy(unit_tokens=tokens, lease_s=chosen.lease_s, window=max(4096, len(seats) * tokens // 25))
    # On a GPU this process would load the model beside a worker that has it already.
    alone = kind == "local" and building.device == "cuda"
    reference = None if alone else partial(_reference, building)
    return Coordinator(seats, Admission(reference, bits=chosen.require_bit_equal), policy=policy, say=say)


def encoders_of(payload: Json) -> Encoders:
    """Return the encoders of a worker, in its process, from the result of `_payload`."""
    from retrieve_cli.assemble import encoders
    from retrieve_cli.config.loading import override
    from retrieve_cli.models.executors.encoding import Encoders

    settings = override(Settings(), payload["settings"], where="the coordinator's settings")
    return Encoders(
        encoders.encoder_to_build(settings) if payload["vectors"] else None,
        encoders.sparse_encoder_to_build(settings) if payload["terms"] else None,
        payload["tokens"],
    )


def _payload(building: _Executing) -> Mapping[str, Json]:
    """Return what a worker has to know, as JSON: keys that are not at their default."""
    from retrieve_cli.config.loading import changed_keys

    of_encoders = (sections("index") | {"models"}) - _OF_RECORDS
    settings: dict[str, dict[str, Json]] = {}
    for name in changed_keys(Settings(), building.settings):
        section, _, key = name.partition(".")
        if section in of_encoders:
            values = getattr(building.settings, section)
            value = values[key] if isinstance(values, Mapping) else getattr(values, key)
            settings.setdefault(section, {})[key] = str(value.absolute()) if isinstance(value, Path) else value
    return {
        "settings": settings,
        "vectors": building.encoder is not None,
        "terms": building.sparse is not None,
        "tokens": building.keeps_tokens,
    }


def _reference(building: _Executing) -> ProbeAnswer:
    """Return what this process makes of the probes."""
    from retrieve_cli.models.executors.coordinator import PROBES
    from retrieve_cli.models.executors.workers import ProbeAnswer

    encoders = encoders_of(_payload(building))  # others than those of the build, which count what they truncate
    return ProbeAnswer(encoders.cards, encoders.encode_all(PROBES, [encoders.everything] * len(PROBES)))


# ------------------------------------------------------------------------------------------ seats


def _seats(building: _Executing) -> tuple[str, list[WorkerSlot]]:
    """Return the places of workers, and their kind. Raises: UsageError, Unavailable."""
    chosen = building.settings.executors
    kind, _, where = (chosen.executor or "local").partition(":")
    if kind == "ray":
        return kind, _actors(building, where or "auto")
    local = _processes(building, chosen.workers) if chosen.workers else []
    if kind == "local":
        return kind, local
    if kind not in ("http", "https"):
        raise UsageError(f"--executor takes no {quoted(chosen.executor)}", hint=_HINT)
    return kind, [*local, *_servers(building, kind, where)]


def _processes(building: _Executing, count: int) -> list[WorkerSlot]:
    from retrieve_cli.models.executors.local import LocalWorker, gpus, shares
    from retrieve_cli.models.executors.workers import WorkerSlot

    devices = [*building.settings.executors.devices] or (gpus() if building.device == "cuda" else [])
    payload = _payload(building)
    return [
        WorkerSlot(f"worker {place + 1}", partial(LocalWorker, FACTORY, payload, share))
        for place, share in enumerate(shares(count, available_cores(), devices))
    ]


def _servers(building: _Executing, scheme: str, where: str) -> list[WorkerSlot]:
    from retrieve_cli.models.executors.workers import WorkerSlot

    named = [address.strip().removeprefix("//") for address in where.split(",")]
    if not all(named):
        raise UsageError("--executor http: names no server", hint=_HINT)
    urls = [address if "://" in address else f"{scheme}://{address}" for address in named]
    bases = [url.rstrip("/").removesuffix("/v1") for url in urls]
    for url in bases:
        _client(building.settings, url)  # rejects what is not an address
    model = _model(building)
    return [
        WorkerSlot(f"{url} ({lane + 1})" if _LANES > 1 else url, partial(_on_server, building.settings, url, model))
        for url in bases
        for lane in range(_LANES)
    ]


def _on_server(settings: Settings, url: str, model: Model) -> EncodingWorker:
    from retrieve_cli.models.executors.http import HttpWorker

    return HttpWorker(_client(settings, url), model)


def _client(settings: Settings, url: str) -> Client:
    from retrieve_cli.models.remote.client import Client

    chosen = settings.executors
    return Client(
        url, api_key_env=chosen.api_key_env, timeout_s=chosen.timeout_s, retries=2, concurrency=1, section="executors"
    )


def _model(building: _Executing) -> Model:
    from retrieve_cli.models.executors.http import Model

    tokens, terms = building.keeps_tokens, building.sparse is not None
    if building.encoder is None:
        return Model("", 0, normalize=False, vectors=False, tokens=tokens, terms=terms)
    card = building.encoder.card
    fitted = partial(_fitted, building.encoder)
    return Model(card.name, card.dim, card.normalize, card.passage_prefix, tokens=tokens, terms=terms, fitted=fitted)


def _fitted(encoder: Encoder, text: str) -> str:
    """Return a text, or as much of its beginning as the model reads."""
    room = encoder.card.max_tokens - encoder.tokenizer.special_tokens
    spans = encoder.tokenizer.spans(text)
    return text if len(spans) <= room else text[: spans[room][0]]


def _actors(building: _Executing, address: str) -> list[WorkerSlot]:
    from retrieve_cli.models.executors.ray_actors import RayWorker, connect
    from retrieve_cli.models.executors.workers import WorkerSlot

    cpus = connect(address)
    payload = _payload(building)
    gpus = 1.0 if building.device == "cuda" else 0.0
    return [
        WorkerSlot(f"actor {place + 1}", partial(RayWorker, FACTORY, payload, gpus=gpus))
        for place in range(building.settings.executors.workers or cpus)
    ]
