"""The same request gives the same bytes through each door."""

import json
import os
import random
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import ROOT, Program
from servers import Server, started

REQUESTS = int(os.environ.get("TEST_REQUESTS", "40"))
"""Requests that are generated; the project's own bound is 1,000."""
WORDS = (
    "segment lungs CT brain MRI cells microscopy register volumes 3D format convert images train label count tracks "
    "[EXCLUDE:lungmask] Größe 細胞 \u202e \U0001f600 --help \"quoted\" 'x' $PATH ; \\ %s"
).split(" ")
FLAGS = {
    "limit": "-k", "offset": "--offset", "mode": "--mode", "engine": "--engine", "context": "--context",
    "max_tokens": "--max-tokens", "max_chunks": "--max-chunks", "min_score": "--min-score",
}  # fmt: skip
SWITCHES = {"rerank": "rerank", "expand": "expand", "route": "route", "chunks": "chunks"}
LISTS = {"also": "--also", "filters": "--filter", "doc_ids": "--doc-id", "boosts": "--boost", "facets": "--facet"}


def generated(count: int) -> list[dict[str, Any]]:
    """Requests over all keys, each key in a part of them; the same on every run."""
    chance = random.Random(20261122)
    values: dict[str, Any] = {
        "limit": lambda: chance.randint(1, 30),
        "offset": lambda: chance.randint(0, 12),
        "mode": lambda: chance.choice(["hybrid", "bm25", "dense"]),
        "retrievers": lambda: chance.choice([["bm25"], ["dense"], ["dense", "bm25"]]),
        "engine": lambda: chance.choice(["advanced", "naive"]),
        "also": lambda: [" ".join(chance.sample(WORDS[:18], 3)) for _ in range(chance.randint(1, 2))],
        "filters": lambda: chance.choice([["license=MIT"], ["license=MIT,Apache-2.0", "dims>=3"], ["!license=MIT"]]),
        "doc_ids": lambda: chance.sample(["lungmask", "monai", "totalsegmentator", "cellpose"], 2),
        "boosts": lambda: ["license=MIT:1.4"],
        "facets": lambda: chance.choice([["license"], ["license", "modality"]]),
        "chunks": lambda: chance.random() < 0.5,
        "context": lambda: chance.randint(0, 2),
        "max_tokens": lambda: chance.choice([10, 200, 2000]),
        "max_chunks": lambda: chance.randint(1, 5),
        "min_score": lambda: chance.choice([-1.0, 0.5, 4.0]),
        "rerank": lambda: chance.random() < 0.5,
        "expand": lambda: chance.random() < 0.5,
        "route": lambda: False,
        "explain": lambda: chance.random() < 0.5,
    }
    requests = []
    for _ in range(count):
        request: dict[str, Any] = {"query": " ".join(chance.sample(WORDS, chance.randint(1, 6)))}
        for key, value in values.items():
            if chance.random() < 0.15:
                request[key] = value()
        requests.append(request)
    return requests


def flags(request: dict[str, Any]) -> list[str]:
    """The command line of a request."""
    words = ["query", "--json", "--no-timing"]
    for key, value in request.items():
        if key in FLAGS:
            words.append(f"{FLAGS[key]}={value}" if FLAGS[key].startswith("--") else f"{FLAGS[key]}{value}")
        elif key in SWITCHES:
            words.append(f"--{SWITCHES[key]}" if value else f"--no-{SWITCHES[key]}")
        elif key in LISTS:
            words += [f"{LISTS[key]}={item}" for item in value]
        elif key == "retrievers":
            words.append(f"--retrievers={','.join(value)}")
        elif key == "explain" and value:
            words.append("--explain")
    return [*words, "--", request["query"]]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of the sample catalog, with the hashed encoder."""
    from retrieve_cli.cli.main import main

    folder = tmp_path_factory.mktemp("parity")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        catalog = str(ROOT / "catalogs" / "tools.jsonl")
        assert main(["build", catalog, "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    return folder / "artifacts"


@pytest.fixture(scope="module")
def server(artifacts: Path) -> Iterator[Server]:
    with started(artifacts, "--workers", "2", cwd=artifacts.parent, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running


@pytest.fixture(scope="module")
def requests() -> Sequence[dict[str, Any]]:
    return generated(REQUESTS)


@pytest.fixture
def printed(artifacts: Path, requests: Sequence[dict[str, Any]], retrieve: Program) -> list[str]:
    """Output or error of the command line for each request."""
    done = [retrieve(*flags(request)[:1], "--artifacts", artifacts, *flags(request)[1:]) for request in requests]
    return [run.out if run.code == 0 else json.dumps(json.loads(run.err)["error"]["message"]) for run in done]


def outcome(body: bytes, status: int) -> str:
    """The body, or the words of the error in it."""
    return body.decode() if status == 200 else json.dumps(json.loads(body)["error"]["message"])


@pytest.mark.slow
def test_two_workers_answer_to_the_byte_as_the_command_line(
    server: Server, requests: Sequence[dict[str, Any]], printed: list[str]
) -> None:
    answers = [server.post("/search", request) for request in requests]
    assert [outcome(answer.data, answer.status) for answer in answers] == printed


@pytest.mark.slow
def test_a_batch_answers_each_request_as_it_would_alone(
    server: Server, requests: Sequence[dict[str, Any]], printed: list[str]
) -> None:
    for first in range(0, len(requests), 200):
        part = [{**request, "id": "1"} for request in requests[first : first + 200]]
        answers = server.post("/search/batch", {"requests": part}).json()["answers"]
        for answer, text in zip(answers, printed[first : first + 200], strict=True):
            value = answer["error"]["message"] if "error" in answer else answer
            assert value == json.loads(text)


@pytest.mark.slow
def test_lines_of_standard_input_are_answered_as_bodies_are(
    artifacts: Path,
    requests: Sequence[dict[str, Any]],
    printed: list[str],
    retrieve: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = "".join(json.dumps({**request, "id": "1"}) + "\n" for request in requests)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(lines.encode())))
    done = retrieve("query", "-", "--json", "--no-timing", "--artifacts", artifacts)
    values = [json.loads(line) for line in done.out.splitlines()]
    assert [value["error"]["message"] if "error" in value else value for value in values] == list(
        map(json.loads, printed)
    )
