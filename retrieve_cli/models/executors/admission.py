"""Admission of workers: each encodes 16 probe texts, and has to come to what this machine comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.models.executors.workers import ProbeAnswer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts.executors import Encoded

LEAST_COSINE = 0.99999
"""Between a worker's vector of a text and this machine's."""
_LENGTH = 0.01
"""Share by which the length of a vector may differ."""
_LONG = "Segmentation of organs in computed tomography, volume by volume, and what the masks are measured with. "
PROBES: Sequence[str] = (
    "brain",
    "segment lungs in CT",
    "Skull stripping of T1-weighted MRI with a U-Net; inputs and outputs are NIfTI files.",
    "def dice(a, b):\n    return 2 * (a & b).sum() / (a.sum() + b.sum())",
    "La résonance magnétique mesure les temps de relaxation T1 et T2 des tissus.",
    "Große Datensätze müssen vor der Auswertung anonymisiert werden: Name, Anschrift, Geburtsdatum.",
    "磁共振成像可以显示软组织的结构。",
    "Магнитно-резонансная томография показывает мягкие ткани.",
    "التصوير بالرنين المغناطيسي",
    "| tool | modality | licence |\n|---|---|---|\n| a | MR | MIT |\n| b | CT | GPL-3.0 |",
    "α = 0.05, n = 1,024; 95 % CI [0.12, 0.34], p < 10⁻⁶",
    "https://example.org/catalog?id=42#details and user@example.org",
    "ALL CAPITALS, then lower case; UNDER_SCORES and hyphen-ated words.",
    "?! ... -- ()",
    _LONG * 3,
    _LONG * 60,
)
"""Texts of several lengths, languages and kinds; the last one is longer than most models read."""


def difference(reference: ProbeAnswer, answer: ProbeAnswer, *, bits: bool) -> str:
    """Return why a worker is not admitted, as a sentence about it; empty if it is. `bits` demands equality to the
    bit."""
    if answer.cards is not None and answer.cards != reference.cards:
        return f"it has another model ({_named(answer.cards, reference.cards)})"
    if len(answer.probes) != len(reference.probes):
        return "it does not answer with one result for each text"
    for place, (ours, theirs) in enumerate(zip(reference.probes, answer.probes, strict=True)):
        for form, near in _compared(ours, theirs):
            if near is None:
                return f"it makes no {form}"
            if not near >= LEAST_COSINE:
                return f"its {form} of probe {place + 1} differ from this machine's: cosine {near:.6f}"
    if bits and not same_bits(reference, answer):
        return "its numbers differ from this machine's in their last bits"
    return ""


def same_bits(reference: ProbeAnswer, answer: ProbeAnswer) -> bool:
    """Return True if all results for the probes are equal to the bit."""
    pairs = zip(reference.probes, answer.probes, strict=True)
    return all(
        one is not None and one.dtype == other.dtype and one.tobytes() == other.tobytes()
        for ours, theirs in pairs
        for other, one in zip(_arrays(ours), _arrays(theirs), strict=True)
        if other is not None
    )


def _arrays(encoded: Encoded) -> list[NDArray[np.generic] | None]:
    ids, codes = encoded.tokens or (None, None)
    terms, weights = (None, None) if encoded.terms is None else (encoded.terms.terms, encoded.terms.weights)
    return [encoded.vector, ids, codes, terms, weights]


def _compared(ours: Encoded, theirs: Encoded) -> Iterator[tuple[str, float | None]]:
    """Yield each form that this machine makes of a text, and how near the worker's is: 1 if it is the same."""
    if ours.vector is not None:
        yield "vectors", None if theirs.vector is None else _cosine(ours.vector, theirs.vector)
    if ours.tokens is not None:
        yield "token vectors", None if theirs.tokens is None else _same_tokens(ours, theirs)
    if ours.terms is not None:
        yield "term weights", None if theirs.terms is None else _term_cosine(ours, theirs)


def _cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    if one.shape != other.shape:
        return 0.0
    left, right = one.astype(np.float64), other.astype(np.float64)
    lengths = float(np.linalg.norm(left)), float(np.linalg.norm(right))
    if min(lengths) == 0:
        return float(lengths[0] == lengths[1])
    if abs(lengths[1] / lengths[0] - 1) > _LENGTH:
        return 0.0
    return float(left @ right) / (lengths[0] * lengths[1])


def _same_tokens(ours: Encoded, theirs: Encoded) -> float:
    """Return 1 if a text has the same tokens, and all but a hundredth of their packed numbers are equal: one that lies
    on the edge between two levels may fall to either side."""
    if ours.tokens is None or theirs.tokens is None:
        return 0.0
    (ids, codes), (other_ids, other_codes) = ours.tokens, theirs.tokens
    if not np.array_equal(ids, other_ids) or codes.shape != other_codes.shape:
        return 0.0
    different = np.count_nonzero(np.unpackbits(codes ^ other_codes))
    return 1.0 if different <= 1 + codes.size * 4 / 100 else 1 - different / (codes.size * 8)


def _term_cosine(ours: Encoded, theirs: Encoded) -> float:
    if ours.terms is None or theirs.terms is None:
        return 0.0
    size = int(max(ours.terms.terms.max(initial=0), theirs.terms.terms.max(initial=0))) + 1
    left, right = np.zeros(size, np.float32), np.zeros(size, np.float32)
    left[ours.terms.terms], right[theirs.terms.terms] = ours.terms.weights, theirs.terms.weights
    return _cosine(left, right)


def _named(cards: Json, expected: Json) -> str:
    """Return the first key in which cards differ, with both values."""
    for kind, card in expected.items():
        own = cards.get(kind) if isinstance(cards, dict) else None
        if own == card:
            continue
        if not isinstance(own, dict) or not isinstance(card, dict):
            return f"{kind}: {'none' if own is None else 'one'} instead of {'none' if card is None else 'one'}"
        key = next(key for key in {**card, **own} if own.get(key) != card.get(key))
        return f"{key} {str(own.get(key))[:40]} instead of {str(card.get(key))[:40]}"
    return "another card"
