"""The models of a server: the configured encoder, and the cross-encoder and sparse encoder if they are configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, PairScorer, SparseEncoder


class ModelParts(NamedTuple):
    """Models, and the names that a request may give them."""

    encoder: Encoder
    """The encoder, which adds no prefix to a text."""
    name: str
    """Name of the encoder's model."""
    scorer: PairScorer | None = None
    sparse: Callable[[], SparseEncoder | None] = lambda: None
    """Returns the sparse encoder, whose model may be missing."""
    query_prefix: str = ""
    passage_prefix: str = ""
    configured_name: str = ""
    """Name of the encoder's model in the configuration, if it has another one there."""

    @property
    def prefixes(self) -> dict[str, str]:
        """Prefixes by `input_type`."""
        return {"query": self.query_prefix, "passage": self.passage_prefix}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoder's model: in full, without its owner, and as it is configured."""
        return tuple(dict.fromkeys(filter(None, (self.name, self.name.rpartition("/")[2], self.configured_name))))


def configured(settings: Settings) -> ModelParts:
    """Return the configured models. Their weights load at the first text.

    Raises:
        Unavailable: a model is not on this machine.
        UsageError: a cross-encoder is configured without a model.
    """
    from retrieve_cli.assemble import encoders, splade
    from retrieve_cli.assemble.rerankers import pair_scorer
    from retrieve_cli.config.loading import override

    card = encoders.encoder_to_build(settings).card
    bare = override(settings, {"encoder": {"query_prefix": "", "passage_prefix": ""}}, where="serve")
    scorer = pair_scorer(settings) if settings.rerank.backend == "cross_encoder" else None
    own = settings.encoder.kind != "hashed"
    return ModelParts(
        encoders.encoder_to_build(bare),
        card.name,
        scorer,
        lambda: splade.encoder_to_build(settings),
        card.query_prefix,
        card.passage_prefix,
        settings.encoder.model if own else "",
    )


def warm(parts: ModelParts) -> None:
    """Load the models of the encoder and of the reranker."""
    parts.encoder.encode_passages(["ready"])
    if parts.scorer is not None:
        parts.scorer.score("ready", ["ready"])
