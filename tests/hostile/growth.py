"""Growth of a regular expression's time with the text: run in a separate process, because an expression may hang.

Standard input is JSON: a list of [pattern, flags, [method, ...]]; standard output has a line of JSON for each of them,
null or what it is slow at. Nothing of the program is imported here, so that a process starts in a blink.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from hostile.adversarial import Attack, attacks

SMALL, LARGE = 4_000, 8_000
QUICK_S = 0.0008
"""Seconds for 8,000 characters up to which growth is not measured: a tenth of a microsecond per character."""
LONG_S = 0.25
"""Seconds for 8,000 characters that are too long, whatever the growth."""
SURE = 2.6
"""Below this a first look is enough."""
ENOUGH_S = 0.04
"""CPU time that is measured at once: the clock of a process moves in steps of up to 4 ms."""
RATIO = 3.0
"""Twice the text must take less than this times the time: linear is 2, quadratic 4."""
ROUNDS = 12
"""Measurements of both lengths, one after the other, before a pattern is called slow."""
_TOTAL_S = 60

Method = Callable[[re.Pattern[str], str], object]
METHODS: dict[str, Method] = {
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "search": lambda pattern, text: pattern.search(text),
    "finditer": lambda pattern, text: deque(pattern.finditer(text), 0),
}
SAME = {"sub": "finditer", "subn": "finditer", "split": "finditer", "findall": "finditer"}
"""Methods that go through a text as another one does."""


class TooLongError(Exception):
    """A try has taken more than LONG_S."""


def too_long(*_: object) -> NoReturn:
    raise TooLongError


def seconds(method: Method, pattern: re.Pattern[str], text: str) -> float:
    """Return the CPU time of a call, the mean over ENOUGH_S; infinite if a call takes more than LONG_S."""
    calls, start, taken = 0, time.process_time(), 0.0
    with suppress(TooLongError):
        while taken < ENOUGH_S:
            signal.setitimer(signal.ITIMER_VIRTUAL, LONG_S)
            method(pattern, text)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            calls, taken = calls + 1, time.process_time() - start
        return taken / calls
    return float("inf")


def looks_quick(method: Method, pattern: re.Pattern[str], small: str, large: str) -> bool:
    """Return whether a first look leaves no doubt; most strings are through with it."""

    def glance(text: str) -> float:
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_VIRTUAL, LONG_S)
        method(pattern, text)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return time.perf_counter() - start

    with suppress(TooLongError):
        long = glance(large)
        if long <= QUICK_S:
            return True
        short = glance(small)
        for _ in range(4):
            if long <= QUICK_S or long < SURE * short:
                return True
            if long > LONG_S / 10:
                break
            short, long = min(short, glance(small)), min(long, glance(large))
    return False


def slow(pattern: re.Pattern[str], name: str, attack: Attack) -> str:
    """Return what shows that the time grows faster than the text, empty if it does not."""
    method = METHODS[SAME.get(name, name)]
    small, large = attack.text(SMALL), attack.text(LARGE)
    if looks_quick(method, pattern, small, large):
        return ""
    short = long = float("inf")
    for _ in range(ROUNDS):  # a busy machine is no defect: the least of several rounds counts
        long = min(long, seconds(method, pattern, large))
        short = min(short, seconds(method, pattern, small))
        if long <= QUICK_S or long < RATIO * short:
            return ""
        if long == float("inf"):
            break
    return f"{name}: {attack}: {short * 1000:.3g} ms for {SMALL:,}, {long * 1000:.3g} ms for {LARGE:,}"


def first_slow(pattern: str, flags: int, methods: list[str]) -> str:
    """Return the first attack that makes one of the methods slow, empty if none does."""
    compiled = re.compile(pattern, flags)
    every = attacks(pattern, flags)
    return next(filter(None, (slow(compiled, name, attack) for name in methods for attack in every)), "")


def main() -> None:
    """Answer what stands on standard input."""
    signal.signal(signal.SIGVTALRM, too_long)
    resource.setrlimit(resource.RLIMIT_CPU, (_TOTAL_S, _TOTAL_S))
    with suppress(BrokenPipeError):
        for pattern, flags, methods in json.load(sys.stdin):
            print(json.dumps(first_slow(pattern, flags, methods) or None), flush=True)


if __name__ == "__main__":
    main()
