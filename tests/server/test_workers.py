"""Several worker processes on one port; the end of a server."""

import os
import signal
import socket
import subprocess
import sys
from asyncio import base_events
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from copy import copy
from pathlib import Path
from typing import Any

import pytest
import urllib3
from samples import TOOLS, Program, write_catalog
from servers import Server, started, workers_of
from waiting import PATIENCE_S, until

from retrieve_cli.http.listening import reserve


def ids_of(answer: Any) -> list[str]:
    return [result["id"] for result in answer["results"]]


@pytest.fixture
def workers(index: Path) -> Iterator[Server]:
    with started(index, "--workers", "2", cwd=index.parent) as server:
        yield server


def test_a_worker_that_is_killed_is_replaced_while_the_other_answers(workers: Server) -> None:
    until(lambda: len(workers_of(workers.process.pid)) == 2)
    until(lambda: all(listens(pid) for pid in workers_of(workers.process.pid)))
    before = workers.search(query="brain")
    killed = workers_of(workers.process.pid)[0]
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda _: answer(workers), range(100))
        os.kill(killed, signal.SIGKILL)
        meanwhile = list(answers)  # but for those that the killed worker takes before its socket is closed
        until(lambda: not Path(f"/proc/{killed}").exists())
        after = list(pool.map(lambda _: workers.search(query="brain"), range(100)))
    assert all(value in (None, before) for value in meanwhile)
    assert meanwhile.count(None) <= 20
    assert all(value == before for value in after)
    until(lambda: len(set(workers_of(workers.process.pid)) - {killed}) == 2)
    assert workers.search(query="brain") == before


def answer(server: Server) -> object:
    """The answer to a query; None if the connection broke."""
    try:
        return server.search(query="brain")
    except urllib3.exceptions.HTTPError:
        return None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_workers_end_with_their_parent(index: Path, number: signal.Signals, code: int) -> None:
    with started(index, "--workers", "2", cwd=index.parent) as server:
        until(lambda: len(workers_of(server.process.pid)) == 2)
        pids = workers_of(server.process.pid)
        server.process.send_signal(number)
        assert server.process.wait(PATIENCE_S) == code
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_connections_are_dealt_out_among_the_workers(workers: Server) -> None:
    until(lambda: len(workers_of(workers.process.pid)) == 2)
    until(lambda: all(listens(pid) for pid in workers_of(workers.process.pid)))
    host, port = workers.url.removeprefix("http://").split(":")
    before = {pid: sockets(pid) for pid in workers_of(workers.process.pid)}
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE_S))
        until(lambda: sum(sockets(pid) - count for pid, count in before.items()) >= 36)  # earlier ones may end
        assert min(sockets(pid) - count for pid, count in before.items()) >= 4


def test_asyncio_sends_the_answers_of_workers_without_delay() -> None:
    with reserve("127.0.0.1", 0) as reserved, copy(reserved) as own:  # as a process gets it to which it is sent
        own.listen()
        with socket.create_connection(own.getsockname(), timeout=PATIENCE_S), own.accept()[0] as accepted:
            base_events._set_nodelay(accepted)  # type: ignore[attr-defined]
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def sockets(pid: int) -> int:
    return len(descriptors(pid))


def descriptors(pid: int) -> list[str]:
    """The sockets of a process."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(str(path.readlink()))
    return [link for link in links if link.startswith("socket:")]


def listens(pid: int) -> bool:
    """True if a process has a socket that listens: an entry in state 0A whose inode is one of its descriptors."""
    entries = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{entry[9]}]" for entry in entries if entry[3] == "0A"}
    return not inodes.isdisjoint(descriptors(pid))


def test_two_servers_do_not_share_an_address_by_accident(workers: Server, index: Path) -> None:
    port = workers.url.rpartition(":")[2]
    for flags in ([], ["--workers", "2"]):
        command = [sys.executable, "-m", "retrieve_cli", "serve", "--artifacts", str(index), "--port", port, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, "cannot listen" in done.stderr) == (1, True)


def test_workers_do_not_outlive_a_killed_parent(index: Path) -> None:
    with started(index, "--workers", "2", cwd=index.parent) as server:
        until(lambda: len(workers_of(server.process.pid)) == 2)
        pids = workers_of(server.process.pid)
        server.process.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


BROKEN = """
import sys
from functools import partial
from retrieve_cli.http.listening import reserve
from retrieve_cli.server.http.running import Running, run_workers
if __name__ == "__main__":
    with reserve("127.0.0.1", 0) as listener:
        run_workers(partial(sys.exit, 3), 2, listener, lambda: print("ready"), Running(1.0))
"""


def test_workers_that_cannot_start_end_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the workers end as soon as they start" in done.stderr


def test_a_damaged_generation_leaves_the_one_before_in_service(index: Path, retrieve: Program) -> None:
    with started(index, cwd=index.parent) as server:
        before = server.search(query="brain")
        write_catalog(index.parent / "tools.jsonl", TOOLS[:3])
        assert retrieve("sync").code == 0
        newer = (index / "current").read_text()
        until(lambda: server.search(query="brain")["generation"] == newer.strip())
        (index / "current").write_text("0123456789ab\n")
        until(lambda: server.get("/readyz").json()["checks"]["index"]["status"] == "fail")
        assert server.search(query="brain")["generation"] == newer.strip() != before["generation"]
        older = server.search(query="brain", generation=before["generation"])
        assert ids_of(older) == ids_of(before) != ids_of(server.search(query="brain"))
        (index / "current").write_text(newer)
        until(lambda: server.get("/readyz").json()["checks"]["index"]["status"] == "ok")
