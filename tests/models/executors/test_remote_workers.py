"""Workers on other machines: servers of ours and of others, and actors of Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import told_servers
from samples import Program, fails, succeeds, write_catalog
from waiting import PATIENCE_S

from retrieve_cli.assemble.encoders import encoder_to_build
from retrieve_cli.config.loading import load
from retrieve_cli.contracts.models import Wanted
from retrieve_cli.models.executors.coordinator import PROBES, difference, same_bits
from retrieve_cli.models.executors.encoding import Encoders
from retrieve_cli.models.executors.workers import ProbeAnswer, WorkUnit
from tests.models.executors.test_worker_builds import records


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a model server of ours, with feature hashing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "retrieve_cli", "serve", "--encoders", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"].removeprefix("http://").removesuffix("/v1")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


@dataclass
class Foreign:
    """A server of another make, which gives embeddings as OpenAI's API does."""

    address: str = ""
    scale: float = 1.0
    failing: bool = False

    def answer(self, asked: told_servers.Asked) -> told_servers.Answer:
        if asked.path != "/v1/embeddings" or self.failing:
            return told_servers.Answer(b'{"error": {"message": "no"}}', 400 if self.failing else 404)
        vectors = encoder_to_build(load(None)).encode_passages(asked.json["input"]) * self.scale
        rows = [
            {"index": place, "embedding": b64encode(vector.astype("<f4").tobytes()).decode()}
            for place, vector in enumerate(vectors)
        ]
        return told_servers.Answer(json.dumps({"model": asked.json["model"], "data": rows[::-1]}).encode())


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    made = Foreign()
    with told_servers.serving(made.answer) as url:
        made.address = url.removeprefix("http://")
        yield made


def generation(retrieve: Program, catalog: Path, name: str, *flags: str) -> tuple[str, str]:
    done = succeeds(retrieve("build", catalog, "--artifacts", name, "--json", *flags))
    return json.loads(done.out)["generation"], done.err


def test_our_own_server_gives_the_generation_of_one_process(retrieve: Program, tmp_path: Path, server: str) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(200))
    expected, _ = generation(retrieve, catalog, "one")
    found, said = generation(retrieve, catalog, "many", "--executor", f"http:{server}", "--require-bit-equal")
    assert found == expected
    assert "note" not in said


def test_a_server_of_another_make_gives_it_too(retrieve: Program, tmp_path: Path, foreign: Foreign) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(200))
    expected, _ = generation(retrieve, catalog, "one")
    assert generation(retrieve, catalog, "many", "--executor", f"http:{foreign.address}/v1")[0] == expected


def test_a_server_with_other_vectors_is_rejected(retrieve: Program, catalog: Path, foreign: Foreign) -> None:
    foreign.scale = -1.0
    fails(retrieve("build", catalog, "--executor", f"http:{foreign.address}"), 6, "differ from this machine's")


def test_a_server_that_rejects_everything_is_not_used_and_processes_go_on(
    retrieve: Program, catalog: Path, foreign: Foreign
) -> None:
    foreign.failing = True
    expected, _ = generation(retrieve, catalog, "one")
    assert (
        generation(retrieve, catalog, "two", "--executor", f"http:{foreign.address}", "--workers", "1")[0] == expected
    )


def test_a_server_that_is_not_there_is_named(retrieve: Program, catalog: Path) -> None:
    fails(retrieve("build", catalog, "--executor", "http:127.0.0.1:9"), 6, "127.0.0.1:9")


def test_numbers_that_differ_a_little_are_near_and_not_the_same() -> None:
    encoders = Encoders(encoder_to_build(load(None)), None)
    made = encoders.encode_all(PROBES, [Wanted()] * len(PROBES))
    ours = ProbeAnswer(encoders.cards, made)
    near = [one._replace(vector=None if one.vector is None else one.vector * 1.000001) for one in made]
    assert difference(ours, ProbeAnswer(None, near), bits=False) == ""
    assert difference(ours, ProbeAnswer(None, near), bits=True) == (
        "its numbers differ from this machine's in their last bits"
    )
    assert same_bits(ours, ProbeAnswer(None, made))
    assert "another model" in difference(ours, ProbeAnswer({"encoder": None, "sparse": None}, made), bits=False)
    assert difference(ours, ProbeAnswer(None, made[:-1]), bits=False) != ""


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'retrieve-cli[ray]'")
def test_actors_of_ray_give_the_generation_of_one_process_and_one_that_ends_is_replaced(
    retrieve: Program, tmp_path: Path
) -> None:
    import ray

    from retrieve_cli.assemble.parts import FACTORY
    from retrieve_cli.models.executors.ray_actors import RayWorker, connect
    from retrieve_cli.models.executors.workers import WorkerEnded

    catalog = write_catalog(tmp_path / "many.jsonl", records(200))
    expected, _ = generation(retrieve, catalog, "one")
    try:
        flags = ("--executor", "ray:local", "--workers", "2", "--require-bit-equal")
        assert generation(retrieve, catalog, "many", *flags)[0] == expected
        assert connect("local") >= 1
        payload = {"settings": {"encoder": {"kind": "hashed"}}, "vectors": True, "terms": False, "tokens": False}
        worker = RayWorker(FACTORY, payload, gpus=0.0)
        assert len(worker.start(PROBES).probes) == len(PROBES)
        worker.kill()
        with pytest.raises(WorkerEnded):
            list(worker.encode(WorkUnit(1, ["text"], [Wanted()])))
    finally:
        ray.shutdown()


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_error_says_how_to_install_it(retrieve: Program, catalog: Path) -> None:
    fails(retrieve("build", catalog, "--executor", "ray:auto"), 6, "pip install 'retrieve-cli[ray]'")
