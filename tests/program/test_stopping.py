"""A server whose clients leave, and one that is told to end while many wait."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
from waiting import PATIENCE_S, until

PROGRAM = """
import os, sys
from retrieve_cli.models.encoders.hashed import HashedEncoder
plain = HashedEncoder.encode_passages
HashedEncoder.shares_passes = False  # or requests that wait share a pass
def waiting(self, texts):
    if texts != ["ready"]:
        with open("computed", "a") as file:
            file.write(texts[0] + "\\n")
        os.read(0, 1)
    return plain(self, texts)
HashedEncoder.encode_passages = waiting
from retrieve_cli.cli import main
sys.exit(main.main(["serve", "--encoders", "--port", "0", "--json", *sys.argv[1:]]))
"""
CANCELLED = re.compile(r"Cancel \d+ running task\(s\), timeout graceful shutdown exceeded")


class Server:
    """`retrieve serve` as a process, in which each computation is noted before and takes until it is released."""

    def __init__(self, *arguments: str) -> None:
        heeded = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job would ignore
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *arguments], text=True, env={**os.environ, "NO_PROXY": "*"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        signal.signal(signal.SIGINT, heeded)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.url = json.loads(line)["url"]
        self.port = int(self.url.split(":")[-1].split("/")[0])

    def release(self, computations: int) -> None:
        """Let this many computations end: those under way, and those that follow."""
        assert self.process.stdin is not None
        self.process.stdin.write("." * computations)
        self.process.stdin.flush()

    @property
    def computed(self) -> list[str]:
        """The texts whose computation was begun."""
        path = Path("computed")
        return path.read_text().splitlines() if path.exists() else []

    def ask(self, text: str) -> tuple[int, Any]:
        """The status and the error code of an answer; 0 if the connection was closed without one."""
        body = json.dumps({"input": text}).encode()
        try:
            answer = urllib3.request("POST", f"{self.url}/embeddings", body=body, timeout=PATIENCE_S, retries=False)
        except urllib3.exceptions.HTTPError:
            return 0, None
        return answer.status, answer.json().get("error", {}).get("code")

    def send(self, value: str | list[str]) -> socket.socket:
        """A connection on which a request was sent."""
        body = json.dumps({"input": value}).encode()
        client = socket.create_connection(("127.0.0.1", self.port))
        head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        client.sendall(head % len(body) + body)
        return client

    def until_computed(self, text: str) -> None:
        until(lambda: text in self.computed, f"the computation of {text}")

    def until_under_way(self, count: int) -> None:
        """Wait until so many requests are under way, by its own account."""

        def reached() -> bool:
            address = f"http://127.0.0.1:{self.port}/metrics"
            said = urllib3.request("GET", address, timeout=PATIENCE_S, retries=False).data.decode()
            found = re.search(r"^retrieve_http_requests_waiting (\d+)\.0$", said, re.MULTILINE)
            return found is not None and int(found.group(1)) == count

        until(reached, f"{count} requests under way")

    def ended(self, number: signal.Signals, released: int = 0) -> tuple[int, str]:
        """The exit code and what was written on stderr, once it has ended after a signal; without uvicorn's line on
        the requests that it cancels."""
        self.process.send_signal(number)
        self.release(released)
        code = self.process.wait(PATIENCE_S)  # while stdin stays open
        assert self.process.stderr is not None
        lines = self.process.stderr.read().splitlines(keepends=True)
        return code, "".join(line for line in lines if not CANCELLED.fullmatch(line.rstrip()))


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    begun: list[Server] = []

    def make(*arguments: str) -> Server:
        begun.append(Server(*arguments))
        return begun[-1]

    yield make
    for server in begun:
        server.process.kill()
        server.process.communicate()


def test_what_nobody_waits_for_any_more_is_not_computed(serve: Callable[..., Server]) -> None:
    server = serve()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(server.ask, "first")
        server.until_computed("first")
        for number in range(20):
            with server.send(f"left {number}"):
                server.until_under_way(2)
            server.until_under_way(1)
        server.release(2)
        assert server.ask("last") == (200, None)
        assert first.result() == (200, None)
    assert server.computed == ["first", "last"]
    assert server.ended(signal.SIGTERM) == (0, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_full_queue_is_answered_for_as_long_as_the_grace_and_then_told_so(
    serve: Callable[..., Server], number: signal.Signals, code: int
) -> None:
    server = serve("--grace", "1s")
    with ThreadPoolExecutor(64) as pool:
        asked = [pool.submit(server.ask, f"text {at}") for at in range(64)]
        server.until_under_way(64)
        server.release(1)
        server.until_under_way(63)
        ended, err = server.ended(number)
        answers = [future.result() for future in asked]
    assert ended == code
    assert "Traceback" not in err
    assert err.splitlines() == ([] if code == 0 else err.splitlines()[:1])
    assert answers.count((200, None)) == 1
    assert (503, "stopping") in answers
    assert len(server.computed) == 2


def test_a_client_that_reads_nothing_does_not_keep_it(serve: Callable[..., Server]) -> None:
    server = serve("--grace", "0.3")
    server.release(1)
    with server.send(["x"] * 2000) as client:
        begun, _, _ = select.select([client], [], [], PATIENCE_S)
        assert begun, "no answer"
        assert server.ended(signal.SIGTERM) == (0, "")
