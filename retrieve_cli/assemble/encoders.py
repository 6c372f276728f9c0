"""Encoders, dense and sparse: for a build by the configuration, for a query by the card that the index was built
with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import extensions, registry
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Card, Encoder, ModelCard, SparseEncoder
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.retrievers.retriever import TERMS
from retrieve_cli.storage.recipe import Recipe, reading_cards

if TYPE_CHECKING:
    from retrieve_cli.config.settings import EncoderSettings
    from retrieve_cli.models.encoders.onnx_encoder import Runtime

_RUNTIMES: Mapping[str, Runtime] = {"onnx": "onnxruntime", "openvino": "openvino"}
"""Runtime of the exported graph, by kind."""
_BUILD_TIMEOUT = 60.0
"""Timeout in seconds of a request during a build, which has many texts, unless more is configured."""
_KINDS = ("auto", "onnx", "openvino", "torch")


def encoder_to_build(settings: Settings) -> Encoder:
    """Return the configured encoder.

    Raises:
        Unavailable: its model is not on this machine, or a GPU is required and missing.
        UsageError: the folder is not a sentence-transformers model, or the kind does not support the precision.
    """
    chosen = settings.encoder
    if chosen.kind == "hashed":
        from retrieve_cli.models.runtimes.devices import choose

        choose(chosen.device, chosen.kind)  # rejects a GPU
        return _hashed(chosen.dim)
    settings.expect_trusted("encoder", "models")
    if chosen.kind == "remote":
        return _remote(settings)
    if chosen.kind not in _KINDS:
        return _plugged_in(chosen.kind, settings)
    return _transformer(settings, chosen.model, chosen.query_prefix, chosen.passage_prefix)


def encoder_to_query(settings: Settings, card: ModelCard) -> Encoder:
    """Return the encoder that an index was built with, by its card; the configuration locates the models.

    Raises:
        Unavailable: the model is not on this machine.
        IndexCorrupt: models with that name exist, but none is the one that the index was built with.
    """
    if card.family == "hashed":
        return _hashed(card.dim)
    settings.expect_trusted("encoder", "models")
    if card.family == "remote":
        return _remote(settings, card)
    if card.family != "transformer":
        return _plugged_in(card.family, settings, card)
    settings = replace(settings, encoder=_for_queries(settings.encoder, card))
    others: list[str] = []
    missing: Unavailable | None = None
    for model in dict.fromkeys((settings.encoder.model, card.name)):
        try:
            encoder = _transformer(settings, model, card.query_prefix, card.passage_prefix)
        except Unavailable as error:
            missing = error
            continue
        if encoder.card.revision == card.revision:
            return encoder
        others.append(f"{encoder.card.name} at {encoder.card.revision[:12]}")
    if missing is not None:
        raise missing
    raise IndexCorrupt(
        f"the index was built with {card.name} at revision {card.revision[:12]}; this machine has {', '.join(others)}",
        hint="build the index again: retrieve build; or set encoder.model to the model it was built with",
    )


def _for_queries(chosen: EncoderSettings, card: ModelCard) -> EncoderSettings:
    """Return the settings for queries of an index that was built with the encoder of this card.

    A GPU takes seconds to start, and the CPU encodes one short text in less, so a GPU is used only if it is configured.
    On the CPU, a query is encoded in float32 regardless of the precision of the passages, and without torch or OpenVINO
    (which take seconds to start) if those were chosen for the passages: the vectors' cosine is above 0.9999.
    """
    if chosen.device == "cuda":
        return chosen
    for_passages = chosen.kind == "openvino" or (chosen.kind == "torch" and card.precision == "bfloat16")
    return replace(chosen, device="cpu", precision="float32", kind="auto" if for_passages else chosen.kind)


def _plugged_in(name: str, settings: Settings, expected: ModelCard | None = None) -> Encoder:
    """Return a plug-in's encoder; if an index was built with one, check that the card is the same."""
    encoder: Encoder = extensions.make("encoder", name, settings)
    if encoder.card.family != name:
        raise UsageError(
            f"the card of the encoder {quoted(name)} has the family {quoted(encoder.card.family)}",
            hint="fix the plug-in",
        )
    if expected is not None and encoder.card != expected:
        hint = "build the index again: retrieve build"
        raise IndexCorrupt(f"the index was built with another encoder {quoted(name)}", hint=hint)
    return encoder


def _hashed(dim: int) -> Encoder:
    from retrieve_cli.models.encoders.hashed import HashedEncoder

    return HashedEncoder(dim=dim)


def _remote(settings: Settings, expected: ModelCard | None = None) -> Encoder:
    """Return a server's encoder; if an index was built with one, check that the card is the same."""
    from retrieve_cli.assemble.servers import client
    from retrieve_cli.models.remote.embeddings import RemoteEncoder

    chosen = settings.encoder
    if expected is None:
        chosen = replace(chosen, timeout_s=chosen.build_timeout_s or max(chosen.timeout_s, _BUILD_TIMEOUT))
    return RemoteEncoder(
        client(chosen, "encoder"),
        model=expected.name if expected and chosen.kind != "remote" else chosen.model,
        max_tokens=chosen.max_tokens,
        dimensions=chosen.dimensions,
        query_prefix=chosen.query_prefix,
        passage_prefix=chosen.passage_prefix,
        tokenizer=chosen.tokenizer,
        expected=expected,
    )


def _transformer(settings: Settings, model: str, query_prefix: str | None, passage_prefix: str | None) -> Encoder:
    from retrieve_cli.models.runtimes.devices import choose
    from retrieve_cli.models.runtimes.locate import locate
    from retrieve_cli.models.runtimes.model_folder import read_folder

    chosen = settings.encoder
    place = locate(model, settings.models.dir, download=settings.models.auto_download)
    folder = read_folder(place.path, name=place.name, query_prefix=query_prefix, passage_prefix=passage_prefix)
    # `hashed` and `remote` configure the next build: an index of a model needs that model until then.
    kind = "auto" if chosen.kind == "hashed" or chosen.kind == "remote" else chosen.kind
    choice = choose(chosen.device, kind, precision=chosen.precision)
    runtime, precision = _RUNTIMES.get(choice.kind), choice.precision
    if choice.kind == "torch" and choice.device == "cpu" and precision == "bfloat16":
        # Only sentence-transformers opens pickled weights.
        runtime = "torch" if folder.weights[0].suffix == ".safetensors" else None
    if runtime:
        from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder

        try:
            return OnnxEncoder(folder, cache_dir=cache_dir(settings), runtime=runtime, precision=precision)
        except Unavailable:
            if chosen.kind in _RUNTIMES:
                raise  # configured by name; `auto` falls back to torch, which runs every family
    from retrieve_cli.models.encoders.torch_encoder import TorchEncoder

    return TorchEncoder(
        folder,
        cache_dir=cache_dir(settings),
        device=choice.device,
        precision=choice.precision,
    )


def prefix_sources(encoder: Encoder, settings: Settings) -> dict[str, str]:
    """Return the source of the prefixes of queries and passages: a key of the configuration, or the source in the
    model; empty if they have none."""
    said_by = getattr(getattr(encoder, "wanted", None), "said_by", "")
    configured = {"query": settings.encoder.query_prefix, "passage": settings.encoder.passage_prefix}
    sources = {kind: said_by if text is None else f"encoder.{kind}_prefix" for kind, text in configured.items()}
    return {kind: source for kind, source in sources.items() if source and hasattr(encoder, "wanted")}


def device(settings: Settings) -> tuple[str, bool]:
    """Return the device of the configured encoder with its reason, in words, and if float32 is faster there.

    Raises:
        Unavailable: a GPU is required and missing.
    """
    from retrieve_cli.models.runtimes.devices import choose, why_no_bfloat16

    chosen = settings.encoder
    if chosen.kind == "remote":
        return "none is needed here: a server encodes (encoder.kind: remote)", False
    # Feature hashing does not use a device.
    device = "auto" if chosen.kind == "hashed" else chosen.device
    choice = choose(device, chosen.kind, precision=chosen.precision)
    slow = choice.device == "cpu" and choice.precision == "bfloat16" and bool(why_no_bfloat16())
    return str(choice), slow


def fetches(settings: Settings) -> bool:
    """Return True if a model that is not on this machine is downloaded at its first use."""
    from retrieve_cli.models.runtimes.locate import offline

    return settings.models.auto_download and not offline()


def cache_dir(settings: Settings) -> Path:
    """Return the folder of exported models: the configured folder, or the user's cache."""
    from retrieve_cli.models.runtimes.locate import cache_folder

    return settings.models.cache_dir or cache_folder()


def sparse_encoder_to_build(settings: Settings) -> SparseEncoder | None:
    """Return the configured encoder; None if none is configured.

    Raises:
        Unavailable: its model is not on this machine.
        UsageError: the folder is not a SPLADE model.
    """
    return _sparse_encoder(settings, settings.splade.model) if settings.splade.model else None


def sparse_encoder_to_query(settings: Settings, recipe: Recipe) -> SparseEncoder:
    """Return the encoder that an index was built with, by its card in the recipe.

    Raises:
        Unavailable: it is not on this machine, or another revision is in its place.
    """
    with reading_cards():
        (card,) = term_cards(recipe).values()
        name, revision = str(card["name"]), card["revision"]
    for model in dict.fromkeys(filter(None, (settings.splade.model, name))):
        encoder = _sparse_encoder(settings, model)
        if encoder.card["revision"] == revision:
            return encoder
    hint = "build again: retrieve build; or restore that model"
    raise Unavailable(f"the index was built with another revision of {name}", hint=hint)


def term_cards(recipe: Recipe) -> dict[str, Card]:
    """Return the cards of the retrievers that take term weights: one, if the index has any."""
    names = (retriever.name for retriever in registry.loadable(recipe.retrievers) if retriever.form is TERMS)
    return {name: recipe.retrievers[name] for name in names}


def _sparse_encoder(settings: Settings, model: str) -> SparseEncoder:
    from retrieve_cli.models.encoders.splade_encoder import SpladeEncoder
    from retrieve_cli.models.encoders.splade_folder import read_splade
    from retrieve_cli.models.runtimes.locate import locate

    settings.expect_trusted(*registry.asked_with_terms(), "models")
    chosen = settings.splade
    place = locate(model, settings.models.dir, download=settings.models.auto_download)
    return SpladeEncoder(
        read_splade(place.path, name=place.name),
        cache_dir=cache_dir(settings),
        device=chosen.device,
        min_weight=chosen.min_weight,
    )
