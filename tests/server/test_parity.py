"""The same request gives the same answer through each door: bytes, or parts of them over MCP."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from asked_samples import flags, generated
from golden.corpora import TOOLS
from mcp_clients import connected, text_of
from samples import Program
from servers import Server, built, started

REQUESTS = int(os.environ.get("TEST_REQUESTS", "40"))
"""Requests that are generated; the project's own bound is 1,000."""
SETTINGS = {"RETRIEVE_ENCODER__KIND": "hashed", "RETRIEVE_CHUNKING__SIZE": "40"}
BUDGETS = (400, 2000, 50_000)
"""Tokens of answers over MCP; the last one cuts nothing."""


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of tools of several groups and owners, some of them in several chunks."""
    return built(tmp_path_factory.mktemp("parity"), TOOLS, **SETTINGS)


@pytest.fixture(scope="module")
def server(artifacts: Path) -> Iterator[Server]:
    with started(artifacts, "--workers", "2", cwd=artifacts.parent, **SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def requests() -> Sequence[dict[str, Any]]:
    return generated(REQUESTS)


@pytest.fixture(scope="module")
def kept() -> list[str]:
    return []


@pytest.fixture
def printed(artifacts: Path, requests: Sequence[dict[str, Any]], retrieve: Program, kept: list[str]) -> list[str]:
    """Output or error of the command line for each request; the module asks once."""
    if not kept:
        options = ("--json", "--no-timing", "--artifacts", artifacts)
        for request in requests:
            done = retrieve("query", *options, *flags(request))
            kept.append(done.out if done.code == 0 else message(done.err))
    return kept


def message(error: str | bytes) -> str:
    """Return the words of an error object, as JSON."""
    return json.dumps(json.loads(error)["error"]["message"])


def outcome(body: bytes, status: int) -> str:
    """The body, or the words of the error in it."""
    return body.decode() if status == 200 else message(body)


def test_two_workers_answer_to_the_byte_as_the_command_line(
    server: Server, requests: Sequence[dict[str, Any]], printed: list[str]
) -> None:
    answers = [server.post("/search", {**request, "related": "full"}) for request in requests]
    assert [outcome(answer.data, answer.status) for answer in answers] == printed


def test_a_batch_answers_each_request_as_it_would_alone(
    server: Server, requests: Sequence[dict[str, Any]], printed: list[str]
) -> None:
    for first in range(0, len(requests), 200):
        part = [{**request, "id": "1", "related": "full"} for request in requests[first : first + 200]]
        answers = server.post("/search/batch", {"requests": part}).json()["answers"]
        for answer, text in zip(answers, printed[first : first + 200], strict=True):
            value = answer["error"]["message"] if "error" in answer else answer
            assert value == json.loads(text)


# --------------------------------------------------------------------------------------------------- MCP


def test_each_value_over_mcp_is_that_of_the_command_line(
    artifacts: Path, requests: Sequence[dict[str, Any]], retrieve: Program, printed: list[str]
) -> None:
    sent = [{key: value for key, value in request.items() if key != "max_tokens"} for request in requests]
    expected = []
    for request, whole, text in zip(sent, requests, printed, strict=True):
        if request != whole:  # the tool's own key of that name limits the tokens of what it says
            done = retrieve("query", "--json", "--no-timing", "--artifacts", artifacts, *flags(request))
            text = done.out if done.code == 0 else message(done.err)  # noqa: PLW2901
        expected.append(json.loads(text))

    async def ask() -> list[Any]:
        async with connected(artifacts, texts="structured") as client:
            budgets = [BUDGETS[place % len(BUDGETS)] for place in range(len(sent))]
            return [
                await client.call_tool("search", {**request, "max_tokens": most})
                for request, most in zip(sent, budgets, strict=True)
            ]

    for place, (answer, whole) in enumerate(zip(anyio.run(ask), expected, strict=True)):
        if isinstance(whole, str):
            assert answer.is_error, sent[place]
            assert text_of(answer).startswith(whole), sent[place]
        else:
            assert not answer.is_error, text_of(answer)
            compare(answer.structured_content, whole, all_of_it=BUDGETS[place % len(BUDGETS)] == BUDGETS[-1])


def compare(ours: dict[str, Any], whole: dict[str, Any], *, all_of_it: bool) -> None:
    """Hold each value of a structured answer to that of the command line."""
    assert ours.keys() - whole.keys() <= {"next_cursor"}
    assert len(ours["results"]) == len(whole["results"]) or not all_of_it
    for key in ours.keys() - {"next_cursor"}:
        if key not in ("results", "related"):
            assert ours[key] == whole[key]
            continue
        assert len(ours[key]) <= len(whole[key])
        for one, other in zip(ours[key], whole[key], strict=False):
            assert one.keys() - other.keys() - {"fields"} == {"title", "text"}
            of_record = {**other, **other.get("supporting_data", {}), **other.get("metadata", {})}
            for name, value in one.get("fields", {}).items():
                assert value == of_record[name] or str(value).endswith("…")
            assert all(one[name] == other[name] for name in one.keys() & other.keys()), (one, other)
            assert one["title"] == other["name"]
