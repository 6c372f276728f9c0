"""An encoder behind an OpenAI-compatible embeddings endpoint (vLLM, TEI, Infinity, llama.cpp, OpenAI itself).

https://platform.openai.com/docs/api-reference/embeddings

A tokenizer for models whose own is not at hand: it counts rather too many tokens than too few.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json, ModelCard, Tokenizer
from retrieve_cli.errors import Unavailable
from retrieve_cli.http.limits import Clock
from retrieve_cli.models.remote.client import Client, OtherModel, ServerFailed
from retrieve_cli.models.runtimes.packages import Truncating, once
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, readable
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.models.runtimes.model_folder import Prefixes


_PATH = "/embeddings"
_PROBE = "dimension"
"""Text of the request that reads the server's model name and dimension."""
_TOO_MUCH = (
    "if a text is too long for the model, lower encoder.max_tokens or name the model's encoder.tokenizer; if the batch "
    "is too large, raise the server's limit to 32 texts; if it does not know encoder.dimensions, remove it"
)


class RemoteEncoder(Truncating):
    """`contracts.Encoder` whose vectors a server computes. Nothing is asked before the card or a vector is.

    A text longer than the card's `max_tokens` is cut here and counted, never in silence by the server. A blank text,
    which servers refuse, has the zero vector. Servers batch as they like: a vector may differ in its last bits with
    its neighbours.
    """

    def __init__(
        self,
        client: Client,
        *,
        model: str,
        max_tokens: int,
        dimensions: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        normalize: bool = True,
        batch_size: int = 32,
        tokenizer: Path | None = None,
        expected: ModelCard | None = None,
    ) -> None:
        """`dimensions` is sent where it is set; `tokenizer` is a tokenizer.json or a folder with one; a prefix of None
        means the known prefix of the model's family.

        `expected` is the card of an index: it replaces the server's description and the prefixes and limits given here,
        and every answer is checked against it.
        """
        self._client = client
        self._model = model
        self._max_tokens = max_tokens
        self._dimensions = dimensions
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._normalize = normalize
        self._batch_size = batch_size
        self._tokenizer_path = tokenizer
        self._expected = expected

    @once
    def card(self) -> ModelCard:
        """The model's name as the server reports it, and the length of its vectors; requested once.

        Raises:
            Unavailable: the server is not there.
            ServerFailed: it answers something else than a vector, or one of another length than was asked for.
        """
        if self._expected is not None:
            return self._expected
        receive = partial(self._read, count=1)
        model, vectors = self._client.ask(_PATH, self._payload([_PROBE]), receive, hint=_TOO_MUCH)
        dim = vectors.shape[1]
        if self._dimensions not in (None, dim):
            raise self._failure(f"was asked for {self._dimensions} dimensions and answers with {dim}")
        wanted = _wanted(self._model, model)
        return ModelCard(
            family="remote",
            name=model,
            revision=sha1({"api": "embeddings", "model": model, "dim": dim}),
            dim=dim,
            max_tokens=self._max_tokens,
            query_prefix=wanted.query if self._query_prefix is None else self._query_prefix,
            passage_prefix=wanted.passage if self._passage_prefix is None else self._passage_prefix,
            pooling="none",
            normalize=self._normalize,
        )

    @property
    def wanted(self) -> Prefixes:
        """Prefixes that the model wants, whether or not they are overruled."""
        return _wanted(self._model, self.card.name)

    @once
    def tokenizer(self) -> Tokenizer:
        """The model's own where its file was named; one that counts rather too much where it was not.

        Raises:
            Unavailable: the file is not there.
        """
        if self._tokenizer_path is None:
            return PieceTokenizer()
        path = self._tokenizer_path
        path = path / "tokenizer.json" if path.is_dir() else path
        if not path.is_file():
            hint = "fetch the model's tokenizer.json, or remove encoder.tokenizer: tokens are then estimated"
            raise Unavailable(f"the tokenizer {path} does not exist", hint=hint)
        return ModelTokenizer.read(path)

    @property
    def device(self) -> str:
        return f"remote ({self._client.address})"

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, rows of L2 norm 1 where the card normalises; a blank text has the zero vector.

        All requests, retries and pauses together have the client's `timeout_s`: a user waits for the answer.

        Raises:
            Unavailable: the server is not there.
            ServerFailed: it answers something else than one vector a text.
            OtherModel: it is not the model that the index was built with.
        """
        return self._encode(texts, prefix=self.card.query_prefix, clock=self._client.clock())

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, as `encode_queries` gives them."""
        return self.encode_passages_gradually(texts, lambda *_: None)

    def encode_passages_gradually(
        self,
        texts: Sequence[str],
        done: Callable[[Sequence[int], Sequence[Vectors]], None],
        take: object = None,  # noqa: ARG002  a server gives no tokens
    ) -> Vectors:
        """Return what `encode_passages` does; `done` gets places and vectors of each answer, from any thread."""
        return self._encode(texts, prefix=self.card.passage_prefix, clock=None, done=done)

    def _encode(
        self,
        texts: Sequence[str],
        *,
        prefix: str,
        clock: Clock | None,
        done: Callable[[Sequence[int], Sequence[Vectors]], None] = lambda *_: None,
    ) -> Vectors:
        vectors = np.zeros((len(texts), self.card.dim), dtype=np.float32)
        asked = [self._fitted(readable(prefix + text)) for text in texts]
        places = [place for place, text in enumerate(asked) if text.strip()]
        starts = range(0, len(places), self._batch_size)
        batches = [places[start : start + self._batch_size] for start in starts]
        payloads = [self._payload([asked[place] for place in batch]) for batch in batches]

        def receive(answer: Json, place: int) -> Vectors:
            rows = self._held(*self._read(answer, len(batches[place])))
            done(batches[place], list(rows))
            return rows

        answers = self._client.ask_all(_PATH, payloads, receive, hint=_TOO_MUCH, clock=clock)
        for batch, rows in zip(batches, answers, strict=True):
            vectors[batch] = rows
        return vectors

    def _payload(self, texts: list[str]) -> dict[str, Any]:
        dimensions = {} if self._dimensions is None else {"dimensions": self._dimensions}
        return {"model": self._model, "input": texts, "encoding_format": "float", **dimensions}

    def _fitted(self, text: str) -> str:
        """The text, or as much of its beginning as the card's limit lets through."""
        tokenizer = self.tokenizer
        room = max(0, self.card.max_tokens - tokenizer.special_tokens)
        if tokenizer.count(text) <= room:
            return text
        self._count_truncated(1)
        # A cut may part a token into several: until it is short enough, and ever shorter.
        while len(spans := tokenizer.spans(text)) > room:
            text = text[: min(spans[room][0], len(text) - 1)]
        return text

    def _read(self, answer: Json, count: int) -> tuple[str, Vectors]:
        """The model that the server names, the requested model if it names none, and the vectors."""
        vectors = self._vectors(answer, count)
        model = answer.get("model")
        name = self._client.plain(model.strip()) if isinstance(model, str) else ""
        return name or self._model, vectors

    def _held(self, model: str, vectors: Vectors) -> Vectors:
        """The vectors, where they are of the card's model and length."""
        card, dim = self.card, vectors.shape[1]
        if (model, dim) == (card.name, card.dim):
            return to_unit(vectors) if card.normalize else vectors
        other = f"{model} ({dim} dimensions)"
        if self._expected is None:
            raise self._failure(f"answered as {card.name} ({card.dim} dimensions) before, and now as {other}")
        raise OtherModel(
            f"the index was built with {card.name} ({card.dim} dimensions); {self._client.address} answers as {other}",
            hint="name the server and model that it was built with, or build the index again: retrieve build",
        )

    def _vectors(self, answer: Json, count: int) -> Vectors:
        """The vectors of `count` texts in their order (https://platform.openai.com/docs/api-reference/embeddings/object).

        They are (n, dim) float32 and finite; no row is zero.

        Raises:
            ServerFailed: it has another number of vectors, vectors of several lengths, or something that is not one.
        """
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
            raise self._failure("answers without a list of vectors (`data`)", part=answer)
        rows: list[Json] = answer["data"]
        if len(rows) != count:
            raise self._failure(f"answers with {len(rows)} vectors for {count} texts")
        vectors: dict[int, Vectors] = {}
        for row in rows:
            place = row.get("index") if isinstance(row, dict) else None
            if type(place) is not int or not 0 <= place < count or place in vectors:
                what = f"does not number its vectors from 0 to {count - 1}, each once, by `index`"
                raise self._failure(what, part=place)
            vectors[place] = self._vector(row.get("embedding"), place)
        lengths = sorted({len(vector) for vector in vectors.values()})
        if len(lengths) > 1:
            raise self._failure(f"answers with vectors of different lengths: {lengths[0]} and {lengths[-1]} numbers")
        return np.stack([vectors[place] for place in range(count)])

    def _vector(self, numbers: Json, place: int) -> Vectors:
        if isinstance(numbers, str):  # little-endian float32, as `encoding_format: base64` gives them
            try:
                raw = b64decode(numbers, validate=True)
            except ValueError:
                raw = b""
            if not raw or len(raw) % 4:
                raise self._failure(f"answers with a vector {place} that is not base64 of float32 numbers")
            vector = np.frombuffer(raw, dtype="<f4").astype(np.float32)
        # By type: a list of strings or of booleans would turn to numbers without a word.
        elif isinstance(numbers, list) and numbers and set(map(type, numbers)) <= {int, float}:
            with np.errstate(over="ignore"):
                vector = np.array(numbers, dtype=np.float64).astype(np.float32)
        else:
            raise self._failure(f"answers with a vector {place} that is not a list of numbers")
        if not np.isfinite(vector).all():
            raise self._failure(f"answers with a vector {place} that has NaN or infinite numbers")
        if not vector.any():
            raise self._failure(f"answers with a vector {place} of zeros")
        return vector

    def _failure(self, what: str, *, part: Json = None) -> ServerFailed:
        return self._client.failure(_PATH, what, part=part)


def _wanted(*names: str) -> Prefixes:
    """The prefixes of a model by the names that it goes by."""
    from retrieve_cli.models.runtimes.model_folder import by_name  # an index has its own: no query asks for it

    return by_name(*names)


def to_unit(vectors: Vectors) -> Vectors:
    """Return the rows scaled to L2 norm 1, within the precision of float32."""
    wide = vectors.astype(np.float64)
    scaled: Vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return scaled


_PIECE = re.compile(r"[A-Z]{1,2}(?![a-z])|[A-Z]?[a-z]{1,3}|\n+|[^\S\n]{2,8}|\S")


class PieceTokenizer:
    """`contracts.Tokenizer` by rule: three small letters are a token, two capitals, a digit, a mark, a run of blanks;
    a character beyond ASCII is as many as its UTF-8 has bytes, less one.

    Of prose, code and catalogs in English, German, Russian, Chinese and Hindi it counts 1.0 to 2.8 times what the word
    pieces of BERT count. Letters strung together by chance are undercounted, to a half at worst.
    """

    @property
    def special_tokens(self) -> int:
        return 2

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """A character of several tokens has its span several times, as byte-level tokenizers have it."""
        return list(_spans(text))

    def count(self, text: str) -> int:
        return len(_PIECE.findall(text)) if text.isascii() else sum(1 for _ in _spans(text))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _PIECE.finditer(text):
        piece = match.group()
        tokens = 1 if len(piece) > 1 or piece.isascii() else len(piece.encode("utf-8", "replace")) - 1
        for _ in range(max(1, tokens)):
            yield match.span()
