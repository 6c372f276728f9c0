"""Measure the encoders and precisions that this machine's CPU can run: their speed and their nearness to float32."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np

from retrieve_cli.assemble import cpu_encoders
from retrieve_cli.assemble.cpu_encoders import Way
from retrieve_cli.contracts import Encoder
from retrieve_cli.errors import RetrieveError, Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.operations.doctor.subject import Subject, some
from retrieve_cli.storage.generation import open_generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_ROUNDS = 3
_ENOUGH_S = 20.0
"""No round begins after so many seconds."""
_K = 10
_LEAST_COSINE, _LEAST_OVERLAP = 0.999, 0.95
"""Below these an encoder is not advised, however fast it is."""
_WORTH_IT = 1.1
"""Times as fast as the configured encoder that another one must be: all texts are encoded again."""


class MeasuredEncoder(Frozen):
    """One encoder, compared with the default of a CPU in float32."""

    kind: str
    precision: str
    texts_per_cpu_s: float
    speedup: float
    cosine_mean: float
    cosine_min: float
    overlap_at_10: float
    """Share of the ten nearest texts of a query that are the same, mean over queries."""

    @property
    def near(self) -> bool:
        return self.cosine_min >= _LEAST_COSINE and self.overlap_at_10 >= _LEAST_OVERLAP

    @property
    def name(self) -> str:
        return f"{self.kind} in {self.precision}"


class UnmeasuredEncoder(Frozen):
    """One encoder that could not be measured, and why."""

    kind: str
    precision: str
    message: str
    hint: str


class Advice(Frozen):
    """Measurements, and what to do."""

    message: str
    hint: str = ""
    model: str = ""
    origin: str = ""
    """Origin of the texts: index or synthetic."""
    texts: int = 0
    queries: int = 0
    measured: Sequence[MeasuredEncoder] = ()
    absent: Sequence[UnmeasuredEncoder] = ()
    set: Mapping[str, str] = {}
    """Keys of the configuration to set; empty if nothing is to be changed."""


def advise(subject: Subject, *, say: Callable[[str], None] = lambda _: None) -> Advice:
    """Measure every encoder that a CPU can take for the configured model. The model cache may be written."""
    if why := cpu_encoders.why_none(subject.settings):
        return Advice(f"nothing to measure: {why}")
    try:
        return _measured(subject, say)
    except RetrieveError as error:
        return Advice(f"nothing could be measured: {error.message}", error.hint)


def _measured(subject: Subject, say: Callable[[str], None]) -> Advice:
    ways = cpu_encoders.ways(subject.settings)
    default = next(ways)
    current = cpu_encoders.configured(subject.settings, default)
    if isinstance(current, str):
        return Advice(f"nothing to measure: {current}")
    passages = sample(subject)
    say(f"measuring encoders on {some(len(passages.texts), 'text')}, which takes up to a minute or two")
    loaded: list[tuple[Way, Encoder]] = []
    absent: list[UnmeasuredEncoder] = []
    for way in (default, *ways):
        if way.encoder is None:
            absent.append(UnmeasuredEncoder(way.kind, way.precision, way.missing, way.hint))
            continue
        try:
            way.encoder.encode_passages(passages.texts[:8])  # loads the weights
            loaded.append((way, way.encoder))
        except Unavailable as error:
            absent.append(UnmeasuredEncoder(way.kind, way.precision, error.message, error.hint))
    measured = _compare(loaded, passages)
    message, keys = _verdict(measured, current)
    model = loaded[0][1].card.name
    counts = (len(passages.texts), len(passages.queries))
    return Advice(message, "", model, passages.origin, *counts, measured, absent, keys)


def _compare(ways: Sequence[tuple[Way, Encoder]], passages: SampleTexts) -> list[MeasuredEncoder]:
    if not ways:
        raise Unavailable("no encoder runs on this machine", hint="run retrieve doctor: it names the missing packages")
    seconds: list[list[float]] = [[] for _ in ways]
    vectors: list[Vectors] = []
    begun = time.monotonic()
    for number in range(_ROUNDS):
        if number and time.monotonic() - begun > _ENOUGH_S:
            break
        for (_, encoder), taken in zip(ways, seconds, strict=True):
            start = time.process_time()
            encoded = encoder.encode_passages(passages.texts)
            taken.append(time.process_time() - start)
            if not number:
                vectors.append(encoded)
    queries = ways[0][1].encode_queries(passages.queries)
    first = median(seconds[0])
    return [
        MeasuredEncoder(
            way.kind,
            way.precision,
            len(passages.texts) / median(taken),
            first / median(taken),
            *_nearness(vectors[0], compared, queries),
        )
        for (way, _), taken, compared in zip(ways, seconds, vectors, strict=True)
    ]


def _nearness(expected: Vectors, measured: Vectors, queries: Vectors) -> tuple[float, float, float]:
    """Mean and least cosine of the same texts' vectors, and the overlap of the queries' ten nearest."""
    norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(measured, axis=1)
    cosines = (expected * measured).sum(axis=1) / np.maximum(norms, 1e-12)
    ours, theirs = (
        np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :_K] for vectors in (measured, expected)
    )
    same = [len(set(left) & set(right)) for left, right in zip(ours.tolist(), theirs.tolist(), strict=True)]
    return float(cosines.mean()), float(cosines.min()), float(np.mean(same)) / ours.shape[1]


def _verdict(measured: Sequence[MeasuredEncoder], current: tuple[str, str]) -> tuple[str, dict[str, str]]:
    """A sentence, and the keys to set."""
    default = measured[0]
    best = max((way for way in measured if way.near), key=lambda way: way.texts_per_cpu_s, default=default)
    now = next((way for way in measured if (way.kind, way.precision) == current), None)
    kind, precision = (best.kind, best.precision) if best != default else ("auto", "auto")
    keys = {"encoder.kind": kind, "encoder.precision": precision}
    if now is None:
        return f"{' in '.join(current)} is configured and does not run here; {best.name} is the fastest that does", keys
    if best.texts_per_cpu_s < _WORTH_IT * now.texts_per_cpu_s:
        return f"nothing to change: {now.name} is configured, and no other is {_WORTH_IT} times as fast", {}
    times = f"{best.texts_per_cpu_s / now.texts_per_cpu_s:.3g} times as fast as {now.name}"
    return f"{best.name} is {times}; the next build or sync with it encodes every text again", keys


_TEXTS, _QUERIES = 256, 100
_FEWEST = 32
"""Texts below which the share of common neighbours is meaningless."""
_WORDS = (
    "image segmentation of cells and tissue in three dimensional microscopy volumes with deep learning a tool for "
    "registration tracking reads writes DICOM NIfTI TIFF files counts nuclei measures brain lung liver vessels from "
    "magnetic resonance or computed tomography scans the library provides Python command line interface plugin "
    "visualization alignment denoising classification annotation viewer pipeline statistics model training data"
).split()


class SampleTexts(Frozen):
    """Distinct texts, and queries about them."""

    origin: Literal["index", "synthetic"]
    texts: Sequence[str]
    queries: Sequence[str]


def sample(subject: Subject) -> SampleTexts:
    """Return chunks of the current index, evenly spread, with names of its records as queries; else synthetic texts."""
    with suppress(RetrieveError, OSError), open_generation(subject.store) as generation:
        chunks = [generation.chunks[row] for row in _spread(len(generation.chunks), _TEXTS)]
        texts = list(dict.fromkeys(f"{chunk['header']}{chunk['text']}" for chunk in chunks))
        names = [str(generation.records[row]["name"]) for row in _spread(len(generation.records), _QUERIES)]
        if len(texts) >= _FEWEST:
            queries = list(dict.fromkeys(name for name in names if name.strip())) or texts[:_QUERIES]
            return SampleTexts("index", texts, queries)
    random = np.random.default_rng(7)
    texts = [" ".join(random.choice(_WORDS, size)) for size in random.integers(8, 160, _TEXTS)]
    return SampleTexts("synthetic", texts, [" ".join(text.split()[:5]) for text in texts[:_QUERIES]])


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` rows out of `count`, evenly spread."""
    return sorted({row * count // most for row in range(most)}) if count > most else list(range(count))
