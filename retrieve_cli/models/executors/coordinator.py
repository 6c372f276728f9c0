"""The coordinator of workers: texts -> units (scheduler.py) -> workers (worker_slots.py) -> results, as they come.

One thread decides; it is the one that calls. Each worker has another thread, which only waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from retrieve_cli.contracts.executors import Receiver, Wanted
from retrieve_cli.errors import ModelFailed, Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.executors.admission import PROBES, difference, same_bits
from retrieve_cli.models.executors.scheduler import Policy, Scheduler
from retrieve_cli.models.executors.worker_slots import Slot, SlotEnded, SlotReady, SlotReport, SlotReports, UnitDone
from retrieve_cli.models.executors.workers import ProbeAnswer, UnitResults, WorkerSlot, WorkUnit

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
        self._reports = SlotReports(4 * len(slots))
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
        self._start()
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

    def _start(self) -> None:
        if self._slots:
            return
        self._slots = {slot.name: Slot(slot, self._reports, PROBES) for slot in self._worker_slots}
        self._fill()
        if self._reference is None and self._admission.reference is not None:
            self._reference = self._admission.reference()  # while they start

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
            self._replace_overdue()

    def _replace_overdue(self) -> None:
        """End workers that give no sign, from time to time."""
        now = time.monotonic()
        if now < self._looked + _TICK_S:
            return
        self._looked = now
        for name in self._scheduler.overdue(now):
            self._lose(self._slots[name], SlotEnded("it gave no sign for the time of its lease"))

    def _fill(self) -> None:
        """Start workers at slots that have none."""
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
                slot.give(WorkUnit(lease.number, [each.text for each in texts], [each.wanted for each in texts]))

    def _take(self, report: SlotReport) -> None:
        """Act on a report, unless it is of a worker that was given up."""
        slot, what = self._slots[report.slot], report.what
        if report.life != slot.life:
            return
        if isinstance(what, UnitResults):
            self._receive(report.slot, what)
        elif isinstance(what, UnitDone):
            self._scheduler.finished(report.slot, time.monotonic(), what.reason)
            self._give_up()
        elif isinstance(what, SlotReady):
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
        """Pass on the texts that the scheduler has given up."""
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
            self._check_hope(ended.reason)
        elif slot.failures == _STARTS:
            self._say(f"note: {slot.name} does not start ({ended.reason}); it is tried again later")
        if all(each.out or each.failures >= _STARTS for each in self._slots.values()):
            message = f"no worker can be used ({ended.reason})"
            raise Unavailable(message, hint="finished texts are kept; without workers: --workers 0")

    def _check_hope(self, reason: str) -> None:
        """Raises: ModelFailed if workers end and end."""
        self._vain += 1
        if self._vain >= max(_HOPELESS, 4 * len(self._slots)):
            message = f"{self._vain} workers ended one after another without a result ({reason})"
            raise ModelFailed(message, hint="is memory short? use fewer workers; finished texts are kept")


def estimated_tokens(text: str) -> int:
    """Return about the number of tokens of a text, rather too many: a piece of a word has 3 bytes or more."""
    return len(text.encode("utf-8", "surrogatepass")) // 3 + 2
