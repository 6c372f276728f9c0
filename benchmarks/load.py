"""A load of searches over HTTP/1.1 on loopback: so many clients, each of which sends its next request after an answer.

python benchmarks/load.py PORT CLIENTS SECONDS BODIES.jsonl [--requests N] [--pid PID]

It prints one JSON object: requests per second, percentiles of the latency, failures, the processor seconds of this
process, and if its process id is given, those of the server for a request and its resident memory as it goes on.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
SAMPLES = 20
"""Measurements of the server's memory."""


class Client(asyncio.Protocol):
    """One connection that always has one request under way."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.buffer = b""
        self.begun = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        """Send the next request, if there is one."""
        request = self.load.next_request()
        if request is None:
            self.transport.close()
            self.load.one_done()
            return
        self.begun = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, body = self.buffer.partition(HEAD_END)
        if not end:
            return
        lowered = head.lower()
        start = lowered.index(LENGTH) + len(LENGTH)
        if len(body) < int(lowered[start:].split(b"\r\n", 1)[0]):
            return
        self.buffer = b""
        self.load.record(time.perf_counter() - self.begun, ok=head[9:12] == b"200")
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.load.record(0.0, ok=False)
            self.load.one_done()


class Load:
    """State that all clients share."""

    def __init__(self, requests: list[bytes], *, clients: int, seconds: float, most: int | None, pid: int) -> None:
        self.requests = requests
        self.running = clients
        self.most = most
        self.seconds = seconds
        self.pid = pid
        self.numbers = count()
        self.latencies: list[float] = []
        self.failed = 0
        self.memory: list[float] = []
        self.first = random.randrange(len(requests))  # no load repeats what a server remembers of the one before
        self.ended = asyncio.Event()
        self.begun = time.perf_counter()

    def next_request(self) -> bytes | None:
        """The next request; None after the last one."""
        number = next(self.numbers)
        if self.most is not None:
            if self.pid and number % max(self.most // SAMPLES, 1) == 0:
                self.memory.append(resident(self.pid))
            if number >= self.most:
                return None
        elif time.perf_counter() - self.begun > self.seconds:
            return None
        return self.requests[(self.first + number) % len(self.requests)]

    def record(self, seconds: float, *, ok: bool) -> None:
        """Count an answer."""
        if ok:
            self.latencies.append(seconds)
        else:
            self.failed += 1

    def one_done(self) -> None:
        """Count a client that has ended."""
        self.running -= 1
        if not self.running:
            self.ended.set()


def resident(pid: int) -> float:
    """MiB of memory of a process and its children that no file backs and that is in memory."""
    total = 0.0
    for status in [Path(f"/proc/{pid}/status"), *children(pid)]:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024
    return round(total, 1)


def processor(pid: int) -> float:
    """Processor seconds of a process and its children so far."""
    total = 0
    for status in [Path(f"/proc/{pid}/status"), *children(pid)]:
        with suppress(OSError):
            fields = status.with_name("stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[Path]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [Path(f"/proc/{child}/status") for child in found]


def percentile(ordered: list[float], share: float) -> float:
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1000, 3) if ordered else float("nan")


async def measure(options: argparse.Namespace, bodies: list[bytes]) -> dict[str, object]:
    """Run the load and return its figures."""
    head = (
        b"POST /search HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    requests = [head % (options.port, len(body)) + body for body in bodies]
    cpu, served = time.process_time(), processor(options.pid)
    load = Load(requests, clients=options.clients, seconds=options.seconds, most=options.requests, pid=options.pid)
    loop = asyncio.get_running_loop()
    for _ in range(options.clients):
        await loop.create_connection(lambda: Client(load), "127.0.0.1", options.port)
    await load.ended.wait()
    wall = time.perf_counter() - load.begun
    ordered = sorted(load.latencies)
    shares = {f"p{share * 100:g}": percentile(ordered, share) for share in (0.5, 0.95, 0.99)}
    return {
        "per_second": round(len(ordered) / wall, 2),
        **shares,
        "requests": len(ordered),
        "failed": load.failed,
        "cpu_ms": round((processor(options.pid) - served) * 1000 / max(len(ordered), 1), 3),
        "client_cpu": round(time.process_time() - cpu, 3),
        "memory": load.memory,
    }


def main(arguments: list[str]) -> None:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("clients", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("bodies")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--pid", type=int, default=0)
    options = parser.parse_args(arguments)
    print(json.dumps(asyncio.run(measure(options, Path(options.bodies).read_bytes().splitlines()))))


if __name__ == "__main__":
    main(sys.argv[1:])
