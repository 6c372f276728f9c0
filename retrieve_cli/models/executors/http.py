"""A worker that is a server: `retrieve serve --encoders` on another machine, or one that speaks OpenAI's API.

Our own server gives vectors, token vectors and term weights, as JSON whose numbers are read back to the bit. Others
give vectors alone, as base64 of float32.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from threading import Event
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Json, TermWeights, TokenVectors
from retrieve_cli.contracts.models import Encoded, Wanted
from retrieve_cli.errors import ModelFailed, RetrieveError, Unavailable
from retrieve_cli.models.executors.workers import NotEncoded, ProbeAnswer, Unfit, UnitResults, WorkerEnded, WorkUnit
from retrieve_cli.storage.token_table import pack

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

T = TypeVar("T")

_TEXTS = 32
"""Texts of a request: what any server takes."""
_WITH_TOKENS = 8
"""Texts of a request for token vectors, which are some 100 times as large as the text's vector."""
_UNKNOWN = frozenset({400, 404, 405, 415, 422})
"""Statuses of a server that does not know our form of a request."""
_HINTED = frozenset({401, 403, 424})
"""Statuses that will not change: no access, or the model does not exist."""
_UNIT = 1e-5
"""Error of a squared norm up to which a vector has length 1."""


class Asks(Protocol):
    """A client of one server."""

    @property
    def address(self) -> str: ...

    def ask(self, path: str, payload: Json, receive: Callable[[Json], T], *, stop: Event | None = None) -> T:
        """Return what `receive` makes of the answer to a POST."""

    def close(self) -> None: ...


class Model(NamedTuple):
    """Expectations of a server."""

    name: str
    """Name of the model in requests to servers other than ours."""
    dim: int
    normalize: bool
    passage_prefix: str = ""
    vectors: bool = True
    tokens: bool = False
    terms: bool = False
    fitted: Callable[[str], str] = str
    """Cuts a text to the model's limit, for servers that reject a longer one."""

    @property
    def everything(self) -> Wanted:
        """Forms that the server has to make."""
        return Wanted(self.vectors, self.terms)


class HttpWorker:
    """`EncodingWorker` on a server."""

    def __init__(self, client: Asks, model: Model) -> None:
        self._client = client
        self._model = model
        self._ours = True
        self._stop = Event()
        self._truncated = 0

    def start(self, probes: Sequence[str]) -> ProbeAnswer:
        wanted = [self._model.everything] * len(probes)
        try:
            return ProbeAnswer(None, self._all(probes, wanted), self._client.address)
        except NotEncoded as error:
            if self._model.tokens or self._model.terms:
                needed = "token vectors" if self._model.tokens else "term weights"
                raise Unfit(f"{error}; {needed} come from `retrieve serve --encoders` only") from error
        self._ours = False
        try:
            return ProbeAnswer(None, self._all(probes, wanted), self._client.address)
        except NotEncoded as error:
            raise Unfit(str(error)) from error

    def encode(self, work: WorkUnit) -> Iterator[UnitResults]:
        yield UnitResults((), ())  # a server does not say when it begins
        step = _WITH_TOKENS if self._model.tokens else _TEXTS
        for start in range(0, len(work.texts), step):
            part = slice(start, start + step)
            self._truncated = 0
            encoded = self._some(work.texts[part], work.wanted[part])
            yield UnitResults(range(start, start + len(encoded)), encoded, self._truncated)

    def kill(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """Let go of the connections."""
        self._stop.set()
        self._client.close()

    def _all(self, texts: Sequence[str], wanted: Sequence[Wanted]) -> list[Encoded]:
        return [one for results in self.encode(WorkUnit(0, texts, wanted)) for one in results.encoded]

    def _some(self, texts: Sequence[str], wanted: Sequence[Wanted]) -> list[Encoded]:
        dense = [place for place, each in enumerate(wanted) if each.vector]
        sparse = [place for place, each in enumerate(wanted) if each.terms]
        made = [Encoded()] * len(texts)
        if dense:
            prefixed = [self._model.passage_prefix + texts[place] for place in dense]
            for place, one in zip(dense, self._own(prefixed) if self._ours else self._openai(prefixed), strict=True):
                made[place] = one
        if sparse:
            weights = self._weights([texts[place] for place in sparse])
            for place, terms in zip(sparse, weights, strict=True):
                made[place] = made[place]._replace(terms=terms)
        return made

    def _own(self, texts: Sequence[str]) -> list[Encoded]:
        payload = {"texts": list(texts), **({"tokens": True} if self._model.tokens else {})}

        def read(answer: Json) -> list[Encoded]:
            vectors = self._vectors([_numbers(row) for row in answer["embeddings"]], len(texts))
            self._truncated += int(answer.get("usage", {}).get("truncated", 0))
            packed: Sequence[tuple[np.ndarray, np.ndarray] | None] = [None] * len(texts)
            if self._model.tokens:
                packed = [self._packed(one) for one in answer["tokens"]]
            return [Encoded(vector, tokens) for vector, tokens in zip(vectors, packed, strict=True)]

        return self._ask("/embed", payload, read)

    def _openai(self, texts: Sequence[str]) -> list[Encoded]:
        fitted = [self._model.fitted(text) for text in texts]
        payload = {"model": self._model.name, "input": fitted, "encoding_format": "base64"}

        def read(answer: Json) -> list[Encoded]:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            return [Encoded(row) for row in self._vectors([_numbers(row["embedding"]) for row in rows], len(texts))]

        return self._ask("/v1/embeddings", payload, read)

    def _weights(self, texts: Sequence[str]) -> list[TermWeights]:
        def read(answer: Json) -> list[TermWeights]:
            made = []
            for row in answer:
                terms = np.array([pair["index"] for pair in row], np.int32)
                made.append(TermWeights(terms, np.array([pair["value"] for pair in row], np.float32)))
            if len(made) != len(texts):
                raise ValueError(f"{len(made)} answers for {len(texts)} texts")
            return made

        return self._ask("/embed_sparse", {"inputs": list(texts)}, read)

    def _ask(self, path: str, payload: Json, read: Callable[[Json], T]) -> T:
        """Raises: WorkerEnded, Unfit, NotEncoded."""

        def receive(answer: Json) -> T:
            try:
                return read(answer)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ModelFailed(f"{self._client.address}{path} answers with something else ({error})") from error

        try:
            return self._client.ask(path, payload, receive, stop=self._stop)
        except CancelledError:
            raise WorkerEnded("it was stopped") from None
        except RetrieveError as error:
            status = getattr(error, "status", None)
            if status in _HINTED:
                raise Unfit(f"{error.message} ({error.hint})" if error.hint else error.message) from error
            if isinstance(error, Unavailable) and status not in _UNKNOWN:
                raise WorkerEnded(error.message) from error
            raise NotEncoded(error.message) from error

    def _vectors(self, rows: Sequence[Vectors], count: int) -> list[Vectors]:
        """Return vectors as the index keeps them. Raises: ValueError if they are not such."""
        if len(rows) != count:
            raise ValueError(f"{len(rows)} vectors for {count} texts")
        for row in rows:
            if row.shape != (self._model.dim,) or not np.isfinite(row).all():
                raise ValueError(f"a vector of {row.size} numbers instead of {self._model.dim}, or not finite")
        return [_unit(row) if self._model.normalize else row for row in rows]

    def _packed(self, tokens: Json) -> tuple[np.ndarray, np.ndarray]:
        ids = np.array(tokens["ids"], np.int32)
        vectors = np.array(tokens["vectors"], np.float64).astype(np.float32).reshape(len(ids), self._model.dim)
        packed = pack(TokenVectors(ids, vectors))
        return packed.ids, packed.codes


def _numbers(value: Json) -> Vectors:
    """Return a list of numbers, or base64 of float32. Raises: ValueError, TypeError."""
    if isinstance(value, str):
        return np.frombuffer(b64decode(value, validate=True), "<f4").astype(np.float32)
    return np.array(value, np.float64).astype(np.float32)


def _unit(vector: Vectors) -> Vectors:
    """Return the vector scaled to length 1; a vector of length 1 is unchanged to the bit."""
    square = float(vector.astype(np.float64) @ vector.astype(np.float64))
    if abs(square - 1) <= _UNIT or square == 0:
        return vector
    scaled: Vectors = (vector.astype(np.float64) / np.sqrt(square)).astype(np.float32)
    return scaled
