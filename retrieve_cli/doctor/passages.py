"""Texts on which encoders are compared: a sample of the index, or synthetic ones if there is no index."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np

from retrieve_cli.doctor.subject import Subject
from retrieve_cli.errors import RetrieveError
from retrieve_cli.storage.generation import open_generation

_TEXTS, _QUERIES = 256, 100
_FEWEST = 32
"""Texts below which the share of common neighbours is meaningless."""
_WORDS = (
    "image segmentation of cells and tissue in three dimensional microscopy volumes with deep learning a tool for "
    "registration tracking reads writes DICOM NIfTI TIFF files counts nuclei measures brain lung liver vessels from "
    "magnetic resonance or computed tomography scans the library provides Python command line interface plugin "
    "visualization alignment denoising classification annotation viewer pipeline statistics model training data"
).split()


@dataclass(frozen=True, slots=True)
class Passages:
    """Distinct texts, and queries about them."""

    origin: Literal["index", "synthetic"]
    texts: Sequence[str]
    queries: Sequence[str]


def sample(subject: Subject) -> Passages:
    """Return chunks of the current index, evenly spread, with names of its records as queries; else synthetic texts."""
    with suppress(RetrieveError, OSError):
        if passages := _of_index(subject):
            return passages
    random = np.random.default_rng(7)
    texts = [" ".join(random.choice(_WORDS, size)) for size in random.integers(8, 160, _TEXTS)]
    return Passages("synthetic", texts, [" ".join(text.split()[:5]) for text in texts[:_QUERIES]])


def _of_index(subject: Subject) -> Passages | None:
    """Return a sample of the index; None if it has too few texts."""
    with open_generation(subject.store) as generation:
        chunks = [generation.chunks[row] for row in _spread(len(generation.chunks), _TEXTS)]
        texts = list(dict.fromkeys(f"{chunk['header']}{chunk['text']}" for chunk in chunks))
        names = [str(generation.records[row]["name"]) for row in _spread(len(generation.records), _QUERIES)]
    queries = list(dict.fromkeys(name for name in names if name.strip())) or texts[:_QUERIES]
    return Passages("index", texts, queries) if len(texts) >= _FEWEST else None


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` rows out of `count`, evenly spread."""
    return sorted({row * count // most for row in range(most)}) if count > most else list(range(count))
