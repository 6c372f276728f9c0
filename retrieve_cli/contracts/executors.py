"""Promises of executors, which have texts encoded by other processes, on this machine or on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from retrieve_cli.contracts.models import TermWeights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieve_cli.contracts.values import Terms, Vectors


class Wanted(NamedTuple):
    """Encodings that are wanted of a text."""

    vector: bool = True
    """With its packed tokens, if the executor makes these."""
    terms: bool = False


class Encoded(NamedTuple):
    """Encodings of a text, made in one pass."""

    vector: Vectors | None = None
    """(dim,) float32."""
    tokens: tuple[Terms, NDArray[np.uint8]] | None = None
    """Ids, (t,) int32, and packed vectors, (t, width) uint8, of its tokens."""
    terms: TermWeights | None = None


class Receiver(Protocol):
    """Receives what becomes of some texts, in the thread that calls the executor, in any order."""

    def done(self, places: Sequence[int], results: Sequence[Encoded]) -> None:
        """Take in the results of texts."""

    def failed(self, place: int, reason: str) -> None:
        """Take note that no worker can encode a text."""


class Executor(Protocol):
    """Workers that encode texts. The constructor is cheap; workers start with the first text. For one thread."""

    @property
    def truncated(self) -> int:
        """Number of texts so far that were longer than the model's limit and were truncated."""

    def encode(self, texts: Sequence[str], wanted: Sequence[Wanted], receiver: Receiver) -> None:
        """Send texts to be encoded; return as soon as there is room for more. `receiver` is called during this call and
        later ones.

        Raises:
            Unavailable: no worker is running, or their bits differ from this machine's.
            ModelFailed: all workers end repeatedly.
        """

    def finish(self) -> None:
        """Wait for all results. Raises: as `encode`."""

    def close(self) -> None:
        """End all workers at once."""
