"""Processes that encode: the same bits as one process, whoever is killed; a text that ends them is found."""

from __future__ import annotations

import os
import random
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import PATIENCE_S, until

from retrieve_cli.contracts.models import Wanted
from retrieve_cli.errors import ModelFailed, Unavailable
from retrieve_cli.models.executors.coordinator import PROBES, Admission
from retrieve_cli.models.executors.local import MachineShare, gpus, shares
from retrieve_cli.models.executors.scheduler import Policy
from retrieve_cli.models.executors.workers import ProbeAnswer
from tests.models.executors.conftest import Collected, Crews, Hired, each_killed_three_times
from tests.models.executors.worker_encoders import POISON, slow


def texts_of(count: int, *, words: int = 12) -> list[str]:
    chance = random.Random(count)
    return [" ".join(f"word{chance.randrange(400)}" for _ in range(chance.randint(1, words))) for _ in range(count)]


def run(crew: Hired, texts: list[str], wanted: Wanted = Wanted()) -> Collected:
    collected = Collected()
    half = len(texts) // 2
    first, second = texts[:half], texts[half:]
    crew.encode(first, [wanted] * len(first), collected)
    crew.encode(second, [wanted] * len(second), replace(collected, first=half))
    crew.finish()
    return collected


def check_same(collected: Collected, texts: list[str]) -> None:
    """Every text has the vector that this process gives it, to the bit."""
    encoder = slow({}).encoder
    assert encoder is not None
    expected = encoder.encode_passages(texts)
    for place, text in enumerate(texts):
        if POISON not in text and "refused" not in text:
            vector = collected.results[place].vector
            assert vector is not None
            assert vector.tobytes() == expected[place].tobytes()


def test_two_processes_give_the_bits_of_one(crew: Crews) -> None:
    texts = texts_of(700)
    check_same(run(crew(2), texts), texts)


def test_vectors_and_term_weights_come_from_one_pass(crew: Crews) -> None:
    texts = texts_of(60)
    collected = run(crew(1, {"terms": True}), texts, Wanted(vector=True, terms=True))
    check_same(collected, texts)
    for place, text in enumerate(texts):
        terms = collected.results[place].terms
        assert terms is not None
        assert terms.terms.tolist() == list(range(len(text) % 7))


def test_only_what_is_wanted_of_a_text_is_made(crew: Crews) -> None:
    collected = run(crew(1, {"terms": True}), texts_of(20), Wanted(vector=False, terms=True))
    assert all(result.vector is None and result.terms is not None for result in collected.results.values())


def test_workers_that_ended_while_they_had_nothing_to_do_are_no_fault_of_the_next_text(crew: Crews) -> None:
    hired = crew(4)
    run(hired, texts_of(8))
    until(lambda: len([slot for slot in hired._slots.values() if slot.ready]) == 4 or hired.finish())
    for _, worker in hired.processes:
        os.kill(worker.pid, signal.SIGKILL)
    check_same(run(hired, ["word1 word2"]), ["word1 word2"])


def test_eight_processes_of_which_each_is_killed_three_times_encode_few_texts_twice(
    crew: Crews, tmp_path: Path
) -> None:
    texts = texts_of(9_000)
    count = tmp_path / "count"
    hired = crew(8, {"seconds": 0.012, "count": str(count)}, policy=Policy(unit_tokens=2048))
    with each_killed_three_times([hired], seed=8):
        collected = run(hired, texts)
    check_same(collected, texts)
    assert collected.reasons == {}
    probes = len(PROBES) * len(hired.processes)
    assert count.stat().st_size - probes <= 1.05 * len(texts)


def test_a_text_that_ends_every_process_is_given_up_and_the_others_are_encoded(crew: Crews) -> None:
    texts = texts_of(40)
    texts[17] = POISON
    collected = run(crew(2, policy=Policy(kills=2)), texts)
    check_same(collected, texts)
    assert collected.reasons == {17: "it ended every worker that encoded it (signal SIGKILL)"}


def test_a_text_that_cannot_be_encoded_is_given_up_without_a_new_process(crew: Crews) -> None:
    texts = texts_of(40)
    texts[3] = "refused"
    hired = crew(1)
    collected = run(hired, texts)
    check_same(collected, texts)
    assert collected.reasons == {3: "ValueError: this text has no numbers"}
    assert len(hired.processes) == 1


def test_a_worker_with_another_model_is_not_used(crew: Crews) -> None:
    texts = texts_of(100)
    hired = crew(2, [{}, {"tilt": 0.1}], admission=Admission(reference))
    check_same(run(hired, texts), texts)
    while not hired._slots["worker 2"].out:
        hired._take(report) if (report := hired._reports.get(PATIENCE_S)) else pytest.fail("it was never looked at")
    assert any("worker 2 is not used: its vectors of probe 1 differ" in said for said in hired.said)


def reference() -> ProbeAnswer:
    encoders = slow({})
    return ProbeAnswer(encoders.cards, encoders.encode_all(PROBES, [encoders.everything] * len(PROBES)))


def test_other_last_bits_are_named_and_rejected_on_demand(crew: Crews) -> None:
    texts = texts_of(10)
    near = crew(1, {"tilt": 1e-6}, admission=Admission(reference))
    assert len(run(near, texts).results) == len(texts)
    assert any("computes other last bits" in said for said in near.said)
    with pytest.raises(Unavailable, match="last bits"):
        run(crew(1, {"tilt": 1e-6}, admission=Admission(reference, bits=True)), texts)


def test_without_any_worker_the_reason_is_that_of_the_worker(crew: Crews) -> None:
    with pytest.raises(Unavailable, match="the model is not on this machine"):
        run(crew(2, {"missing": True}), texts_of(10))


def test_workers_that_end_and_end_are_not_started_for_ever(crew: Crews) -> None:
    texts = [f"{POISON} {place}" for place in range(64)]
    with pytest.raises(ModelFailed, match="ended one after another"):
        run(crew(2, policy=Policy(kills=20)), texts)


def test_a_worker_that_hangs_is_replaced_after_its_lease(crew: Crews) -> None:
    texts = texts_of(60)
    hired = crew(1, {"seconds": 0.02}, policy=Policy(lease_s=1.0))

    def stop() -> None:
        until(lambda: hired._units, "texts that are being encoded")
        os.kill(hired.processes[0][1].pid, signal.SIGSTOP)

    watcher = threading.Thread(target=stop)
    watcher.start()
    check_same(run(hired, texts), texts)
    watcher.join()
    assert len(hired.processes) == 2


def test_cores_are_shared_out_and_devices_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [share.threads for share in shares(3, 8)] == [3, 3, 2]
    assert [share.threads for share in shares(4, 2)] == [1, 1, 1, 1]
    by_device = shares(4, 8, ["0", "3"])
    assert [share.device for share in by_device] == ["0", "3", "0", "3"]
    assert by_device[1].environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert "CUDA_VISIBLE_DEVICES" not in MachineShare(2).environment
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 5")
    assert gpus() == ["2", "5"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus() == []
