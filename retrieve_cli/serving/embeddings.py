"""Embeddings, as OpenAI's API has them: https://platform.openai.com/docs/api-reference/embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Encoder, Json, SharingPasses
from retrieve_cli.serving.answers import finite
from retrieve_cli.serving.model_parts import ModelParts
from retrieve_cli.serving.requests import Limits, Rejected, Work, check_fields, check_model, one_of, read_texts

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_FIELDS = ("input", "model", "encoding_format", "dimensions", "input_type", "user")
_JOINED = 16
"""Texts of a request up to which it may share a pass: a longer one fills a pass by itself."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Work that is one pass of an encoder, which several requests may share; see `admission.Queue`."""

    texts: Sequence[str]
    encode: Callable[[Sequence[str]], Vectors]
    finish: Callable[[Vectors], Json]
    joinable: bool
    """True if a text has the same vector, to the bit, whatever other texts share the pass."""

    def __call__(self) -> Json:
        return self.finish(self.encode(self.texts))

    def then(self, finish: Callable[[Vectors], Json]) -> Encoding:
        """Return the same pass, whose finite vectors become another answer."""
        before = self.finish
        return replace(self, finish=lambda vectors: finish(before(vectors)))


class Embeddings:
    """Vectors of texts."""

    def __init__(self, parts: ModelParts, limits: Limits) -> None:
        self._parts = parts
        self._limits = limits

    def understand(self, payload: dict[str, Any]) -> Work:
        """Return the work of an embeddings request. Raises: Rejected."""
        check_fields(payload, _FIELDS)
        check_model(payload, self._parts.names, status=404)
        given = payload.get("input")
        texts = read_texts([given] if isinstance(given, str) else given, "input", self._limits)
        form = one_of(payload, "encoding_format", ("float", "base64"))
        kind = one_of(payload, "input_type", ("", "query", "passage"))
        check_dimensions(payload, self._parts)
        encoding = dense(self._parts, texts, kind)
        return encoding.then(lambda vectors: self._answer(encoding.texts, vectors, form))

    def _answer(self, texts: Sequence[str], vectors: Vectors, form: str) -> Json:
        spelled = _base64(vectors) if form == "base64" else list(vectors)
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(spelled)]
        return {
            "object": "list",
            "data": data,
            "model": self._parts.name,
            "usage": usage(self._parts.encoder, texts),
        }


def dense(parts: ModelParts, texts: Sequence[str], kind: str, *, unit: bool = False) -> Encoding:
    """Return the pass that gives the vectors of texts: finite, and of L2 norm 1 if `unit`.

    Raises:
        Rejected: by the pass, if the model returns numbers that are not finite.
    """
    encoder = parts.encoder
    return Encoding(
        [parts.prefixes[kind] + text for text in texts] if kind else list(texts),
        encoder.encode_queries if kind == "query" else encoder.encode_passages,
        _unit if unit else finite,
        joinable=isinstance(encoder, SharingPasses) and encoder.shares_passes and len(texts) <= _JOINED,
    )


def check_dimensions(payload: dict[str, Any], parts: ModelParts) -> None:
    """Reject another number of dimensions than the model's."""
    dim = parts.encoder.card.dim
    if payload.get("dimensions", dim) != dim:
        said = f"{parts.name} has {dim} dimensions; no other number is available"
        raise Rejected(400, said, param="dimensions")


def usage(encoder: Encoder, texts: Sequence[str]) -> dict[str, int]:
    """Return the tokens of texts as they are encoded, and the number of texts of which the end was cut."""
    counts = [encoder.tokenizer.count(text) + encoder.tokenizer.special_tokens for text in texts]
    # An encoder that has never cut a text may read more than its card says.
    cut = sum(count > encoder.card.max_tokens for count in counts) if encoder.truncated else 0
    return {"prompt_tokens": sum(counts), "total_tokens": sum(counts), "truncated": cut}


def _unit(vectors: Vectors) -> Vectors:
    import numpy as np

    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return finite(vectors / np.maximum(norms, 1e-12)[:, None])


def _base64(vectors: Vectors) -> list[str]:
    """Each row as little-endian float32."""
    from base64 import b64encode

    return [b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
