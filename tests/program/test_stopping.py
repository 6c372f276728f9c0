"""A server whose clients leave, and one that is told to end while many wait."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

PROGRAM = """
import sys, time
from retrieve_cli.encoders.hashed import HashedEncoder
plain = HashedEncoder.encode_passages
HashedEncoder.shares_passes = False  # or requests that wait share a pass
def slow(self, texts):
    if texts != ["ready"]:
        with open("computed", "a") as file:
            file.write(texts[0] + "\\n")
        time.sleep(float(sys.argv[1]))
    return plain(self, texts)
HashedEncoder.encode_passages = slow
from retrieve_cli.cli import main
sys.exit(main.main(["serve", "--encoders", "--port", "0", "--json", *sys.argv[2:]]))
"""


class Server:
    """`retrieve serve` as a process, in which each text takes some seconds and is noted before."""

    def __init__(self, seconds: float, *arguments: str) -> None:
        heeded = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job would ignore
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, str(seconds), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_PROXY": "*"},
        )  # fmt: skip
        signal.signal(signal.SIGINT, heeded)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.url = json.loads(line)["url"]

    @property
    def computed(self) -> list[str]:
        """The texts whose computation was begun."""
        path = Path("computed")
        return path.read_text().splitlines() if path.exists() else []

    def ask(self, text: str) -> tuple[int, Any]:
        """The status and the error code of an answer; 0 if the connection was closed without one."""
        body = json.dumps({"input": text}).encode()
        try:
            answer = urllib3.request("POST", f"{self.url}/embeddings", body=body, timeout=60, retries=False)
        except urllib3.exceptions.HTTPError:
            return 0, None
        return answer.status, answer.json().get("error", {}).get("code")

    def until_computed(self, text: str) -> None:
        until = time.monotonic() + 30
        while text not in self.computed:
            assert time.monotonic() < until
            time.sleep(0.01)

    def ended(self, number: signal.Signals) -> tuple[int, str]:
        """The exit code and what was written on stderr, once it has ended after a signal."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    begun: list[Server] = []

    def make(seconds: float, *arguments: str) -> Server:
        begun.append(Server(seconds, *arguments))
        return begun[-1]

    yield make
    for server in begun:
        server.process.kill()
        server.process.communicate()


def leave(server: Server, text: str) -> None:
    """Asks, and goes away."""
    port = int(server.url.split(":")[-1].split("/")[0])
    body = json.dumps({"input": text}).encode()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(
            b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        time.sleep(0.02)


def test_what_nobody_waits_for_any_more_is_not_computed(serve: Callable[..., Server]) -> None:
    server = serve(2)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(server.ask, "first")
        server.until_computed("first")
        for number in range(20):
            leave(server, f"left {number}")
        assert server.ask("last") == (200, None)
        assert first.result() == (200, None)
    assert server.computed == ["first", "last"]
    assert server.ended(signal.SIGTERM) == (0, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_full_queue_is_answered_for_as_long_as_the_grace_and_then_told_so(
    serve: Callable[..., Server], number: signal.Signals, code: int
) -> None:
    server = serve(0.3, "--grace", "1s")
    with ThreadPoolExecutor(64) as pool:
        asked = [pool.submit(server.ask, f"text {at}") for at in range(64)]
        while not server.computed:
            time.sleep(0.01)
        time.sleep(0.5)
        ended, err = server.ended(number)
        answers = [future.result() for future in asked]
    assert ended == code
    assert "Traceback" not in err
    assert err.splitlines() == ([] if code == 0 else err.splitlines()[:1])
    assert {(200, None), (503, "stopping")} <= set(answers)
    assert len(server.computed) < 32


def test_what_waits_is_answered_if_there_is_time(serve: Callable[..., Server]) -> None:
    server = serve(0.2, "--grace", "50")
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(server.ask, f"text {at}") for at in range(4)]
        server.until_computed("text 0")
        time.sleep(0.1)
        assert server.ended(signal.SIGTERM) == (0, "")
        assert [future.result() for future in asked] == [(200, None)] * 4


@pytest.mark.parametrize("grace", ["0", "0.5s"])
def test_a_computation_that_does_not_end_does_not_keep_it(serve: Callable[..., Server], grace: str) -> None:
    server = serve(300, "--grace", grace)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(server.ask, "long")
        server.until_computed("long")
        assert server.ended(signal.SIGTERM) == (0, "")
        assert asked.result() == (503, "stopping")


def test_a_client_that_reads_nothing_does_not_keep_it(serve: Callable[..., Server]) -> None:
    server = serve(0, "--grace", "0.3")
    port = int(server.url.split(":")[-1].split("/")[0])
    body = json.dumps({"input": ["x"] * 2000}).encode()
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        client.sendall(head + body)
        server.until_computed("x")
        time.sleep(0.5)
        assert server.ended(signal.SIGTERM) == (0, "")
