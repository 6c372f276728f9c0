"""The warm process: it listens, and forks for each call. It has one thread, so that a copy of it is sound.

accept -> same user, same program -> a copy begins -> nothing has changed -> ACCEPTED, GO -> the copy writes; signals
and ends are passed on between the command and its copy.

A copy shares its memory with the process until it writes there, and each first write and each first look at a mapped
file costs a page fault: as much time as the search itself. So while nothing is to be done, one copy is made beforehand,
which rehearses and then waits for the next call.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.cli.warm import child, messages
from retrieve_cli.http import local
from retrieve_cli.untrusted.frames import framed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieve_cli.http.local import Connection, Listener

_LOOK_S = 1.0
"""Seconds between two looks at whether this process is still wanted, and its index still current."""
_GRACE_S = 5.0
"""Seconds that a copy has to end when no command waits for it any more."""
_STREAMS = 4
"""Descriptors that come with a call: the folder, and the streams."""


class WarmState(Enum):
    """Changes since the last call."""

    SAME = "same"
    OTHER = "other"
    """Copies begin with another index from now on."""
    GONE = "gone"
    """The program is another one now: this process can answer no more."""


class Door(NamedTuple):
    """The socket of the process, and the decisions left to the process."""

    listener: Listener
    prepare: Callable[[], WarmState]
    """Brings everything up to date."""
    wanted: Callable[[], bool]
    """Returns False if no command can reach this process any more."""
    let_go: Callable[[], bool]
    """Closes an index that is not current any more, and returns True then: it is opened again at the next call."""
    run: Callable[[], int]
    """Does the call that `sys.argv` names, in a copy."""
    rehearse: Callable[[], None]
    """Does as much of any call as changes nothing, in a copy that waits for one."""
    idle: float
    """Seconds without a call after which the process ends; 0: it does not."""
    leash: int | None
    """A descriptor at whose end the process ends."""
    closed: tuple[int, ...]
    """Descriptors that copies do not keep."""


class Copy(NamedTuple):
    """A copy at work."""

    pid: int
    connection: Connection


class WaitingCopy:
    """A copy that waits for a call, or for permission to write its output."""

    def __init__(self, pid: int, channel: Connection) -> None:
        self.pid = pid
        self.channel = channel
        self.ready = False

    def end(self) -> None:
        """End it."""
        self.channel.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class WarmServer:
    """Answers calls until it is ended, or idle for too long."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._own = messages.identity(os.environb)
        self._copies: dict[int, Copy] = {}
        """By the descriptor of the connection."""
        self._abandoned: dict[int, float] = {}
        """By process, the time when a copy is killed."""
        self._spare: WaitingCopy | None = None
        self._rehearses = True
        self._ending = False
        self._poll = select.poll()
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Answer calls. Copies may still be at work at the end: see `finish`."""
        with self._signals():
            for number in (self._wake[0], self._door.listener.fileno(), self._door.leash):
                if number is not None:
                    self._poll.register(number, select.POLLIN)
            last = time.monotonic()
            self._make_spare()
            while not self._ending and (not self._door.idle or time.monotonic() < last + self._door.idle):
                left = last + self._door.idle - time.monotonic() if self._door.idle else _LOOK_S
                if self._turn(min(left, _LOOK_S)) or self._copies:
                    last = time.monotonic()
                elif not self._door.wanted():
                    break
                elif self._door.let_go():
                    self._drop_spare()
                if not self._copies and not self._ending:
                    self._make_spare()
            self._drop_spare()
            self._poll.unregister(self._door.listener.fileno())

    def finish(self) -> None:
        """Wait for the copies that are at work."""
        with self._signals():
            while self._copies:
                self._turn(_LOOK_S)

    def _turn(self, seconds: float) -> bool:
        """Wait for something to happen and see to it; return True if there was a call."""
        waiting = [until - time.monotonic() for until in self._abandoned.values()]
        called = False
        events = self._poll.poll(1000 * max(0.0, min([seconds, *waiting])))
        # Calls last: they close descriptors, whose numbers are others' then.
        for number, _ in sorted(events, key=lambda event: event[0] == self._door.listener.fileno()):
            if number == self._wake[0]:
                with suppress(BlockingIOError):
                    os.read(number, 4096)
            elif number == self._door.leash:
                self._ending = True
            elif number == self._door.listener.fileno():
                called = True
                self._call()
            elif number in self._copies:
                self._listen_to(self._copies[number])
            elif self._spare is not None and number == self._spare.channel.fileno():
                self._spare.ready = bool(self._spare.channel.recv(1))
                if not self._spare.ready:
                    self._rehearses = False
                    self._drop_spare()
        self._reap()
        return called

    # -------------------------------------------------------------------------------------------- calls

    def _call(self) -> None:
        connection = local.accept(self._door.listener)
        if connection is None:
            return
        descriptors: list[int] = []
        copy = None
        with suppress(OSError, ValueError):
            if local.owner(connection)[1] == os.geteuid():
                own, call, descriptors = local.receive(connection, longest=messages.LONGEST, files=_STREAMS)
                if own == self._own:
                    copy = self._begun(framed(b"", call), [connection.fileno(), *descriptors])
                connection.sendall(messages.DECLINED if copy is None else messages.ACCEPTED)
                if copy is not None and connection.recv(1) == messages.GO:
                    copy.channel.sendall(messages.GO)
                    self._poll.register(connection.fileno(), select.POLLIN)
                    self._copies[connection.fileno()] = Copy(copy.pid, connection)
                    copy.channel.close()
                    copy, connection = None, None
        for descriptor in descriptors:
            os.close(descriptor)
        if copy is not None:
            copy.end()
        if connection is not None:
            connection.close()

    def _begun(self, request: bytes, descriptors: list[int]) -> WaitingCopy | None:
        """Return a copy that has begun with a call, and writes nothing before GO; None if the call is declined.

        It computes while this process looks for changes, which are rare.
        """
        copy = self._given(request, descriptors)
        try:
            state = self._door.prepare()
        except BaseException:
            copy.end()
            raise
        if state is WarmState.SAME:
            return copy
        copy.end()
        self._drop_spare()
        self._ending = self._ending or state is WarmState.GONE
        return None if self._ending else self._given(request, descriptors)

    def _given(self, request: bytes, descriptors: list[int]) -> WaitingCopy:
        """Give a call to the copy that waits, or to a new one. Raises: OSError."""
        copy, self._spare = self._spare, None
        if copy is not None:
            self._poll.unregister(copy.channel.fileno())
        if copy is None or not copy.ready:
            if copy is not None:
                copy.end()
            copy = self._copy(None)
        local.send(copy.channel, request, descriptors)
        return copy

    # ---------------------------------------------------------------------------------------- waiting copies

    def _copy(self, rehearse: Callable[[], None] | None) -> WaitingCopy:
        """Return a new copy, which waits for a call, after it has rehearsed if it is to.

        An unread message would break the connection when this end is closed.
        """
        ours, theirs = local.pair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._leave_to_copy()
            child.wait(theirs, self._door.run, rehearse, streams=_STREAMS)
        theirs.close()
        return WaitingCopy(pid, ours)

    def _leave_to_copy(self) -> None:
        signal.set_wakeup_fd(-1)
        for heeded in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(heeded, signal.SIG_DFL)
        spare = () if self._spare is None else (self._spare.channel,)
        for opened in (self._door.listener, *spare, *(copy.connection for copy in self._copies.values())):
            opened.close()
        for number in (*self._wake, *self._door.closed):
            os.close(number)

    def _make_spare(self) -> None:
        """Make the copy that waits for the next call, if it does not exist; not again after one that died."""
        if self._spare is None and self._rehearses:
            self._spare = self._copy(self._door.rehearse)
            self._poll.register(self._spare.channel.fileno(), select.POLLIN)

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._poll.unregister(self._spare.channel.fileno())
            self._spare.end()
            self._spare = None

    # ------------------------------------------------------------------------------------------- copies

    def _listen_to(self, copy: Copy) -> None:
        """Pass signals on; end a copy that no command waits for."""
        try:
            numbers = copy.connection.recv(16)
        except OSError:
            numbers = b""
        for number in numbers:
            with suppress(OSError, ValueError):
                os.kill(copy.pid, signal.SIGSTOP if number == signal.SIGTSTP else number)
        if not numbers:
            self._poll.unregister(copy.connection.fileno())
            self._abandoned[copy.pid] = time.monotonic() + _GRACE_S
            for number in (signal.SIGCONT, signal.SIGTERM):
                os.kill(copy.pid, number)

    def _reap(self) -> None:
        """Take leave of the copies that have ended."""
        now = time.monotonic()
        for number, copy in list(self._copies.items()):
            if self._abandoned.get(copy.pid, now + 1) <= now:
                os.kill(copy.pid, signal.SIGKILL)
                self._abandoned[copy.pid] = now + _GRACE_S
            pid, status = os.waitpid(copy.pid, os.WNOHANG)
            if pid:
                with suppress(OSError):
                    if os.WIFSIGNALED(status):
                        copy.connection.sendall(messages.KILLED + bytes([os.WTERMSIG(status)]))
                if self._abandoned.pop(pid, None) is None:
                    self._poll.unregister(number)
                copy.connection.close()
                del self._copies[number]

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """End at SIGTERM and SIGINT; wake up when a copy ends."""

        def stop(*_: object) -> None:
            self._ending = True

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGCHLD: lambda *_: None}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
