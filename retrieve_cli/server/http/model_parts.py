"""The models of a server and their descriptions: the configured encoder, and the cross-encoder and sparse encoder if
they are configured.

`inputs`, `/embed_sparse` and `/info` have the shapes of text-embeddings-inference, so that its clients work: https://huggingface.github.io/text-embeddings-inference
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder, Json, PairScorer, SparseEncoder
from retrieve_cli.server.http.requests import Limits
from retrieve_cli.version import __version__


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
        """Names of the encoder's model: in full, without its owner, and the configured name."""
        return tuple(dict.fromkeys(filter(None, (self.name, self.name.rpartition("/")[2], self.configured_name))))


def configured(settings: Settings) -> ModelParts:
    """Return the configured models. Their weights load at the first text.

    Raises:
        Unavailable: a model is not on this machine.
        UsageError: a cross-encoder is configured without a model.
    """
    from retrieve_cli.assemble import encoders
    from retrieve_cli.assemble.rerankers import pair_scorer
    from retrieve_cli.config.loading import override

    card = encoders.encoder_to_build(settings).card
    bare = override(settings, {"encoder": {"query_prefix": "", "passage_prefix": ""}}, where="serve")
    scorer = pair_scorer(settings) if settings.rerank.backend == "cross_encoder" else None
    return ModelParts(
        encoders.encoder_to_build(bare),
        card.name,
        scorer,
        lambda: encoders.sparse_encoder_to_build(settings),
        card.query_prefix,
        card.passage_prefix,
        settings.encoder.model if settings.encoder.kind != "hashed" else "",
    )


def load_models(parts: ModelParts) -> None:
    """Load the models of the encoder and of the reranker."""
    parts.encoder.encode_passages(["ready"])
    if parts.scorer is not None:
        parts.scorer.score("ready", ["ready"])


# -------------------------------------------------------------------------------------------------------------- schemas


_TEXT: Json = {"type": "string", "minLength": 1}
_TEXTS: Json = {"type": "array", "items": _TEXT, "minItems": 1}
_TEXT_OR_TEXTS: Json = {"anyOf": [_TEXT, _TEXTS]}
_SCORED_TEXTS: Json = {"type": "array", "minItems": 1, "items": {"type": "string"}}
_KIND: Json = {"enum": ["query", "passage"], "description": "Adds the model's own prefix."}
_MODEL: Json = {"type": "string", "description": "Name of the model, in full or without its owner."}
_DIMENSIONS: Json = {"type": "integer", "description": "The model's own number of dimensions; no other is available."}
_FLAG: Json = {"type": "boolean"}


class Post(NamedTuple):
    """An endpoint that computes."""

    name: str
    work: str
    """Name of its work."""
    summary: str
    schema: Json
    answer: str | Mapping[str, Json]
    """Schema of its answer, or the name of one."""


def _object(properties: Mapping[str, Json], *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEI: Mapping[str, Json] = {
    "inputs": _TEXT_OR_TEXTS,
    "truncate": {"type": "boolean", "description": "False: a text that is too long is an error."},
    "truncation_direction": {"type": "string", "pattern": "^[Rr]ight$"},
    "prompt_name": {"enum": ["query", "passage", "document"], "description": "As `input_type`."},
}
_EMBED: Mapping[str, Json] = {
    **_TEI,
    "texts": _TEXTS,
    "input_type": _KIND,
    "normalize": {"type": "boolean", "default": True},
    "dimensions": _DIMENSIONS,
    "sparse": {"type": "boolean", "description": "Term weights of the SPLADE model, too."},
    "tokens": {"type": "boolean", "description": "The vector of each token, too."},
    "model": _MODEL,
}
_SPARSE: Mapping[str, Json] = {**_TEI, "model": _MODEL}
_RERANK_DOCUMENTS: Mapping[str, Json] = {
    "query": _TEXT,
    "documents": _SCORED_TEXTS,
    "model": _MODEL,
    "top_n": {"type": "integer", "minimum": 1},
    "return_documents": _FLAG,
}
_RERANK_TEXTS: Mapping[str, Json] = {
    "query": _TEXT,
    "texts": _SCORED_TEXTS,
    "raw_scores": {"type": "boolean", "description": "True: scores are on the scale of the model."},
    "return_text": _FLAG,
    "truncate": _FLAG,
}
_RERANK: Json = {"anyOf": [_object(_RERANK_DOCUMENTS, "query", "documents"), _object(_RERANK_TEXTS, "query", "texts")]}
_EMBEDDINGS: Mapping[str, Json] = {
    "input": _TEXT_OR_TEXTS,
    "model": _MODEL,
    "encoding_format": {"enum": ["float", "base64"]},
    "dimensions": _DIMENSIONS,
    "input_type": _KIND,
    "user": {},
}
EMBED, SPARSE, EMBEDDINGS = tuple(_EMBED), tuple(_SPARSE), tuple(_EMBEDDINGS)
"""Keys of the requests."""
_SCHEMAS = "#/components/schemas/"
_VECTORS: Json = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
_WEIGHTS: Json = {"type": "array", "items": {"type": "array", "items": {"$ref": f"{_SCHEMAS}TermWeight"}}}
_SCORES: Json = {"type": "array", "items": {"$ref": f"{_SCHEMAS}ScoredText"}}
_NAMED: Json = {"anyOf": [{"$ref": f"{_SCHEMAS}NamedVectors"}, _VECTORS]}
_SCORED: Json = {"anyOf": [{"$ref": f"{_SCHEMAS}RerankedDocuments"}, _SCORES]}
POSTS: Mapping[str, Post] = {
    "/embed": Post(
        "embed", "embed", "Return vectors of texts, and their term weights and token vectors.", _object(_EMBED), _NAMED
    ),
    "/embed_sparse": Post(
        "embed_sparse", "sparse", "Return term weights of texts.", _object(_SPARSE, "inputs"), _WEIGHTS
    ),
    "/v1/embeddings": Post(
        "create_embeddings",
        "embeddings",
        "Return vectors of texts, as OpenAI's API does.",
        _object(_EMBEDDINGS, "input"),
        "EmbeddingList",
    ),
    "/v1/rerank": Post("rerank", "rerank", "Return scores of documents for a query.", _RERANK, _SCORED),
    "/rerank": Post("rerank_texts", "rerank", "Return scores of texts for a query.", _RERANK, _SCORED),
}


def listing(parts: ModelParts) -> Json:
    """Return the models as OpenAI's API lists them."""
    names = dict.fromkeys([parts.name, *([parts.scorer.name] if parts.scorer else [])])
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "retrieve"} for name in names]
    return {"object": "list", "data": data}


def info(parts: ModelParts, limits: Limits) -> dict[str, Json]:
    """Return the embedding model and the limits as text-embeddings-inference tells them."""
    card = parts.encoder.card
    return {
        "model_id": parts.name,
        "model_sha": card.revision,
        "model_dtype": card.precision,
        "model_type": {"embedding": {"pooling": card.pooling}},
        "max_concurrent_requests": limits.waiting,
        "max_input_length": card.max_tokens,
        "max_client_batch_size": limits.inputs,
        "auto_truncate": True,
        "version": __version__,
    }
