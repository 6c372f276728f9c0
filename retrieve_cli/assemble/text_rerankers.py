"""The configured reranker over texts that no index holds, such as abstracts of works that were found on the web."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.assemble.encoders import encoder_to_build, encoder_to_query
from retrieve_cli.assemble.rerankers import PairReranker, configured_scorer
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, TokenEncoder
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.retrieval.stages.rerank import Reader


def query_encoder(settings: Settings) -> Encoder:
    """Return the configured encoder as queries use it: on the CPU unless a GPU is configured.

    Raises:
        Unavailable: its model is not on this machine.
    """
    return encoder_to_query(settings, encoder_to_build(settings).card)


def reader(settings: Settings, encoder: Encoder | None, texts: Sequence[str]) -> Reader | None:
    """Return the reranker of texts, which takes a hit's row as the place of its text; None if none is configured.

    `encoder` is the result of `query_encoder`, or None if `needs_encoder` is false.

    Raises:
        Unavailable: its model is not on this machine, or the encoder has no token vectors.
    """
    backend = settings.rerank.backend
    if backend == "none":
        return None
    if backend in TOKEN_BACKENDS:
        if encoder is None or not isinstance(encoder, TokenEncoder):
            hint = "set encoder.kind: auto, or rerank.backend: none"
            raise Unavailable("the configured encoder has no token vectors", hint=hint)
        from retrieve_cli.models.rerankers.late_interaction import TextReader

        return TextReader(encoder, encoder, texts)
    scorer = configured_scorer(settings, most=settings.rerank.keep)
    return PairReranker(scorer, lambda hits: [texts[hit.row] for hit in hits])


def needs_encoder(settings: Settings) -> bool:
    """Return True if the configured reranker compares token vectors."""
    return settings.rerank.backend in TOKEN_BACKENDS
