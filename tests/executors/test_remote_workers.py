"""Workers on other machines: servers of ours and of others, and actors of Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog
from waiting import PATIENCE_S

from retrieve_cli.assemble.encoders import encoder_to_build
from retrieve_cli.config.loading import load
from retrieve_cli.contracts.executors import Wanted
from retrieve_cli.executors.admission import PROBES, difference, same_bits
from retrieve_cli.executors.encoding import Encoders
from retrieve_cli.executors.messages import Answer, Work
from tests.executors.test_worker_builds import records


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


class Foreign(BaseHTTPRequestHandler):
    """Embeddings as OpenAI's API gives them."""

    scale = 1.0
    failing = False

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/embeddings" or self.failing:
            self._answer(404 if not self.failing else 400, {"error": {"message": "no"}})
            return
        vectors = encoder_to_build(load(None)).encode_passages(request["input"]) * self.scale
        rows = [
            {"index": place, "embedding": b64encode(vector.astype("<f4").tobytes()).decode()}
            for place, vector in enumerate(vectors)
        ]
        self._answer(200, {"model": request["model"], "data": rows[::-1]})

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def foreign() -> Iterator[tuple[str, type[Foreign]]]:
    """The address of a server of another make, and its behaviour."""

    class Own(Foreign):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{made.server_address[1]}", Own
        made.shutdown()


def generation(retrieve: Program, catalog: Path, name: str, *flags: str) -> tuple[str, str]:
    done = retrieve("build", catalog, "--artifacts", name, "--json", *flags)
    assert done.code == 0, done.err
    return json.loads(done.out)["generation"], done.err


def test_our_own_server_gives_the_generation_of_one_process(retrieve: Program, tmp_path: Path, server: str) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(200))
    expected, _ = generation(retrieve, catalog, "one")
    found, said = generation(retrieve, catalog, "many", "--executor", f"http:{server}", "--require-bit-equal")
    assert found == expected
    assert "note" not in said


def test_a_server_of_another_make_gives_it_too(
    retrieve: Program, tmp_path: Path, foreign: tuple[str, type[Foreign]]
) -> None:
    catalog = write_catalog(tmp_path / "many.jsonl", records(200))
    expected, _ = generation(retrieve, catalog, "one")
    assert generation(retrieve, catalog, "many", "--executor", f"http:{foreign[0]}/v1")[0] == expected


def test_a_server_with_other_vectors_is_rejected(
    retrieve: Program, catalog: Path, foreign: tuple[str, type[Foreign]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign[1], "scale", -1.0)
    done = retrieve("build", catalog, "--executor", f"http:{foreign[0]}")
    assert done.code == 6
    assert "differ from this machine's" in done.err


def test_a_server_that_rejects_everything_is_not_used_and_processes_go_on(
    retrieve: Program, catalog: Path, foreign: tuple[str, type[Foreign]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign[1], "failing", True)
    expected, _ = generation(retrieve, catalog, "one")
    assert generation(retrieve, catalog, "two", "--executor", f"http:{foreign[0]}", "--workers", "1")[0] == expected


def test_a_server_that_is_not_there_is_named(retrieve: Program, catalog: Path) -> None:
    done = retrieve("build", catalog, "--executor", "http:127.0.0.1:9")
    assert done.code == 6
    assert "127.0.0.1:9" in done.err


def test_numbers_that_differ_a_little_are_near_and_not_the_same() -> None:
    encoders = Encoders(encoder_to_build(load(None)), None)
    made = encoders.encode_all(PROBES, [Wanted()] * len(PROBES))
    ours = Answer(encoders.cards, made)
    near = [one._replace(vector=None if one.vector is None else one.vector * 1.000001) for one in made]
    assert difference(ours, Answer(None, near), bits=False) == ""
    assert difference(ours, Answer(None, near), bits=True) == (
        "its numbers differ from this machine's in their last bits"
    )
    assert same_bits(ours, Answer(None, made))
    assert "another model" in difference(ours, Answer({"encoder": None, "sparse": None}, made), bits=False)
    assert difference(ours, Answer(None, made[:-1]), bits=False) != ""


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'retrieve-cli[ray]'")
def test_actors_of_ray_give_the_generation_of_one_process_and_one_that_ends_is_replaced(
    retrieve: Program, tmp_path: Path
) -> None:
    import ray

    from retrieve_cli.assemble.executors import FACTORY
    from retrieve_cli.executors.ray_actors import RayWorker, connect
    from retrieve_cli.executors.workers import WorkerEnded

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
            list(worker.encode(Work(1, ["text"], [Wanted()])))
    finally:
        ray.shutdown()


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_error_says_how_to_install_it(retrieve: Program, catalog: Path) -> None:
    done = retrieve("build", catalog, "--executor", "ray:auto")
    assert done.code == 6
    assert "pip install 'retrieve-cli[ray]'" in done.err
