"""Messages between a coordinator and a worker: a head, which is a JSON object, and arrays; no pickles.

request  {"hello": …} once, then units: {"unit": 7, "texts": […], "wanted": […]}
answer   {"ready": …} with the results of the probes, then results {"unit": 7, "places": […], …} as they come, and for
         each unit an end {"unit": 7, "end": ""}, with a reason if some texts have no result
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json, TermWeights
from retrieve_cli.contracts.executors import Encoded, Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

MOST_HEAD, MOST_BODY = 1 << 30, 1 << 34


class Work(NamedTuple):
    """Texts of a unit."""

    unit: int
    texts: Sequence[str]
    wanted: Sequence[Wanted]


class Results(NamedTuple):
    """Encodings of some texts of a unit."""

    places: Sequence[int]
    encoded: Sequence[Encoded]
    truncated: int = 0
    """Number of these texts that were truncated."""


class Answer(NamedTuple):
    """Cards and device of a worker, and its encodings of the probes."""

    cards: Json
    """Cards of its encoders; None if it cannot tell them."""
    probes: Sequence[Encoded]
    about: str = ""
    """Device or address, in words."""


def packed(head: Json, arrays: Arrays | None = None) -> tuple[Json, bytes]:
    """Return a head that says which arrays come with it, and their bytes."""
    parts = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    shapes = {name: [array.dtype.str, array.shape] for name, array in parts.items()}
    return {**head, "arrays": shapes}, b"".join(array.tobytes() for array in parts.values())


def unpacked(head: Json, body: bytes) -> tuple[Json, Arrays]:
    """Return the head and the arrays of a message. Raises: ValueError if it is none."""
    arrays, start = {}, 0
    for name, (kind, shape) in head.pop("arrays").items():
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, np.dtype(kind), count, start).reshape(shape)
        start += arrays[name].nbytes
    return head, arrays


def work_head(work: Work) -> dict[str, Json]:
    """Return a unit as the head of a request."""
    return {"unit": work.unit, "texts": list(work.texts), "wanted": [list(each) for each in work.wanted]}


def work_of(head: Json) -> Work:
    """Return the unit of a request."""
    return Work(head["unit"], head["texts"], [Wanted(*each) for each in head["wanted"]])


def results_frame(encoded: Sequence[Encoded]) -> tuple[dict[str, Json], dict[str, NDArray[Any]]]:
    """Return results as a part of a head, and arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    vectors = [each.vector for each in encoded if each.vector is not None]
    tokens = [each.tokens for each in encoded if each.tokens is not None]
    terms = [each.terms for each in encoded if each.terms is not None]
    if vectors:
        arrays["vectors"] = np.stack(vectors)
    if tokens:
        arrays["ids"] = np.concatenate([ids for ids, _ in tokens])
        arrays["codes"] = np.concatenate([codes for _, codes in tokens])
        arrays["token_ends"] = np.cumsum([len(ids) for ids, _ in tokens])
    if terms:
        arrays["terms"] = np.concatenate([each.terms for each in terms])
        arrays["weights"] = np.concatenate([each.weights for each in terms])
        arrays["term_ends"] = np.cumsum([len(each.terms) for each in terms])
    kinds = [[part is not None for part in each] for each in encoded]
    return {"kinds": kinds}, arrays


def results_of(head: Json, arrays: Arrays) -> list[Encoded]:
    """Return the results of an answer; arrays are copies of their own.

    Raises:
        ValueError: something is missing.
    """
    try:
        vectors = iter([row.copy() for row in arrays["vectors"]] if "vectors" in arrays else [])
        tokens = _split(arrays, "token_ends", "ids", "codes")
        terms = _split(arrays, "term_ends", "terms", "weights")
        return [
            Encoded(
                next(vectors) if vector else None,
                _pair(next(tokens)) if packed else None,
                TermWeights(*next(terms)) if weighted else None,
            )
            for vector, packed, weighted in head["kinds"]
        ]
    except (KeyError, StopIteration, TypeError) as error:
        raise ValueError("results that are not complete") from error


def _split(arrays: Arrays, ends: str, *names: str) -> Iterator[list[NDArray[Any]]]:
    """Yield the parts of arrays that belong to each text."""
    bounds = [0, *arrays[ends].tolist()] if ends in arrays else [0]
    for start, end in pairwise(bounds):
        yield [arrays[name][start:end].copy() for name in names]


def _pair(parts: list[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    ids, codes = parts
    return ids, codes
