"""Rates of servers: kept by threads and processes together, and never waited for beyond the deadline."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest
from hypothesis import given, strategies as st
from raw_servers import Conversation, serving
from waiting import PATIENCE_S, pause

from retrieve_cli.assemble.websearch import rates_folder
from retrieve_cli.contracts.websearch import ProviderFailed, Rate, RateLimited
from retrieve_cli.http.limits import Clock, TransientFailure
from retrieve_cli.storage.lock import hold_briefly
from retrieve_cli.websearch.rates import Rates

SERVER = "https://api.example.org:443"
FILE = "https-api.example.org-443.json"
LONG = 1e6


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def rates(tmp_path: Path, clock: Time) -> Rates:
    return Rates(tmp_path / "rates", now=clock, sleep=clock.sleep)


def take(rates: Rates, rate: Rate = Rate(1, 3.0), *, seconds: float = LONG, server: str = SERVER) -> None:
    rates.take(server, rate, clock=Clock(seconds, seconds))


def limited(rates: Rates, rate: Rate = Rate(1, 3.0), *, seconds: float = 1.0) -> float | None:
    """Return when the server may be asked again, which is too late."""
    with pytest.raises(ProviderFailed) as caught:
        take(rates, rate, seconds=seconds)
    assert isinstance(caught.value.failure, RateLimited)
    return caught.value.failure.retry_after


def most_in_a_window(times: Sequence[float], seconds: float) -> int:
    """Return the largest number of times in any half-open window of some seconds."""
    return max(sum(begin <= at < begin + seconds for at in times) for begin in times)


# ------------------------------------------------------------------------------------------- one process


@given(
    rate=st.builds(Rate, st.integers(1, 20), st.floats(0.1, 400)),
    pauses=st.lists(st.one_of(st.just(0.0), st.floats(0, 500)), min_size=1, max_size=60),
)
def test_no_window_has_more_requests_than_the_rate_permits(
    tmp_path_factory: pytest.TempPathFactory, rate: Rate, pauses: list[float]
) -> None:
    clock, times = Time(), []
    rates = Rates(tmp_path_factory.mktemp("rates"), now=clock, sleep=clock.sleep)
    for seconds in pauses:
        clock.now += seconds
        take(rates, rate)
        times.append(clock.now)
    assert most_in_a_window(times, rate.seconds) <= rate.requests


def test_the_first_request_to_each_server_does_not_wait(rates: Rates, clock: Time) -> None:
    begun = clock.now
    others = ("https://export.example.org:443", "https://[2606:4700::1]:443", f"https://{'x' * 300}.org:443")
    for server in (SERVER, *others):
        take(rates, server=server)
    assert clock.now == begun


def test_a_wait_beyond_the_deadline_is_said_and_uses_up_no_slot(rates: Rates, clock: Time) -> None:
    take(rates)
    begun = clock.now
    assert [limited(rates), limited(rates)] == [pytest.approx(3.3), pytest.approx(3.3)]
    take(rates)
    assert clock.now - begun == pytest.approx(3.3)


def test_nothing_is_reserved_when_no_time_is_left(rates: Rates, tmp_path: Path) -> None:
    with pytest.raises(TransientFailure):
        take(rates, seconds=0)
    assert not (tmp_path / "rates" / FILE).exists()


def test_a_pause_that_a_server_asks_for_holds_for_everybody(rates: Rates, clock: Time, tmp_path: Path) -> None:
    rates.block(SERVER, 30)
    assert limited(Rates(tmp_path / "rates", now=clock, sleep=clock.sleep)) == pytest.approx(30)
    clock.now += 31
    take(rates, seconds=1)


def test_the_longest_pause_holds_but_not_for_more_than_a_day(rates: Rates) -> None:
    for seconds in (30, 5):
        rates.block(SERVER, seconds)
        assert limited(rates) == pytest.approx(30)
    rates.block(SERVER, 1e300)
    assert limited(rates) == pytest.approx(86_400)


@pytest.mark.parametrize("jump", [-10.0, -3600.0, -1e8])
def test_a_clock_that_is_set_back_costs_one_interval_at_most(rates: Rates, clock: Time, jump: float) -> None:
    take(rates)
    rates.block(SERVER, 1000)
    clock.now += jump
    begun = clock.now
    take(rates)
    assert clock.now - begun == pytest.approx(3.3)


def test_neither_a_clock_that_is_set_forward_nor_an_empty_file_stops_requests(
    rates: Rates, clock: Time, tmp_path: Path
) -> None:
    take(rates)
    clock.now += 1e8
    take(rates, seconds=1)
    (tmp_path / "rates" / FILE).write_text("")
    take(rates, seconds=1)


SAID = {"times": [1.8e9], "blocked": 0.0, "written": 1.8e9}
DAMAGED = [
    "{", "[]", "null", "7", '"x"', "\xff", "{}", json.dumps(SAID)[:-4], json.dumps({**SAID, "times": ["x"]}),
    json.dumps({**SAID, "times": [float("nan")]}), json.dumps({**SAID, "blocked": float("inf")}), "[" * 100_000,
    json.dumps({**SAID, "times": [5, 1]}), json.dumps({**SAID, "written": None}), json.dumps({**SAID, "blocked": 9e9}),
]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_costs_one_interval_and_is_replaced(
    rates: Rates, clock: Time, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "rates" / FILE
    file.parent.mkdir()
    file.write_text(content, "latin-1")
    begun = clock.now
    take(rates)
    assert clock.now - begun == pytest.approx(3.3)
    assert json.loads(file.read_text())["times"][-1] == clock.now
    assert not rates.notice


@pytest.mark.parametrize("kind", ["folder", "link", "no folder"])
def test_rates_hold_for_the_process_alone_if_they_cannot_be_shared(
    rates: Rates, clock: Time, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "rates" / FILE
    if kind == "no folder":
        file.parent.write_text("not a folder")
    else:
        file.parent.mkdir()
        file.mkdir() if kind == "folder" else file.symlink_to(tmp_path / "elsewhere")
    begun = clock.now
    take(rates)
    take(rates)
    assert clock.now - begun == pytest.approx(3.3)
    assert FILE in rates.notice
    assert not (tmp_path / "elsewhere").exists()


def test_another_process_that_holds_the_file_is_not_waited_for_beyond_the_deadline(
    rates: Rates, tmp_path: Path
) -> None:
    (tmp_path / "rates").mkdir()
    with hold_briefly(tmp_path / "rates" / FILE, wait=0):
        assert limited(rates, seconds=0.2) is None


def test_the_folder_is_that_of_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    take(Rates(rates_folder()))
    assert (tmp_path / "cache" / "retrieve" / "rates" / FILE).is_file()


SENSELESS = [Rate(0, 1.0), Rate(-5, 1.0), Rate(1, float("nan")), Rate(1, -1.0), Rate(1, float("inf"))]


@pytest.mark.parametrize("rate", SENSELESS)
def test_a_rate_that_makes_no_sense_stops_nothing(rates: Rates, rate: Rate) -> None:
    for _ in range(3):
        take(rates, rate)


# ------------------------------------------------------------------------------------------- threads and processes


def test_threads_keep_one_rate_together(tmp_path: Path) -> None:
    rates, times, lock = Rates(tmp_path), [], Lock()

    def ask(_: int) -> None:
        take(rates, Rate(5, 0.5), seconds=60)
        with lock:
            times.append(time.time())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(16)))
    reserved = json.loads((tmp_path / FILE).read_text())["times"]
    assert len(times) == len(reserved) == 16
    assert most_in_a_window(reserved, 0.5) <= 5


IMPORTS = """
import sys, urllib.request
from pathlib import Path
from retrieve_cli.contracts.websearch import Rate
from retrieve_cli.http.limits import Clock
from retrieve_cli.websearch.rates import Rates
"""
ASKING = """
folder, url, count = sys.argv[1:]
rates = Rates(Path(folder))
for _ in range(int(count)):
    rates.take(url, Rate(4, 0.3), clock=Clock(1e6, 1e6))
    urllib.request.urlopen(url).read()
"""


def start(code: str, *arguments: object, stdout: int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", IMPORTS + code, *map(str, arguments)], stdout=stdout)


def test_processes_keep_one_rate_together_as_the_server_counts(tmp_path: Path) -> None:
    arrivals: list[float] = []

    def say(talk: Conversation) -> None:
        arrivals.append(time.time())
        talk.answer(b"x", "Connection: close")

    with serving(say) as server:
        processes = [start(ASKING, tmp_path, server.url, 5) for _ in range(4)]
        assert [process.wait(PATIENCE_S) for process in processes] == [0] * 4
    (file,) = tmp_path.iterdir()
    reserved = json.loads(file.read_text())["times"]
    assert len(arrivals) == len(reserved) == 20
    assert most_in_a_window(reserved, 0.3) <= 4
    # No request is early, by more than the rounding of sleeps: the server sees no more than was reserved at any time.
    assert all(arrived > begin - 0.01 for arrived, begin in zip(sorted(arrivals), reserved, strict=True))


TAKING = """
rates = Rates(Path(sys.argv[1]), sleep=lambda _: None)
print("ready", flush=True)
while True:
    rates.take("https://api.example.org:443", Rate(1, 1e-6), clock=Clock(1e6, 1e6))
"""


def test_a_process_that_is_killed_at_any_moment_stops_nobody(tmp_path: Path) -> None:
    for number in range(5):
        process = start(TAKING, tmp_path, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pause(0.01 * number, why="a kill at any moment")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        rates = Rates(tmp_path)
        take(rates, Rate(1, 0.01), seconds=60)
        assert not rates.notice
