"""The content-addressed cache of vectors: SHA-1 of a text under SHA-1 of a model card -> its vector.

One file a model card, `cache/<card>.vectors`, appended in checkpoints: a build that is killed finds what it had
embedded, and a text that comes back is not embedded again. Each checkpoint carries the SHA-1 of its bytes; one that is
damaged or cut short is left out, so that nothing wrong can come from here. Deleting the folder costs time, never an
answer.

    header      magic, SHA-1 of the model card, dim
    checkpoint  magic, rows, SHA-1 of the rest; keys (rows, 20) bytes; zeros up to 64; vectors (rows, dim) float32
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from retrieve_cli.contracts import ModelCard
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors

    Keys = NDArray[np.bytes_]
    """(n,) 20-byte strings."""

BATCH = 2048
"""Chunks that wait for the encoder: enough to sort by length, few enough to keep memory flat."""
KEY = 20
_KEY_TYPE = f"S{KEY}"
_HEADER = struct.Struct("<8s20sI")
_MAGIC = b"RTRVVEC1"
_CHECKPOINT = struct.Struct("<4sQ20s")
_MARK = b"CKPT"
_ALIGNMENT = 64
_SUFFIX = ".vectors"
_BLOCK = 16_384
"""Rows gathered at a time."""
_SLACK = 4_096
"""Rows that nothing needs any more and that are not yet worth rewriting a file for."""


def as_keys(digests: Sequence[bytes] | NDArray[np.uint8]) -> Keys:
    """Digests, or their (n, 20) bytes, as an array that can be sorted and searched."""
    if isinstance(digests, np.ndarray):
        return np.ascontiguousarray(digests).view(_KEY_TYPE).reshape(-1)
    return np.frombuffer(b"".join(digests), _KEY_TYPE)


@dataclass(slots=True)
class _Read:
    """What a cache file was found to hold."""

    checkpoints: list[tuple[Keys, Vectors]]
    """Keys and vectors of every sound checkpoint."""
    end: int
    """Where the next checkpoint begins: behind the last one that is whole."""
    damaged: int = 0
    """Vectors of checkpoints that are whole and not what was written."""


class VectorCache:
    """The vectors of one model card. One process at a time may append; the writer's lock sees to that."""

    def __init__(self, folder: Path, card: ModelCard, *, suffix: str = _SUFFIX) -> None:
        """Touches nothing until it is asked."""
        self._folder = folder
        self._card = card
        self._path = _path(folder, asdict(card)).with_suffix(suffix)
        self._head = _HEADER.pack(_MAGIC, bytes.fromhex(sha1(asdict(card))), card.dim)
        self._read: _Read | None = None
        self._sorted: tuple[Keys, Rows] | None = None
        self._recent: set[bytes] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self._recent or bool(self._find(as_keys([key]))[0] >= 0)

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self._file.checkpoints)

    @property
    def damaged(self) -> int:
        """How many vectors are there and cannot be believed: their texts are encoded again."""
        return self._file.damaged

    def lacks(self, keys: Keys) -> Rows:
        """Places of the keys that are not there."""
        self._sort()
        return np.flatnonzero(self._find(keys) < 0)

    def append(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Adds a checkpoint of vectors, (n, dim) float32, and waits until it is on the disk.

        Raises:
            OSError: there is no room; what was there stays as it was.
        """
        start = self._file.end
        block = np.ascontiguousarray(vectors, "<f4")
        rest = b"".join(keys) + b"\0" * _padding(start, len(keys)) + block.tobytes()
        digest = hashlib.sha1(rest, usedforsecurity=False).digest()
        try:
            with self._opened() as file:
                file.truncate(start)
                file.seek(start)
                file.write(_CHECKPOINT.pack(_MARK, len(keys), digest) + rest)
                file.flush()
                os.fsync(file.fileno())
                end = file.tell()
        except OSError:
            with suppress(OSError):
                os.truncate(self._path, start)
            raise
        held = np.memmap(self._path, "<f4", "r", offset=end - block.nbytes, shape=block.shape)
        self._file.checkpoints.append((as_keys(keys), held))
        self._file.end = end
        self._recent.update(keys)

    def gather(self, keys: Keys) -> Iterator[Vectors]:
        """The vectors of the keys in their order, in blocks, (m, dim) float32.

        Raises:
            KeyError: one is not there.
        """
        self._sort()
        rows = self._find(keys)
        if len(rows) and rows.min() < 0:
            raise KeyError(keys[int(rows.argmin())].hex())
        checkpoints = self._file.checkpoints
        ends = np.cumsum([len(known) for known, _ in checkpoints])
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            among = np.searchsorted(ends, block, side="right")
            vectors = np.empty((len(block), self._card.dim), np.float32)
            for at in np.unique(among):
                known, held = checkpoints[at]
                mine = among == at
                vectors[mine] = held[block[mine] - (ends[at] - len(known))]
            yield vectors

    def shrink_to(self, keys: Keys) -> None:
        """Rewrites the file with these keys alone where at least half of it is none of them."""
        self._sort()
        kept = np.unique(keys)
        kept = kept[self._find(kept) >= 0]
        if len(self) <= 2 * len(kept) + _SLACK:
            return
        new = VectorCache(self._folder, self._card, suffix=".new")
        new._path.unlink(missing_ok=True)
        start = 0
        for block in self.gather(kept):
            new.append([_full(key) for key in kept[start : start + len(block)]], block)
            start += len(block)
        new._path.replace(self._path)
        durable.sync(self._folder)
        self._read = self._sorted = None
        self._recent = set()

    @property
    def _file(self) -> _Read:
        if self._read is None:
            self._read = self._load()
        return self._read

    def _load(self) -> _Read:
        found = _Read([], _HEADER.size)
        try:
            data = np.memmap(self._path, np.uint8, "r")
        except (OSError, ValueError):  # NumPy maps no empty file
            return found
        if data[: _HEADER.size].tobytes() != self._head:
            return found
        while found.end + _CHECKPOINT.size <= len(data):
            begin = found.end + _CHECKPOINT.size
            mark, rows, digest = _CHECKPOINT.unpack(data[found.end : begin].tobytes())
            first = begin + rows * KEY + _padding(found.end, rows)
            stop = first + 4 * rows * self._card.dim
            if mark != _MARK or stop > len(data):
                break
            if hashlib.sha1(data[begin:stop].data, usedforsecurity=False).digest() == digest:
                keys = data[begin : begin + rows * KEY].view(_KEY_TYPE)
                found.checkpoints.append((keys, data[first:stop].view("<f4").reshape(rows, self._card.dim)))
            else:
                found.damaged += rows
            found.end = stop
        return found

    def _opened(self) -> BinaryIO:
        """The file for writing, with its header."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._file.checkpoints or self._file.end > _HEADER.size:
            return self._path.open("r+b")
        file = self._path.open("w+b")
        file.write(self._head)
        return file

    def _sort(self) -> None:
        """Takes in what was appended since the keys were last put in order."""
        if self._recent:
            self._sorted, self._recent = None, set()

    def _find(self, keys: Keys) -> Rows:
        """The row of each key, -1 where it is not there or was appended since the last `_sort`."""
        if self._sorted is None:
            parts = [known for known, _ in self._file.checkpoints]
            joined = np.concatenate(parts) if parts else np.empty(0, _KEY_TYPE)
            order = np.argsort(joined, kind="stable")
            self._sorted = joined[order], order
        known, rows = self._sorted
        if not len(known):
            return np.full(len(keys), -1, np.int64)
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[places] == keys, rows[places], -1)


def prune(folder: Path, needed: Sequence[tuple[Mapping[str, Any], Keys]]) -> None:
    """Removes what no generation needs: files of other model cards, and rows beyond twice the needed ones.

    `needed` has the model card and the keys of each generation that is kept.
    """
    for path in folder.glob(f"*{_SUFFIX}"):
        mine = [(card, keys) for card, keys in needed if _path(folder, card) == path]
        if mine:
            card = ModelCard(**mine[0][0])
            VectorCache(folder, card).shrink_to(np.concatenate([keys for _, keys in mine]))
        else:
            path.unlink()


def _path(folder: Path, card: Mapping[str, object]) -> Path:
    return folder / f"{sha1(dict(card))[:12]}{_SUFFIX}"


def _padding(start: int, rows: int) -> int:
    """Zeros between the keys and the vectors of a checkpoint that begins at `start`."""
    return -(start + _CHECKPOINT.size + rows * KEY) % _ALIGNMENT


def _full(key: bytes) -> bytes:
    """A key as it was: NumPy drops the zeros at the end of a byte string."""
    return key.ljust(KEY, b"\0")
