"""Vectors, term weights and token vectors of texts: `POST /embed` and `POST /embed_sparse`.

A request with `inputs` is answered as text-embeddings-inference does, with the numbers alone; one with `texts` by an
object that names the model, has all forms that were asked for, and tells the terms of term weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from retrieve_cli.contracts import Encoder, Json, SharingPasses, SparseEncoder, TermWeights, TokenEncoder, TokenVectors
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.server.http import requests
from retrieve_cli.server.http.answers import finite
from retrieve_cli.server.http.model_parts import EMBED, EMBEDDINGS, SPARSE, ModelParts
from retrieve_cli.server.http.requests import Limits, RejectedRequest, Work

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_PROMPTS = {"": "", "query": "query", "passage": "passage", "document": "passage"}


class Embed:
    """Texts in every form that the models of a server have."""

    def __init__(self, parts: ModelParts, limits: Limits) -> None:
        self._parts, self._limits = parts, limits

    def understand(self, payload: dict[str, Any]) -> Work:
        """Return the work of a request of `/embed`. Raises: RejectedRequest."""
        requests.check_fields(payload, EMBED)
        bare, texts, kind = self._texts(payload)
        requests.check_model(payload, self._parts.names, status=404)
        check_dimensions(payload, self._parts)
        sparse, tokens = requests.flag(payload, "sparse"), requests.flag(payload, "tokens")
        if bare and sparse and tokens:
            raise RejectedRequest(400, "`inputs` takes `sparse` or `tokens`; `texts` takes both", param="tokens")
        if bare and sparse:
            return partial(self._bare_sparse, texts, kind)
        if bare and tokens:
            token_vectors = self._token_vectors(texts, kind)
            return lambda: [list(one.vectors) for one in token_vectors()]
        encoding = dense(self._parts, texts, kind, unit=self._unit(payload))
        if bare:
            return encoding.then(list)
        extra: dict[str, Callable[[], Json]] = {}
        if sparse:
            extra["sparse"] = partial(self._named_sparse, texts, kind)
        if tokens:
            token_vectors = self._token_vectors(texts, kind)
            extra["tokens"] = lambda: [{"ids": one.ids, "vectors": list(one.vectors)} for one in token_vectors()]

        def whole(vectors: Vectors) -> Json:
            answer = {"model": self._parts.name, "dim": vectors.shape[1], "embeddings": list(vectors)}
            answer.update((key, make()) for key, make in extra.items())
            return {**answer, "usage": usage(self._parts.encoder, encoding.texts)}

        return encoding.then(whole)

    def understand_sparse(self, payload: dict[str, Any]) -> Work:
        """Return the work of a request of `/embed_sparse`. Raises: RejectedRequest."""
        requests.check_fields(payload, SPARSE)
        _, texts, kind = self._texts(payload)
        return partial(self._bare_sparse, texts, kind)

    def _texts(self, payload: dict[str, Any]) -> tuple[bool, list[str], str]:
        """Return if the texts are `inputs`, the texts, and their kind."""
        if ("inputs" in payload) == ("texts" in payload):
            raise RejectedRequest(400, "the request needs `inputs` or `texts`, one of them", param="inputs")
        key = "inputs" if "inputs" in payload else "texts"
        given = payload[key]
        texts = requests.read_texts([given] if isinstance(given, str) else given, key, self._limits)
        kind = requests.one_of(payload, "input_type", ("", "query", "passage"))
        prompt = requests.one_of(payload, "prompt_name", (*_PROMPTS,))
        if kind and prompt:
            said = "`input_type` and `prompt_name` have the same meaning: give one of them"
            raise RejectedRequest(400, said, param="prompt_name")
        requests.one_of(payload, "truncation_direction", ("", "right", "Right"))
        if not requests.flag(payload, "truncate", default=True):
            encoder = self._parts.encoder
            most = encoder.card.max_tokens - encoder.tokenizer.special_tokens
            for place, text in enumerate(texts):
                if (tokens := encoder.tokenizer.count(text)) > most:
                    said = f"the text at place {place} has {tokens} tokens; the model reads {most}"
                    hint = "omit `truncate`, or set it to true"
                    raise RejectedRequest(413, said, param=key, code="too_large", hint=hint)
        return key == "inputs", texts, kind or _PROMPTS[prompt]

    def _unit(self, payload: dict[str, Any]) -> bool:
        """Return True if vectors are to be normalised here."""
        normalized, wanted = self._parts.encoder.card.normalize, requests.flag(payload, "normalize", default=True)
        if normalized and not wanted:
            said = f"the vectors of {self._parts.name} have length 1"
            raise RejectedRequest(400, said, param="normalize", hint="omit `normalize`, or set it to true")
        return wanted and not normalized and "normalize" in payload

    def _token_vectors(self, texts: Sequence[str], kind: str) -> Callable[[], list[TokenVectors]]:
        """Return the function that computes the tokens of texts with their vectors. Raises: RejectedRequest."""
        encoder = self._parts.encoder
        if not isinstance(encoder, TokenEncoder):
            said = f"{self._parts.name} has no token vectors"
            raise RejectedRequest(424, said, param="tokens", code="no_token_vectors", hint="omit `tokens`")
        full = [self._parts.prefixes.get(kind, "") + text for text in texts]
        if kind == "query":
            return partial(encoder.encode_tokens, full)

        def passages() -> list[TokenVectors]:
            taken: dict[int, TokenVectors] = {}
            encoder.encode_passages_into(full, taken.__setitem__)
            return [taken[place] for place in range(len(full))]

        return passages

    def _bare_sparse(self, texts: Sequence[str], kind: str) -> Json:
        """Return term weights by the ids of the terms."""
        _, weighted = self._sparse(texts, kind)
        return [
            [{"index": term, "value": weight} for term, weight in zip(one.terms.tolist(), one.weights, strict=True)]
            for one in weighted
        ]

    def _named_sparse(self, texts: Sequence[str], kind: str) -> Json:
        """Return term weights by term, the heaviest first."""
        encoder, weighted = self._sparse(texts, kind)
        words: Sequence[str] = cast("Any", encoder).vocabulary() if hasattr(encoder, "vocabulary") else []
        features = []
        for one in weighted:
            terms = one.terms.tolist()
            names = [(words[term] if term < len(words) else "") or f"#{term}" for term in terms]
            order = sorted(range(len(terms)), key=lambda place: (-one.weights[place], place))
            features.append({names[place]: one.weights[place] for place in order})
        return {"model": encoder.card["name"], "features": features}

    def _sparse(self, texts: Sequence[str], kind: str) -> tuple[SparseEncoder, list[TermWeights]]:
        said, hint = "this server has no sparse encoder", "set splade.model, then restart the server"
        try:
            encoder = self._parts.sparse()
        except RetrieveError as error:
            encoder, said, hint = None, error.message, error.hint
        if encoder is None:
            raise RejectedRequest(424, said, param="sparse", code="no_sparse_encoder", hint=hint)
        weighted = (encoder.encode_queries if kind == "query" else encoder.encode_passages)(texts)
        for one in weighted:
            finite(one.weights)
        return encoder, weighted


_JOINED = 16
"""Texts of a request up to which it may share a pass: a longer one fills a pass by itself."""


class Encoding(Frozen):
    """Work of one encoder pass, which several requests may share; see `admission.Queue`."""

    texts: Sequence[str]
    encode: Callable[[Sequence[str]], Vectors]
    finish: Callable[[Vectors], Json]
    joinable: bool
    """True if the vector of a text is bit-identical no matter which other texts share the pass."""

    def __call__(self) -> Json:
        return self.finish(self.encode(self.texts))

    def then(self, finish: Callable[[Vectors], Json]) -> Encoding:
        """Return the same pass, whose finite vectors become another answer."""
        before = self.finish
        return replace(self, finish=lambda vectors: finish(before(vectors)))


def embeddings(parts: ModelParts, limits: Limits, payload: dict[str, Any]) -> Work:
    """Return the work of an embeddings request. Raises: RejectedRequest."""
    requests.check_fields(payload, EMBEDDINGS)
    requests.check_model(payload, parts.names, status=404)
    given = payload.get("input")
    texts = requests.read_texts([given] if isinstance(given, str) else given, "input", limits)
    form = requests.one_of(payload, "encoding_format", ("float", "base64"))
    kind = requests.one_of(payload, "input_type", ("", "query", "passage"))
    check_dimensions(payload, parts)
    encoding = dense(parts, texts, kind)

    def answer(vectors: Vectors) -> Json:
        from base64 import b64encode

        rows = [b64encode(row.astype("<f4").tobytes()).decode() if form == "base64" else row for row in vectors]
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
        used = usage(parts.encoder, encoding.texts)
        return {"object": "list", "data": data, "model": parts.name, "usage": used}

    return encoding.then(answer)


def dense(parts: ModelParts, texts: Sequence[str], kind: str, *, unit: bool = False) -> Encoding:
    """Return the pass that gives the vectors of texts: finite, and of L2 norm 1 if `unit`.

    Raises:
        RejectedRequest: by the pass, if the model returns numbers that are not finite.
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
        raise RejectedRequest(400, said, param="dimensions")


def usage(encoder: Encoder, texts: Sequence[str]) -> dict[str, int]:
    """Return the tokens of texts with the special tokens, and the number of truncated texts."""
    counts = [encoder.tokenizer.count(text) + encoder.tokenizer.special_tokens for text in texts]
    # An encoder that has never cut a text may read more than its card says.
    cut = sum(count > encoder.card.max_tokens for count in counts) if encoder.truncated else 0
    return {"prompt_tokens": sum(counts), "total_tokens": sum(counts), "truncated": cut}


def _unit(vectors: Vectors) -> Vectors:
    import numpy as np

    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return finite(vectors / np.maximum(norms, 1e-12)[:, None])
