"""Encoders for tests of workers: they take their time, count what they encode, and end at some texts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from waiting import pause

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import Unavailable
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.models.executors.encoding import Encoders

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

POISON = "a text that no process survives"


class SlowEncoder(HashedEncoder):
    """Feature hashing that takes some time for each text and writes a byte for each into a file."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(512)
        self._seconds = settings.get("seconds", 0.0)
        self._count = os.open(settings["count"], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if "count" in settings else -1
        self._tilt = settings.get("tilt", 0.0)

    def encode_passages_gradually(
        self,
        texts: Sequence[str],
        done: Callable[[Sequence[int], Sequence[Vectors]], None],
        take: object = None,
    ) -> Vectors:
        vectors = np.zeros((len(texts), self.card.dim), np.float32)
        for place, text in enumerate(texts):
            if POISON in text:
                os.kill(os.getpid(), signal.SIGKILL)
            if "refused" in text:
                raise ValueError("this text has no numbers")
            pause(self._seconds, why="an encoder that is slow on purpose")
            if self._count >= 0:
                os.write(self._count, b".")
            vectors[place] = self.encode_passages([text])[0]
            vectors[place, 0] += self._tilt * vectors[place].any()
            done((place,), (vectors[place],))
        return vectors


class LengthTerms:
    """Term weights that follow from the length of a text."""

    card: Mapping[str, Any] = MappingProxyType({"name": "lengths", "revision": "1"})
    device = "cpu"

    def encode_queries(self, texts: Sequence[str]) -> list[TermWeights]:
        return self.encode_passages(texts)

    def encode_passages(self, texts: Sequence[str]) -> list[TermWeights]:
        return [
            TermWeights(np.arange(len(text) % 7, dtype=np.int32), np.full(len(text) % 7, len(text), np.float32))
            for text in texts
        ]


def slow(settings: Mapping[str, Any]) -> Encoders:
    """Return a slow encoder, and one of term weights if that is wanted."""
    if settings.get("missing"):
        raise Unavailable("the model is not on this machine", hint="fetch it")
    return Encoders(SlowEncoder(settings), LengthTerms() if settings.get("terms") else None)
