"""Asking providers: at the same time or one after the other, within the deadline, and every failure is a value."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest
from raw_servers import Conversation, Say, Server
from websearch.echoing import KEY, Doing, Echo, Raising, asking, titles

from retrieve_cli.contracts.websearch import Fetch, Need, Page, Provider, ProviderFailure, WebQuery
from retrieve_cli.websearch.asking import Asking, ProviderOutcome

QUERY = WebQuery("crispr", 10)
NEED = Need("ECHO_KEY", required=True, purpose="key")


@pytest.fixture
def made(server: Server, tmp_path: Path) -> Asking:
    return asking(server.url, tmp_path)


@pytest.fixture
def over() -> Iterator[Event]:
    """An event that is set when the test ends, for providers that hang."""
    over = Event()
    yield over
    over.set()


def summary(outcomes: Sequence[ProviderOutcome | None]) -> list[object]:
    """Return the first title of each page, the kind of the failure, or None."""
    return [
        one and (one.result.items[0].title if isinstance(one.result, Page) else one.result.kind) for one in outcomes
    ]


def unless(path: str, say: Say) -> Say:
    """Answers with titles, unless this path is asked for."""
    return lambda talk: say(talk) if path in talk.asked.line else titles(talk)


def outcome(provider: Provider, made: Asking, *, deadline_s: float = 60.0) -> Page | ProviderFailure:
    (one,) = made.ask([provider], QUERY, fallback=(), deadline_s=deadline_s)
    assert one is not None
    return one.result


@pytest.mark.parametrize("error", [KeyError("title"), RecursionError("deep"), SystemExit(3), StopIteration()])
def test_any_exception_of_a_program_is_a_malformed_answer(made: Asking, error: BaseException) -> None:
    failure = outcome(Raising(error=error), made)
    assert isinstance(failure, ProviderFailure)
    assert failure.kind == "malformed"
    assert type(error).__name__ in failure.message


def test_the_message_of_an_exception_is_short_printable_and_without_keys(
    made: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_KEY", KEY)
    failure = outcome(Raising(needs=(NEED,), error=ValueError(f"\x1b[31m {KEY} " + "x" * 1000)), made)
    assert KEY not in str(failure)
    assert isinstance(failure, ProviderFailure)
    assert failure.message.isprintable()
    assert len(failure.message) < 200


@pytest.mark.parametrize("result", [None, [], "page"])
def test_anything_but_a_page_is_malformed(made: Asking, result: object) -> None:
    failure = outcome(Doing(does=lambda: result), made)
    assert isinstance(failure, ProviderFailure)
    assert failure.kind == "malformed"


def test_a_call_to_a_foreign_server_is_malformed(server: Server, made: Asking) -> None:
    class Foreign(Echo):
        def search(self, query: WebQuery, fetch: Fetch) -> Page:
            return Echo(servers=("https://other.example",)).search(query, fetch)

    failure = outcome(Foreign(), made)
    assert isinstance(failure, ProviderFailure)
    assert "declared" in failure.message
    assert server.asked == []


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_required_variable_that_is_not_set_is_said_before_anything_is_sent(
    server: Server, made: Asking, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv("ECHO_KEY", value)
    failure = outcome(Echo(needs=(NEED,)), made)
    assert isinstance(failure, ProviderFailure)
    assert (failure.kind, failure.variable) == ("no_key", "ECHO_KEY")
    assert server.asked == []
    assert isinstance(outcome(Echo(needs=(NEED._replace(required=False),)), made), Page)


def test_the_deadline_holds_for_whoever_hangs_and_the_others_are_kept(
    server: Server, made: Asking, over: Event
) -> None:
    server.say = unless("/silent", Conversation.keep_silent)
    outcomes = made.ask(
        [Doing("hangs", does=over.wait), Echo("silent"), Echo("quick")], QUERY, fallback=(), deadline_s=2
    )
    assert summary(outcomes) == ["timeout", "timeout", "/quick?q=crispr"]


def test_one_that_hangs_leaves_time_for_the_fallback(made: Asking, over: Event) -> None:
    outcomes = made.ask([Doing("hangs", does=over.wait)], QUERY, fallback=[Echo()], deadline_s=4)
    assert summary(outcomes) == ["timeout", "/echo?q=crispr"]
