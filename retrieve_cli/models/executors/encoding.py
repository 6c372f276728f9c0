"""One pass over the texts of a unit: the requested ones of vectors, packed tokens and term weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import (
    Encoder,
    GradualEncoder,
    GradualSparseEncoder,
    Json,
    SparseEncoder,
    TermWeights,
    TokenEncoder,
    TokenVectors,
)
from retrieve_cli.contracts.models import Encoded, Wanted
from retrieve_cli.models.executors.workers import ProbeAnswer
from retrieve_cli.storage.recipe import encoder_json
from retrieve_cli.storage.token_table import PackedTokens, pack, width_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

PASS_ON_S = 0.2
"""Seconds after which results are passed on while others of their unit are being made: results held back longer would
be lost with a worker."""
Done = Callable[[Sequence[int], Sequence[Encoded]], None]
"""Receives places of texts and their results, from any thread, one call at a time."""


class Encoders(NamedTuple):
    """Encoders of a worker, or of the coordinator for comparison."""

    encoder: Encoder | None
    sparse: SparseEncoder | None
    keeps_tokens: bool = False

    @property
    def cards(self) -> Mapping[str, Json]:
        """Cards of the encoders: equal for workers that may be used together."""
        encoder = None if self.encoder is None else encoder_json(self.encoder.card)
        return {"encoder": encoder, "sparse": None if self.sparse is None else dict(self.sparse.card)}

    @property
    def truncated(self) -> int:
        """Number of texts so far of which the encoder read only the beginning."""
        return 0 if self.encoder is None else self.encoder.truncated

    @property
    def everything(self) -> Wanted:
        """Forms that the encoders can make."""
        return Wanted(self.encoder is not None, self.sparse is not None)

    def answer(self, probes: Sequence[str]) -> ProbeAnswer:
        """Return cards, device and the encodings of the probes."""
        encoded = self.encode_all(probes, [self.everything] * len(probes))
        return ProbeAnswer(dict(self.cards), encoded, "" if self.encoder is None else self.encoder.device)

    def encode(self, texts: Sequence[str], wanted: Sequence[Wanted], done: Done) -> None:
        """Encode texts; `done` gets the results as they come. All results of a text are passed on together."""
        passing = _Passing(self, wanted, done)
        dense = [place for place, each in enumerate(wanted) if each.vector]
        if self.encoder is not None and dense:
            self._vectors(self.encoder, [texts[place] for place in dense], dense, passing)
        sparse = [place for place, each in enumerate(wanted) if each.terms]
        if self.sparse is not None and sparse:
            self._terms(self.sparse, [texts[place] for place in sparse], sparse, passing)
        passing.flush()

    def encode_all(self, texts: Sequence[str], wanted: Sequence[Wanted]) -> list[Encoded]:
        """Return the results of all texts, in their order."""
        made: dict[int, Encoded] = {}
        self.encode(texts, wanted, lambda places, results: made.update(zip(places, results, strict=True)))
        return [made[place] for place in range(len(texts))]

    def _vectors(self, encoder: Encoder, texts: Sequence[str], places: Sequence[int], passing: _Passing) -> None:
        def take(at: int, tokens: TokenVectors) -> None:
            passing.tokens(places[at], pack(tokens))

        def gradually(ats: Sequence[int], vectors: Sequence[Vectors]) -> None:
            passing.vectors([places[at] for at in ats], vectors)

        tokens = take if self.keeps_tokens else None
        if isinstance(encoder, GradualEncoder):
            vectors = encoder.encode_passages_gradually(texts, gradually, tokens)
        elif tokens is not None and isinstance(encoder, TokenEncoder):
            vectors = encoder.encode_passages_into(texts, tokens)
        else:
            vectors = encoder.encode_passages(texts)
        passing.vectors(places, list(vectors))  # those that did not come one by one

    def _terms(self, sparse: SparseEncoder, texts: Sequence[str], places: Sequence[int], passing: _Passing) -> None:
        def gradually(ats: Sequence[int], weights: Sequence[TermWeights]) -> None:
            passing.terms([places[at] for at in ats], weights)

        if isinstance(sparse, GradualSparseEncoder):
            passing.terms(places, sparse.encode_passages_gradually(texts, gradually))
        else:
            passing.terms(places, sparse.encode_passages(texts))


class _Passing:
    """Results of a unit on their way; a text is passed on once, when it has all that is wanted of it."""

    def __init__(self, encoders: Encoders, wanted: Sequence[Wanted], done: Done) -> None:
        self._wanted = wanted
        self._done = done
        self._keeps_tokens = encoders.keeps_tokens
        dim = 0 if encoders.encoder is None else encoders.encoder.card.dim
        self._nothing = PackedTokens(np.empty(0, np.int32), np.empty((0, width_of(dim)), np.uint8))
        self._vectors: dict[int, Vectors] = {}
        self._tokens: dict[int, PackedTokens] = {}
        self._terms: dict[int, TermWeights] = {}
        self._ready: dict[int, Encoded] = {}
        self._passed: set[int] = set()
        self._last = time.monotonic()
        self._lock = Lock()

    def tokens(self, place: int, packed: PackedTokens) -> None:
        self._tokens[place] = packed

    def vectors(self, places: Sequence[int], vectors: Sequence[Vectors]) -> None:
        self._add(self._vectors, places, vectors)

    def terms(self, places: Sequence[int], weights: Sequence[TermWeights]) -> None:
        self._add(self._terms, places, weights)

    def flush(self) -> None:
        """Pass on the complete results."""
        with self._lock:
            self._pass_on()

    def _add(self, into: dict[int, Vectors] | dict[int, TermWeights], places: Sequence[int], values: Sequence) -> None:  # type: ignore[type-arg]
        with self._lock:
            for place, value in zip(places, values, strict=True):
                if place in self._passed or place in into:
                    continue
                into[place] = value
                wanted = self._wanted[place]
                if (wanted.vector and place not in self._vectors) or (wanted.terms and place not in self._terms):
                    continue
                tokens = None
                if wanted.vector and self._keeps_tokens:
                    packed = self._tokens.get(place, self._nothing)
                    tokens = (packed.ids, packed.codes)
                self._ready[place] = Encoded(self._vectors.get(place), tokens, self._terms.get(place))
                self._passed.add(place)
            if self._ready and time.monotonic() - self._last >= PASS_ON_S:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._ready:
            ready, self._ready = self._ready, {}
            self._done(list(ready), list(ready.values()))
        self._last = time.monotonic()
