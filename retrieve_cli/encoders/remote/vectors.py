"""The answer of an embeddings endpoint, held to what such an answer has to be."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors


class Unfit(Exception):
    """The answer is not what was asked for; the message goes on where the server's address ends."""

    def __init__(self, what: str, *, said: Json = None) -> None:
        """`said` is the part of the answer that shows it."""
        super().__init__(what)
        self.said = said


class Embedded(Frozen, eq=False):
    """Vectors in the order of the texts, and the model that the server says made them."""

    model: str
    """Empty where the server does not say."""
    vectors: Vectors
    """(n, dim) float32, finite, none of them zero."""


def read_vectors(answer: Json, count: int) -> Embedded:
    """The vectors of `count` texts (https://platform.openai.com/docs/api-reference/embeddings/object).

    Raises:
        Unfit: it has another number of vectors, vectors of several lengths, or what is no vector.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        raise Unfit("answers without a list of vectors (`data`)", said=answer)
    rows: list[Json] = answer["data"]
    if len(rows) != count:
        raise Unfit(f"answers with {len(rows)} vectors for {count} texts")
    by_place: list[Vectors | None] = [None] * count
    for row in rows:
        place = row.get("index") if isinstance(row, dict) else None
        if type(place) is not int or not 0 <= place < count or by_place[place] is not None:
            raise Unfit(f"does not number its vectors from 0 to {count - 1}, each once, by `index`", said=place)
        by_place[place] = _vector(row.get("embedding"), place)
    vectors = [vector for vector in by_place if vector is not None]
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise Unfit(f"answers with vectors of different lengths: {lengths[0]} and {lengths[-1]} numbers")
    model = answer.get("model")
    return Embedded(model.strip() if isinstance(model, str) else "", np.stack(vectors))


def to_unit(vectors: Vectors) -> Vectors:
    """The rows scaled to L2 norm 1, as far as float32 can say it."""
    wide = vectors.astype(np.float64)
    scaled: Vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def _vector(numbers: Json, place: int) -> Vectors:
    if isinstance(numbers, str):
        vector = _from_base64(numbers, place)
    # By type: a list of strings or of booleans would turn to numbers without a word.
    elif isinstance(numbers, list) and numbers and set(map(type, numbers)) <= {int, float}:
        with np.errstate(over="ignore"):
            vector = np.array(numbers, dtype=np.float64).astype(np.float32)
    else:
        raise Unfit(f"answers with a vector {place} that is not a list of numbers")
    if not np.isfinite(vector).all():
        raise Unfit(f"answers with a vector {place} that has NaN or infinite numbers")
    if not vector.any():
        raise Unfit(f"answers with a vector {place} of zeros")
    return vector


def _from_base64(text: str, place: int) -> Vectors:
    """Little-endian float32, as `encoding_format: base64` gives them."""
    try:
        raw = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw or len(raw) % 4:
        raise Unfit(f"answers with a vector {place} that is not base64 of float32 numbers")
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)
