"""Every provider with every fault of a server: each is labelled, none looks like an empty page, no key is told."""

from pathlib import Path

import pytest
from waiting import PATIENCE_S
from websearch.conftest import KEYS
from websearch.fakes.faults import FAULTS
from websearch.fakes.server import Fakes, origin_of
from websearch.taped import Taped, read

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.query_settings import PROVIDERS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Page
from retrieve_cli.websearch import items
from retrieve_cli.websearch.asking import Asking, ProviderOutcome
from retrieve_cli.websearch.cache import FILE, PageCache
from retrieve_cli.websearch.sending import Pauses, Sender

SECRET = "s3cr3t+key/{}"
LONG_S, SHORT_S = PATIENCE_S, 0.3
SLOW = ("slow drip", "silence")
QUICK = [name for name in FAULTS if name not in SLOW]


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET.format(name.lower()))


class AskingFakes:
    """Asks a provider the question of its file over the fakes; nothing waits for a pause, nothing is cached."""

    def __init__(self, fakes: Fakes, folder: Path) -> None:
        self.cache = folder / FILE
        sender = Sender(fakes.endpoints, pauses=Pauses(sleep=lambda _: None))
        self.asking = Asking(sender, PageCache(self.cache, keep_s=60), 0.0)

    def __call__(self, name: str, *, deadline_s: float = LONG_S) -> ProviderOutcome:
        provider = parts.provider(name, Settings())
        (outcome,) = self.asking.ask([provider], Taped(name).query, fallback=(), deadline_s=deadline_s)
        assert outcome is not None
        return outcome


@pytest.fixture
def ask(fakes: Fakes, tmp_path: Path) -> AskingFakes:
    return AskingFakes(fakes, tmp_path)


def kind_of(outcome: ProviderOutcome) -> str:
    """Return the kind of a failure, `ok` for a page with items; `empty` for one without."""
    result = outcome.result
    return ("ok" if result.items else "empty") if isinstance(result, Page) else result.kind


def misbehave(fakes: Fakes, name: str, fault: str, *, after: int = 0) -> None:
    for origin in {origin_of(exchange["request"]["url"]) for exchange in read(name)["exchanges"]}:
        fakes.misbehave(origin, fault, after=after)


@pytest.mark.parametrize("name", PROVIDERS)
def test_proper_answers_have_items_and_every_request_is_in_the_file(fakes: Fakes, ask: AskingFakes, name: str) -> None:
    outcome = ask(name)
    assert kind_of(outcome) == "ok", outcome
    assert fakes.unknown == []


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("fault", QUICK)
def test_a_fault_is_labelled(fakes: Fakes, ask: AskingFakes, fault: str, name: str) -> None:
    misbehave(fakes, name, fault)
    outcome = ask(name)
    assert kind_of(outcome) in FAULTS[fault].kinds, outcome
    if isinstance(outcome.result, Page):
        assert max(len(item.text) for item in outcome.result.items) <= items.ABSTRACT
    else:
        assert outcome.result.retry_after == (7.0 if fault.endswith("with Retry-After") else None)
        assert not ask.cache.exists(), "a failure is not cached"
    assert fakes.trap.asked == []
    assert "s3cr3t" not in repr(outcome)


@pytest.mark.parametrize("fault", [fault for fault in QUICK if "ok" not in FAULTS[fault].kinds])
def test_a_fault_of_the_second_request_of_pubmed_is_labelled(fakes: Fakes, ask: AskingFakes, fault: str) -> None:
    misbehave(fakes, "pubmed", fault, after=1)
    assert kind_of(ask("pubmed")) in FAULTS[fault].kinds


@pytest.mark.parametrize("fault", SLOW)
@pytest.mark.parametrize("name", PROVIDERS)
def test_slow_answers_end_at_the_deadline(fakes: Fakes, ask: AskingFakes, name: str, fault: str) -> None:
    misbehave(fakes, name, fault)
    assert kind_of(ask(name, deadline_s=SHORT_S)) == "timeout"  # the fakes go on for as long as the test
