"""The coordinator of workers: texts -> units (scheduler.py) -> workers (workers.py) -> results, as they come.

One thread decides; it is the one that calls. Each worker has another thread, which only waits for it.

Admission of workers: each encodes 16 probe texts, and has to come to what this machine comes to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.models import Receiver, Wanted
from retrieve_cli.errors import ModelFailed, Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.executors import workers
from retrieve_cli.models.executors.scheduler import Policy, Scheduler
from retrieve_cli.models.executors.workers import ProbeAnswer, Slot, SlotEnded, SlotReport, UnitResults, WorkerSlot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts.models import Encoded, TermWeights


_TICK_S = 0.25
_STARTS = 3
"""Workers in a row that may end at a slot before they are ready; if that is so at every slot, there is no hope."""
_PAUSE_S, _LONGEST_S = 0.5, 60.0
"""Pause before a worker is started at a slot whose last one was never ready; twice as long each time."""
_HOPELESS = 30
"""Workers that may end, of all together, without any result in between."""


class Admission(Frozen):
    """Conditions for a worker."""

    reference: Callable[[], ProbeAnswer] | None
    """Encodings of the probes by this machine; None: those by the first worker, on the same machine."""
    bits: bool = False
    """True if a worker must come to the same bits."""


class _Text(NamedTuple):
    """A text that has no result yet."""

    text: str
    wanted: Wanted
    receiver: Receiver
    place: int


class Coordinator:
    """`contracts.executors.Executor` over workers of any kind."""

    def __init__(
        self, slots: Sequence[WorkerSlot], admission: Admission, *, policy: Policy, say: Callable[[str], None]
    ) -> None:
        """The callback receives notices: workers that end, and workers that are not admitted."""
        self._worker_slots = slots
        self._admission = admission
        self._say = say
        self._scheduler = Scheduler(policy)
        self._reports = workers.SlotReports(4 * len(slots))
        self._slots: dict[str, Slot] = {}
        self._texts: dict[int, _Text] = {}
        self._units: dict[str, tuple[int, ...]] = {}
        """Numbers of the texts of each worker's unit, by place."""
        self._count = 0
        self._reference: ProbeAnswer | None = None
        self._other_bits = False
        self._looked = 0.0
        """Time at which leases were last looked at."""
        self._vain = 0
        """Workers that have ended since the last result."""
        self.truncated = 0
        self.ended = 0
        """Workers that have ended before their time."""
        self.encoded_again = 0
        """Results that came for texts which already had one."""

    # ------------------------------------------------------------------------------------------ the promise

    def encode(self, texts: Sequence[str], wanted: Sequence[Wanted], receiver: Receiver) -> None:
        """See `contracts.executors.Executor`."""
        if not self._slots:
            self._slots = {slot.name: Slot(slot, self._reports, PROBES) for slot in self._worker_slots}
            self._fill()
            if self._reference is None and self._admission.reference is not None:
                self._reference = self._admission.reference()  # while they start
        lengths: dict[int, int] = {}
        for place, (text, each) in enumerate(zip(texts, wanted, strict=True)):
            self._texts[self._count] = _Text(text, each, receiver, place)
            lengths[self._count] = estimated_tokens(text)
            self._count += 1
        self._scheduler.add(lengths)
        self._run(lambda: self._scheduler.has_room)

    def finish(self) -> None:
        """See `contracts.executors.Executor`."""
        self._scheduler.close()
        self._run(lambda: self._scheduler.idle)

    def close(self) -> None:
        """See `contracts.executors.Executor`."""
        self._reports.close()
        for slot in self._slots.values():
            slot.end()
        for slot in self._slots.values():
            slot.join()
        self._slots = {}

    # ------------------------------------------------------------------------------------------ the loop

    def _run(self, until: Callable[[], bool]) -> None:
        """Do what there is to do until a condition holds; if it holds already, without waiting."""
        while True:
            self._fill()
            self._hand_out()
            report = self._reports.get(0 if until() else _TICK_S)
            if report is not None:
                self._take(report)
            elif until():
                return
            if (now := time.monotonic()) >= self._looked + _TICK_S:
                self._looked = now
                for name in self._scheduler.overdue(now):
                    self._lose(self._slots[name], SlotEnded("it gave no sign for the time of its lease"))

    def _fill(self) -> None:
        now = time.monotonic()
        for slot in self._slots.values():
            if slot.empty and now >= slot.again_at:
                slot.start()

    def _hand_out(self) -> None:
        now = time.monotonic()
        for name, slot in self._slots.items():
            lease = self._scheduler.next(name, now) if slot.ready else None
            if lease is not None:
                texts = [self._texts[number] for number in lease.texts]
                self._units[name] = lease.texts
                unit = workers.WorkUnit(lease.number, [each.text for each in texts], [each.wanted for each in texts])
                slot.give(unit)

    def _take(self, report: SlotReport) -> None:
        """Act on a report, unless it is of a worker that was given up."""
        slot, what = self._slots[report.slot], report.what
        if report.life != slot.life:
            return
        if isinstance(what, UnitResults):
            self._receive(report.slot, what)
        elif isinstance(what, workers.UnitDone):
            self._scheduler.finished(report.slot, time.monotonic(), what.reason)
            self._give_up()
        elif isinstance(what, workers.SlotReady):
            self._admit(slot, what.answer)
        else:
            self._lose(slot, what)

    # ------------------------------------------------------------------------------------------ results

    def _receive(self, name: str, results: UnitResults) -> None:
        self.truncated += results.truncated
        unit = self._units[name]
        by_number = {unit[place]: encoded for place, encoded in zip(results.places, results.encoded, strict=True)}
        new = self._scheduler.received(name, by_number, time.monotonic())
        self.encoded_again += len(by_number) - len(new)
        self._vain = 0 if new else self._vain
        by_receiver: dict[int, list[int]] = {}
        for number in new:
            by_receiver.setdefault(id(self._texts[number].receiver), []).append(number)
        for numbers in by_receiver.values():
            texts = [self._texts.pop(number) for number in numbers]
            texts[0].receiver.done([each.place for each in texts], [by_number[number] for number in numbers])

    def _give_up(self) -> None:
        while self._scheduler.given_up:
            number, reason = self._scheduler.given_up.pop(0)
            text = self._texts.pop(number)
            text.receiver.failed(text.place, reason)

    # ------------------------------------------------------------------------------------------ workers

    def _admit(self, slot: Slot, answer: ProbeAnswer) -> None:
        if self._reference is None:
            self._reference = answer
        if why := difference(self._reference, answer, bits=self._admission.bits):
            self._lose(slot, SlotEnded(why, unfit=True))
            return
        if not self._other_bits and not same_bits(self._reference, answer):
            self._other_bits = True
            self._say(
                f"note: {slot.name} computes other last bits than this machine: the generation id may differ from "
                "the id of a build without it (--require-bit-equal rejects such workers)"
            )
        slot.ready, slot.failures = True, 0
        self._scheduler.join(slot.name)

    def _lose(self, slot: Slot, ended: SlotEnded) -> None:
        """Note that a worker has ended, or is given up: its texts are encoded by others."""
        was_ready = slot.ready
        slot.failures = 0 if was_ready else slot.failures + 1
        pause = 0.0 if was_ready else min(_PAUSE_S * 2 ** (slot.failures - 1), _LONGEST_S)
        slot.vacate(pause)
        self._scheduler.leave(slot.name, f"it ended every worker that encoded it ({ended.reason})")
        self._give_up()
        self.ended += 1
        if ended.unfit:
            slot.out = ended.reason
            self._say(f"note: {slot.name} is not used: {ended.reason}")
        elif was_ready:
            self._say(f"note: {slot.name} ended ({ended.reason}); its texts are encoded again")
            self._vain += 1
            if self._vain >= max(_HOPELESS, 4 * len(self._slots)):
                message = f"{self._vain} workers ended one after another without a result ({ended.reason})"
                raise ModelFailed(message, hint="is memory short? use fewer workers; finished texts are kept")
        elif slot.failures == _STARTS:
            self._say(f"note: {slot.name} does not start ({ended.reason}); it is tried again later")
        if all(each.out or each.failures >= _STARTS for each in self._slots.values()):
            message = f"no worker can be used ({ended.reason})"
            raise Unavailable(message, hint="finished texts are kept; without workers: --workers 0")


def estimated_tokens(text: str) -> int:
    """Return about the number of tokens of a text, rather too many: a piece of a word has 3 bytes or more."""
    return len(text.encode("utf-8", "surrogatepass")) // 3 + 2


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
        yield "token vectors", None if theirs.tokens is None else _same_tokens(*ours.tokens, *theirs.tokens)
    if ours.terms is not None:
        yield "term weights", None if theirs.terms is None else _term_cosine(ours.terms, theirs.terms)


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


def _same_tokens(ids: np.ndarray, codes: np.ndarray, other_ids: np.ndarray, other_codes: np.ndarray) -> float:
    """Return 1 if a text has the same tokens, and all but a hundredth of their packed numbers are equal: one that lies
    on the edge between two levels may fall to either side."""
    if not np.array_equal(ids, other_ids) or codes.shape != other_codes.shape:
        return 0.0
    different = np.count_nonzero(np.unpackbits(codes ^ other_codes))
    return 1.0 if different <= 1 + codes.size * 4 / 100 else 1 - different / (codes.size * 8)


def _term_cosine(ours: TermWeights, theirs: TermWeights) -> float:
    size = int(max(ours.terms.max(initial=0), theirs.terms.max(initial=0))) + 1
    left, right = np.zeros(size, np.float32), np.zeros(size, np.float32)
    left[ours.terms], right[theirs.terms] = ours.weights, theirs.weights
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
