"""Observation of requests: ids, the access log, Server-Timing and traces."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import sent, started, state_of
from waiting import until

from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.observing import AccessLog
from retrieve_cli.server.http.state import State


@pytest.fixture
def state(artifacts: Path, tmp_path: Path) -> Iterator[State]:
    state = state_of(artifacts)
    state.access_log = AccessLog(str(tmp_path / "access.jsonl"))
    yield state
    state.close()


def lines(state: State, tmp_path: Path) -> list[dict[str, Any]]:
    """Lines of the access log, once all are written."""
    assert state.access_log is not None
    state.access_log.close()
    return [json.loads(line) for line in (tmp_path / "access.jsonl").read_text("utf-8").splitlines()]


def search(text: str, **headers: str) -> tuple[str, str, dict[str, Any]]:
    return "POST", "/search", {"json": {"query": text}, "headers": headers}


# ------------------------------------------------------------------------------------------------ ids


@pytest.mark.parametrize(
    "given", ["a" * 129, "two words", "tab\tulator", "ümlaut".encode("latin-1").decode("latin-1"), ""]
)
def test_an_id_that_is_long_or_not_plain_is_replaced(state: State, given: str) -> None:
    (answer,) = sent(server_app(state), ("GET", "/health", {"headers": {"X-Request-Id": given.encode("latin-1")}}))
    made = answer.headers["X-Request-Id"]
    assert made != given
    assert len(made) == 32


def test_a_plain_id_comes_back_in_answers_errors_and_the_log(state: State, tmp_path: Path) -> None:
    ids = ["req-1", "4bf9.2f35:77b3_4da6", "c/d=+@"]
    answered, failed, missing = sent(
        server_app(state),
        search("lungs", **{"X-Request-Id": ids[0]}),
        ("POST", "/search", {"json": {"queri": "x"}, "headers": {"X-Request-Id": ids[1]}}),
        ("GET", "/nowhere", {"headers": {"X-Request-Id": ids[2]}}),
    )
    assert [answer.headers["X-Request-Id"] for answer in (answered, failed, missing)] == ids
    assert failed.json()["error"]["request_id"] == ids[1]
    assert missing.json()["error"]["request_id"] == ids[2]
    assert [line["request_id"] for line in lines(state, tmp_path)] == ids


# ------------------------------------------------------------------------------------------------ the log


def test_a_line_of_the_log_tells_of_the_request_and_not_its_text(state: State, tmp_path: Path) -> None:
    answered, _ = sent(server_app(state), search("segment secret lungs"), ("GET", "/nowhere/secret?q=secret", {}))
    text = (tmp_path / "access.jsonl").read_text("utf-8") if lines(state, tmp_path) else ""
    first, second = map(json.loads, text.splitlines())
    assert "secret" not in text
    assert list(first) == [
        "time", "request_id", "method", "route", "status", "ms", "bytes", "caller", "generation", "results",
    ]  # fmt: skip
    body = answered.json()
    assert (first["method"], first["route"], first["status"]) == ("POST", "/search", 200)
    assert (first["bytes"], first["results"]) == (len(answered.content), len(body["results"]))
    assert (first["generation"], first["time"][-1]) == (body["generation"], "Z")
    assert (second["route"], second["status"], second["results"]) == (None, 404, None)


def test_the_log_has_texts_if_that_is_asked_for_and_they_do_not_control_a_terminal(
    artifacts: Path, tmp_path: Path
) -> None:
    state = state_of(artifacts)
    state.access_log = AccessLog(str(tmp_path / "access.jsonl"), texts=True)
    sent(server_app(state), search("segment\nlungs \x1b[31m\u202e"), search("x" * 5000))
    first, second = lines(state, tmp_path)
    assert first["queries"] == ["segment lungs \ufffd[31m\ufffd"]
    assert len(second["queries"][0]) == 300
    state.close()


def test_the_log_names_the_credential_and_not_its_secret(artifacts: Path, tmp_path: Path) -> None:
    state = state_of(artifacts, key="abcdefgh12345678")
    state.access_log = AccessLog(str(tmp_path / "access.jsonl"))
    sent(server_app(state), search("lungs", Authorization="Bearer abcdefgh12345678"), search("lungs"))
    assert [(line["caller"], line["status"]) for line in lines(state, tmp_path)] == [("key", 200), (None, 401)]
    assert "abcdefgh" not in (tmp_path / "access.jsonl").read_text("utf-8")
    state.close()


def test_the_log_goes_on_in_a_new_file_after_the_old_one_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "access.jsonl"
    log = AccessLog(str(path))
    log.write({"time": 0, "number": 1})
    until(lambda: b"1" in path.read_bytes())
    path.rename(tmp_path / "access.1.jsonl")
    log.write({"time": 0, "number": 2})
    log.close()
    assert json.loads(path.read_bytes())["number"] == 2
    assert json.loads((tmp_path / "access.1.jsonl").read_bytes())["number"] == 1


def test_a_pipe_that_nobody_reads_does_not_hold_up_requests(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(str(pipe))
    for number in range(30_000):
        log.write({"time": 0, "number": number, "padding": "x" * 100})
    assert log.dropped > 0
    os.close(reader)  # the writing thread sees a broken pipe and goes on
    log.close()


def test_the_command_logs_to_a_file_or_to_stderr(artifacts: Path, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    flags = ("--access-log", str(log), "--log-queries")
    with started(artifacts, *flags, RETRIEVE_ENCODER__KIND="hashed") as server:
        server.search(query="segment lungs")
        until(lambda: b"segment lungs" in log.read_bytes())
    assert [json.loads(line)["route"] for line in log.read_text().splitlines()] == ["/health", "/search"]


# ---------------------------------------------------------------------------------------------- the header


def test_server_timing_has_the_milliseconds_of_each_stage(state: State) -> None:
    answered, health, shaped = sent(
        server_app(state),
        search("segment lungs"),
        ("GET", "/health", {}),
        ("POST", "/retrieve", {"json": {"query": "segment lungs"}}),
    )
    assert "total" in shaped.headers["Server-Timing"]
    stages = dict(part.split(";dur=") for part in answered.headers["Server-Timing"].split(", "))
    assert list(stages) == ["encode", "search", "rerank", "total"]
    assert float(stages["total"]) == pytest.approx(sum(float(stages[name]) for name in ("encode", "search", "rerank")))
    assert "Server-Timing" not in health.headers
