"""Asking providers: at the same time or one after the other, within the deadline, and every failure is a value."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event

import pytest
from raw_servers import Conversation, Say, Server
from sources.formats.sandbox.builds import heeding_interrupts
from waiting import PATIENCE_S, until
from websearch.echoing import JSON, KEY, Counting, Doing, Echo, Raising, exchange, item, titles

from retrieve_cli.contracts.websearch import (
    Failure,
    Fetch,
    KeyPlace,
    Malformed,
    Need,
    NoKey,
    NotStored,
    Page,
    Provider,
    ProviderFailed,
    RateLimited,
    Rejected,
    Timeout,
    Unreachable,
    WebQuery,
)  # fmt: skip
from retrieve_cli.websearch.asking import ProviderOutcome, ask_all, ask_first, enrich_all
from retrieve_cli.websearch.exchange import Exchange
from retrieve_cli.websearch.stored import Tape

QUERY = WebQuery("crispr", 10)
NEED = Need("ECHO_KEY", required=True, purpose="key")


@pytest.fixture
def made(server: Server, tmp_path: Path) -> Exchange:
    return exchange(server.url, tmp_path)


@pytest.fixture
def over() -> Iterator[Event]:
    """An event that is set when the test ends, for providers that hang."""
    over = Event()
    yield over
    over.set()


def summary(asked: Sequence[ProviderOutcome | None]) -> list[object]:
    """Return the first title of each page, the failure, or None."""
    return [one and (one.outcome.items[0].title if isinstance(one.outcome, Page) else one.outcome) for one in asked]


def unless(path: str, say: Say) -> Say:
    """Answers with titles, unless this path is asked for."""
    return lambda talk: say(talk) if path in talk.asked.line else titles(talk)


def outcome(provider: Provider, made: Exchange, *, deadline_s: float = 60.0) -> Page | Failure:
    (asked,) = ask_all([provider], QUERY, made, deadline_s=deadline_s)
    assert asked.asked is provider
    return asked.outcome


# ------------------------------------------------------------------------------------------- all


def test_all_are_asked_and_their_order_stays(made: Exchange) -> None:
    providers = [Echo("a"), Raising("b"), Echo("c")]
    asked = ask_all(providers, QUERY, made, deadline_s=60)
    assert [one.asked for one in asked] == providers
    assert summary(asked)[::2] == ["/a?q=crispr", "/c?q=crispr"]
    assert isinstance(asked[1].outcome, Malformed)
    assert [one.age_s for one in asked] == [None] * 3


def test_they_are_asked_at_the_same_time(server: Server, made: Exchange) -> None:
    barrier = Barrier(8, timeout=PATIENCE_S)

    def together(talk: Conversation) -> None:
        with suppress(BrokenBarrierError):
            barrier.wait()
            titles(talk)

    server.say = together
    asked = ask_all([Echo(f"p{number}") for number in range(8)], QUERY, made, deadline_s=60)
    assert all(isinstance(one.outcome, Page) for one in asked)


def test_nobody_to_ask_is_no_answer(made: Exchange) -> None:
    assert ask_all([], QUERY, made, deadline_s=1) == ask_first([], QUERY, made, deadline_s=1) == []
    assert enrich_all([], [item("a", "10.1/a")], made, deadline_s=1) == []


def test_the_age_of_a_stored_page_is_said(server: Server, tmp_path: Path) -> None:
    outcome(Echo(), exchange(server.url, tmp_path))
    (asked,) = ask_all([Echo()], QUERY, exchange("", tmp_path, offline=True), deadline_s=60)
    assert asked.age_s == 0.0
    assert summary([asked]) == ["/echo?q=crispr"]


# ------------------------------------------------------------------------------------------- failures

ERRORS = [
    KeyError("title"), ValueError("x"), TypeError(), RecursionError("deep"), MemoryError(), AssertionError(),
    SystemExit(3), StopIteration(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ZeroDivisionError("z"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_exception_of_a_program_is_a_malformed_answer(made: Exchange, error: BaseException) -> None:
    said = outcome(Raising(error=error), made)
    assert isinstance(said, Malformed)
    assert type(error).__name__ in str(said)


def test_the_message_of_an_exception_is_short_printable_and_without_keys(
    made: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_KEY", KEY)
    said = outcome(Raising(needs=(NEED,), error=ValueError(f"\x1b[31m {KEY} " + "x" * 1000)), made)
    assert KEY not in str(said)
    assert str(said).isprintable()
    assert len(str(said)) < 200


@pytest.mark.parametrize("failure", [RateLimited(3.0), Rejected("no", 403), NotStored(), Unreachable("down")])
def test_a_failure_of_a_provider_is_its_outcome(made: Exchange, failure: Failure) -> None:
    assert outcome(Raising(error=ProviderFailed(failure)), made) == failure


@pytest.mark.parametrize("result", [None, [], "page", 7])
def test_anything_but_a_page_is_malformed(made: Exchange, result: object) -> None:
    assert isinstance(outcome(Doing(does=lambda: result), made), Malformed)


def test_a_call_to_a_foreign_server_is_malformed(server: Server, made: Exchange) -> None:
    class Foreign(Echo):
        def search(self, query: WebQuery, fetch: Fetch) -> Page:
            return Echo(servers=("https://other.example",)).search(query, fetch)

    said = outcome(Foreign(), made)
    assert isinstance(said, Malformed)
    assert "declared" in str(said)
    assert server.asked == []


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_required_variable_that_is_not_set_is_said_before_anything_is_sent_and_an_optional_one_may_be_missing(
    server: Server, made: Exchange, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv("ECHO_KEY", value)
    assert outcome(Echo(needs=(NEED,)), made) == NoKey("ECHO_KEY")
    assert server.asked == []
    assert isinstance(outcome(Echo(needs=(NEED._replace(required=False),)), made), Page)


def test_offline_a_stored_answer_needs_no_key(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Echo(needs=(NEED,), keys=(KeyPlace("ECHO_KEY", "header", "X-API-KEY"),))
    monkeypatch.setenv("ECHO_KEY", KEY)
    page = outcome(provider, exchange(server.url, tmp_path))
    monkeypatch.delenv("ECHO_KEY")
    assert outcome(provider, exchange("", tmp_path, offline=True)) == page


# ------------------------------------------------------------------------------------------- deadline


def test_the_deadline_holds_for_whoever_hangs_and_the_others_are_kept(
    server: Server, made: Exchange, over: Event
) -> None:
    server.say = unless("/silent", Conversation.keep_silent)
    hanging = Doing("hangs", does=over.wait)
    asked = ask_all([hanging, Echo("silent"), Echo("quick")], QUERY, made, deadline_s=3)
    late = Timeout("no complete answer within 3 s")
    assert summary(asked) == [late, late, "/quick?q=crispr"]
    assert any(thread.name.startswith("provider") and thread.daemon for thread in threading.enumerate())


HANGING = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from websearch.echoing import Doing, exchange
from websearch.test_asking import QUERY, ask_all
def hang():
    print("asked", flush=True)
    threading.Event().wait()
deadline_s = float(sys.argv[3])
asked = ask_all([Doing(does=hang)], QUERY, exchange("", Path(sys.argv[2])), deadline_s=deadline_s)
print(asked[0].outcome, flush=True)
"""


def hanging(folder: Path, deadline_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HANGING, str(Path(__file__).parents[1]), str(folder), str(deadline_s)]
    with heeding_interrupts():
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_thread_that_hangs_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    process = hanging(tmp_path, 0.3)
    output, errors = process.communicate(timeout=PATIENCE_S)  # the provider hangs for ever
    assert (process.returncode, output.splitlines()[-1]) == (0, "no complete answer within 0.3 s"), errors


def test_an_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    process = hanging(tmp_path, 3600)
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors


# ------------------------------------------------------------------------------------------- first


def test_the_first_that_has_items_is_the_last_asked(server: Server, made: Exchange) -> None:
    asked = ask_first([Echo("a"), Echo("b")], QUERY, made, deadline_s=60)
    assert summary(asked) == ["/a?q=crispr", None]
    assert len(server.asked) == 1


def test_those_that_fail_or_find_nothing_are_passed_over(server: Server, made: Exchange) -> None:
    server.say = unless("/empty", lambda talk: talk.answer(b"[]", JSON))
    providers = [Echo("key", needs=(NEED,)), Raising("wrong"), Echo("empty"), Echo("full"), Echo("never")]
    no_key, wrong, empty, *others = ask_first(providers, QUERY, made, deadline_s=60)
    assert summary([no_key, *others]) == [NoKey("ECHO_KEY"), "/full?q=crispr", None]
    assert wrong is not None
    assert isinstance(wrong.outcome, Malformed)
    assert empty is not None
    assert isinstance(empty.outcome, Page)
    assert empty.outcome.items == ()
    assert len(server.asked) == 2


def test_one_that_hangs_leaves_time_for_the_next(made: Exchange, over: Event) -> None:
    asked = ask_first([Doing("hangs", does=over.wait), Echo()], QUERY, made, deadline_s=4)
    assert summary(asked) == [Timeout("no complete answer within 2 s"), "/echo?q=crispr"]


def test_those_for_whom_no_time_is_left_are_said_to_be_late(server: Server, made: Exchange) -> None:
    asked = ask_first([Echo("a"), Echo("key", needs=(NEED,)), Echo("b")], QUERY, made, deadline_s=0)
    late = Timeout("no time was left to ask it")
    assert summary(asked) == [late, NoKey("ECHO_KEY"), late]
    assert server.asked == []


# ------------------------------------------------------------------------------------------- enrichers


def test_enrichers_are_asked_and_those_with_nothing_to_look_up_are_skipped(server: Server, made: Exchange) -> None:
    server.say = lambda talk: talk.answer(b'["found"]', JSON)
    asked = enrich_all([Counting("a"), Counting("b")], [item("x", "10.1/x"), item("y")], made, deadline_s=60)
    assert summary(asked) == ["found", "found"]
    assert [asked.body for asked in server.asked] == [b"1", b"1"]
    assert enrich_all([Counting("c")], [item("y")], made, deadline_s=60) == []
    assert enrich_all([Counting("c")], [], made, deadline_s=60) == []


def test_a_failure_of_an_enricher_is_its_outcome(server: Server, made: Exchange) -> None:
    server.say = lambda talk: talk.answer(b"", status=403)
    (asked,) = enrich_all([Counting()], [item("x", "10.1/x")], made, deadline_s=60)
    assert isinstance(asked.outcome, Rejected)


# ------------------------------------------------------------------------------------------- replays


def test_a_replay_has_the_same_pages_and_failures_as_the_search(server: Server, tmp_path: Path, over: Event) -> None:
    server.say = unless("/closed", lambda talk: talk.answer(b"", status=403))
    hanging = Doing("hangs", does=over.wait)
    providers = [Echo("a"), Echo("closed"), Raising("wrong"), Echo("key", needs=(NEED,)), hanging]
    first = exchange(server.url, tmp_path)
    asked = ask_all(providers, QUERY, first, deadline_s=3)
    enriched = enrich_all([Counting()], [item("x", "10.1/x")], first, deadline_s=30)
    tape = Tape.of(first.recorded.to_json(), first.recorded.bodies().__getitem__)
    replay = exchange("", tmp_path / "none", tape=tape)
    requests = len(server.asked)
    assert ask_all(providers, QUERY, replay, deadline_s=0.001) == asked
    assert enrich_all([Counting()], [item("x", "10.1/x")], replay, deadline_s=0.001) == enriched
    assert replay.recorded.to_json() == first.recorded.to_json()
    assert len(server.asked) == requests


def test_a_replay_of_the_first_success_asks_the_same_ones(server: Server, tmp_path: Path) -> None:
    first = exchange(server.url, tmp_path)
    providers = [Echo("key", needs=(NEED,)), Echo("a"), Echo("b")]
    asked = ask_first(providers, QUERY, first, deadline_s=30)
    replay = exchange("", tmp_path / "none", tape=first.recorded)
    assert ask_first(providers, QUERY, replay, deadline_s=0.001) == asked


def test_what_ends_after_the_deadline_is_not_recorded(server: Server, made: Exchange) -> None:
    go = Event()

    def late(talk: Conversation) -> None:
        go.wait(PATIENCE_S)
        titles(talk)

    server.say = late
    assert isinstance(outcome(Echo(), made, deadline_s=0.3), Timeout)
    before = made.recorded.to_json()
    go.set()
    until(lambda: not any(one.name.startswith("provider") for one in threading.enumerate()), "the end of its thread")
    assert made.recorded.to_json() == before
    assert before["failures"] == {"provider:echo": {"kind": "timeout", "reason": "no complete answer within 0.3 s"}}
