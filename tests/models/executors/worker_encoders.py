"""Encoders for tests of workers, which end their process at some texts."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import Unavailable
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.models.executors.workers import Encoders

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

POISON = "a text that no process survives"
ONCE = "a text that one process does not survive"


class FragileEncoder(HashedEncoder):
    """Feature hashing that does not survive some texts."""

    def __init__(self, marker: Path) -> None:
        super().__init__(64)
        self._marker = marker

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        for text in texts:
            if POISON in text or (ONCE in text and not self._marker.exists()):
                self._marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if "refused" in text:
                raise Unavailable("this text has no vector")
        return super().encode_passages(texts)


class LengthTerms:
    """Term weights that follow from the length of a text."""

    card: Mapping[str, Any] = MappingProxyType({"name": "lengths", "revision": "1"})
    device = "cpu"

    def encode_queries(self, texts: Sequence[str]) -> list[TermWeights]:
        return self.encode_passages(texts)

    def encode_passages(self, texts: Sequence[str]) -> list[TermWeights]:
        return [TermWeights(np.array([len(text)], np.int32), np.ones(1, np.float32)) for text in texts]


def fragile(marker: Path) -> Encoders:
    """Return both encoders."""
    return Encoders(FragileEncoder(marker), LengthTerms(), keeps_tokens=False)


def missing() -> Encoders:
    raise Unavailable("the model is not on this machine", hint="fetch it")
