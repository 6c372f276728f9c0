"""The encoder of a build, by the configuration; the encoder of a query, by the card that the index was built with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import extensions
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, ModelCard
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import EncoderSettings
    from retrieve_cli.encoders.onnx_encoder import Runtime

_RUNTIMES: Mapping[str, Runtime] = {"onnx": "onnxruntime", "openvino": "openvino"}
"""What runs the exported graph, by kind."""
_BUILD_TIMEOUT = 60.0
"""Seconds of a request of a build, which has many texts, unless more is configured."""
_KINDS = ("auto", "onnx", "openvino", "torch")


def encoder_to_build(settings: Settings) -> Encoder:
    """The encoder that the configuration asks for.

    Raises:
        Unavailable: its model is not on this machine, or a GPU is required and there is none.
        UsageError: the model's folder is no sentence-transformers model, or its kind does not compute in the precision.
    """
    chosen = settings.encoder
    if chosen.kind == "hashed":
        from retrieve_cli.encoders.devices import choose

        choose(chosen.device, chosen.kind)  # rejects a GPU
        return _hashed(chosen.dim)
    if chosen.kind == "remote":
        return _remote(settings)
    if chosen.kind not in _KINDS:
        return _plugged_in(chosen.kind, settings)
    return _transformer(settings, chosen.model, chosen.query_prefix, chosen.passage_prefix)


def encoder_to_query(settings: Settings, card: ModelCard) -> Encoder:
    """The encoder that an index was built with, by its card; the configuration says where models lie.

    Raises:
        Unavailable: the model is not on this machine.
        IndexCorrupt: models of that name are there, and none is the one that the index was built with.
    """
    if card.family == "hashed":
        return _hashed(card.dim)
    if card.family == "remote":
        return _remote(settings, card)
    if card.family != "transformer":
        return _plugged_in(card.family, settings, card)
    settings = replace(settings, encoder=_for_queries(settings.encoder, card))
    found: list[str] = []
    missing: Unavailable | None = None
    for model in dict.fromkeys((settings.encoder.model, card.name)):
        try:
            encoder = _transformer(settings, model, card.query_prefix, card.passage_prefix)
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


def _for_queries(chosen: EncoderSettings, card: ModelCard) -> EncoderSettings:
    """Return the settings for queries of an index that was built with the encoder of this card.

    A GPU takes seconds to start; one short text is done on the CPU before that. It is used if it is asked for. On the
    CPU a query is encoded in float32 whatever the precision of the passages, and without torch or OpenVINO, which take
    seconds to start, if those were there for the passages' sake: the vectors' cosine is above 0.9999.
    """
    if chosen.device == "cuda":
        return chosen
    for_passages = chosen.kind == "openvino" or (chosen.kind == "torch" and card.precision == "bfloat16")
    return replace(chosen, device="cpu", precision="float32", kind="auto" if for_passages else chosen.kind)


def _plugged_in(name: str, settings: Settings, expected: ModelCard | None = None) -> Encoder:
    """A plug-in's encoder; if an index was built with one, held to that one's card."""
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
    from retrieve_cli.encoders.hashed import HashedEncoder

    return HashedEncoder(dim=dim)


def _remote(settings: Settings, expected: ModelCard | None = None) -> Encoder:
    """A server's encoder; where an index was built with one, held to that one's card."""
    from retrieve_cli.assemble.servers import client
    from retrieve_cli.encoders.remote.embeddings import RemoteEncoder

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
        batch_size=chosen.batch_size,
        tokenizer=chosen.tokenizer,
        expected=expected,
    )


def _transformer(settings: Settings, model: str, query_prefix: str | None, passage_prefix: str | None) -> Encoder:
    from retrieve_cli.encoders.devices import choose
    from retrieve_cli.encoders.locate import locate
    from retrieve_cli.encoders.model_folder import read_folder

    chosen = settings.encoder
    place = locate(model, settings.models.dir, download=settings.models.auto_download)
    folder = read_folder(place.path, name=place.name)
    prefixes: dict[str, Any] = {"query_prefix": query_prefix, "passage_prefix": passage_prefix}
    # `hashed` and `remote` speak of the next build: an index of a model needs that model until then.
    kind = "auto" if chosen.kind == "hashed" or chosen.kind == "remote" else chosen.kind
    choice = choose(chosen.device, kind, precision=chosen.precision)
    runtime, precision = _RUNTIMES.get(choice.kind), choice.precision
    if choice.kind == "torch" and choice.device == "cpu" and precision == "bfloat16":
        # A pickle is for sentence-transformers to open.
        runtime = "torch" if folder.weights[0].suffix == ".safetensors" else None
    if runtime:
        from retrieve_cli.encoders.onnx_encoder import OnnxEncoder

        try:
            return OnnxEncoder(folder, cache_dir=cache_dir(settings), runtime=runtime, precision=precision, **prefixes)
        except Unavailable:
            if chosen.kind in _RUNTIMES:
                raise  # asked for by name; `auto` goes on to torch, which runs every family, and names itself
    from retrieve_cli.encoders.torch_encoder import TorchEncoder

    return TorchEncoder(
        folder,
        cache_dir=cache_dir(settings),
        device=choice.device,
        precision=choice.precision,
        batch_size=chosen.batch_size,
        **prefixes,
    )


def prefix_sources(encoder: Encoder, settings: Settings) -> dict[str, str]:
    """Return who says what is put before queries and passages: a key of the configuration, or what is known of the
    model; nothing where nobody does."""
    said_by = getattr(getattr(encoder, "wanted", None), "said_by", "")
    given = {"query": settings.encoder.query_prefix, "passage": settings.encoder.passage_prefix}
    found = {kind: said_by if text is None else f"encoder.{kind}_prefix" for kind, text in given.items()}
    return {kind: source for kind, source in found.items() if source and hasattr(encoder, "wanted")}


def device(settings: Settings) -> str:
    """Return where the configured encoder would run and why, for people.

    Raises:
        Unavailable: a GPU is required and there is none.
    """
    from retrieve_cli.encoders.devices import choose

    chosen = settings.encoder
    if chosen.kind == "remote":
        return "none is needed here: a server encodes (encoder.kind: remote)"
    # Feature hashing does not ask for a device.
    device = "auto" if chosen.kind == "hashed" else chosen.device
    return str(choose(device, chosen.kind, precision=chosen.precision))


def slow_precision(settings: Settings) -> bool:
    """Return True if passages are encoded in a precision that this processor computes in slower than in float32."""
    from retrieve_cli.encoders.devices import choose, why_no_bfloat16

    chosen = settings.encoder
    if chosen.kind not in _KINDS or chosen.precision != "bfloat16":
        return False
    choice = choose(chosen.device, chosen.kind, precision=chosen.precision)
    return choice.device == "cpu" and bool(why_no_bfloat16())


def fetches(settings: Settings) -> bool:
    """Return whether a model that is not on this machine is downloaded at its first use."""
    from retrieve_cli.encoders.locate import offline

    return settings.models.auto_download and not offline()


def cache_dir(settings: Settings) -> Path:
    """Where exported models are kept: the configured folder, or the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return settings.models.cache_dir or base / "retrieve" / "models"
