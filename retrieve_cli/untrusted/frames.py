"""Frames: a head and a body of bounded sizes, and the side of a worker, which reads requests and writes answers.

frame   size of the head (4 bytes) and of the body (8 bytes), little-endian; the head; the body
"""

from __future__ import annotations

import os
import signal

SIZES = 12
"""Bytes before a head."""
_HEAD, _BODY = 4, 8
_FROM_TERMINAL = ("SIGINT", "SIGHUP", "SIGQUIT")
"""Signals of a terminal go to all processes of a command; the one that the user started decides."""


def framed(head: bytes, body: bytes = b"") -> bytes:
    """Return a frame."""
    return b"".join((_opening(head, len(body)), body))


def _opening(head: bytes, size: int) -> bytes:
    """Return a frame without its body, which has a size."""
    return b"".join((len(head).to_bytes(_HEAD, "little"), size.to_bytes(_BODY, "little"), head))


def sizes_of(prefix: bytes, *, head: int, body: int) -> tuple[int, int]:
    """Return the sizes of a head and a body by the bytes before them.

    Raises:
        ValueError: the bytes are cut, or one of the sizes is above its bound.
    """
    found = int.from_bytes(prefix[:_HEAD], "little"), int.from_bytes(prefix[_HEAD:SIZES], "little")
    if len(prefix) < SIZES or found[0] > head or found[1] > body:
        raise ValueError("a frame that is cut or too large")
    return found


def ignore_terminal() -> None:
    """Leave the signals of a terminal to the process that started this one."""
    for name in _FROM_TERMINAL:
        signal.signal(getattr(signal, name), signal.SIG_IGN)


class Requests:
    """Requests to this process, and its answers, on the original stdin and stdout: output that a library prints is not
    an answer.

    The process ends immediately when the requests end, even in the middle of one: no process waits for its answer.
    """

    def __init__(self) -> None:
        self._requests = open(os.dup(0), "rb")  # noqa: PTH123, SIM115  a pipe
        self._answers = os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)

    def wait(self, seconds: float) -> None:
        """Wait for a request; end the process if none comes within some seconds."""
        import select

        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        if not poll.poll(seconds * 1000):
            os._exit(0)

    def head(self, most: int) -> tuple[bytes, int]:
        """Return the head of the next request and the size of its body."""
        head, body = sizes_of(self.read(SIZES), head=most, body=1 << 62)
        return self.read(head), body

    def read(self, size: int) -> bytes:
        """Return the next bytes of a body."""
        content = self._requests.read(size)
        if len(content) < size:
            os._exit(0)
        return content

    def answer(self, head: bytes, body: bytes) -> None:
        """Write an answer."""
        for part in (_opening(head, len(body)), body):  # a copy of the body may be too much
            view = memoryview(part)
            try:
                while view:
                    view = view[os.write(self._answers, view) :]
            except BrokenPipeError:
                os._exit(0)
