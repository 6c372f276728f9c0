"""Embeddings, as OpenAI's API has them: https://platform.openai.com/docs/api-reference/embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Encoder, Json
from retrieve_cli.serving.answers import finite
from retrieve_cli.serving.requests import Limits, Rejected, Work, check_fields, check_model, one_of, read_texts

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_FIELDS = ("input", "model", "encoding_format", "dimensions", "input_type", "user")


class Embeddings:
    """Vectors of texts, by an encoder called `name`; `prefixes` are those of queries and of passages."""

    def __init__(self, encoder: Encoder, name: str, *, prefixes: Mapping[str, str], limits: Limits) -> None:
        self._encoder = encoder
        self._name = name
        self._prefixes = prefixes
        self._limits = limits

    def understand(self, payload: dict[str, Any]) -> Work:
        """Return the work of an embeddings request. Raises: Rejected."""
        check_fields(payload, _FIELDS)
        check_model(payload, self._name, status=404)
        given = payload.get("input")
        texts = read_texts([given] if isinstance(given, str) else given, "input", self._limits)
        form = one_of(payload, "encoding_format", ("float", "base64"))
        kind = one_of(payload, "input_type", ("", "query", "passage"))
        dim = self._encoder.card.dim
        if payload.get("dimensions", dim) != dim:
            raise Rejected(400, f"{self._name} has {dim} dimensions; no other number is available", param="dimensions")
        return lambda: self._embedded(texts, kind, form)

    def _embedded(self, texts: list[str], kind: str, form: str) -> Json:
        tokenizer, before = self._encoder.tokenizer, self._encoder.truncated
        full = [self._prefixes[kind] + text for text in texts] if kind else texts
        vectors = self._encoder.encode_queries(full) if kind == "query" else self._encoder.encode_passages(full)
        spelled = _base64(finite(vectors)) if form == "base64" else list(finite(vectors))
        tokens = sum(map(tokenizer.count, full)) + tokenizer.special_tokens * len(full)
        # Cut at the model's limit, as the encoder does on this machine, and said.
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "truncated": self._encoder.truncated - before}
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(spelled)]
        return {"object": "list", "data": data, "model": self._name, "usage": usage}


def _base64(vectors: Vectors) -> list[str]:
    """Each row as little-endian float32."""
    from base64 import b64encode

    return [b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
