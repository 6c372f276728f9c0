"""Every provider and enricher with every fault of a server: each is labelled, none looks like an empty page."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from waiting import PATIENCE_S
from websearch.conftest import KEYS
from websearch.echoing import unstored
from websearch.fakes.faults import FAULTS
from websearch.fakes.server import Fakes, origin_of
from websearch.taped import Taped, read

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.query_settings import ENRICHERS, PROVIDERS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Failure, Page, ProviderFailed, RateLimited, WebQuery
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch import items
from retrieve_cli.websearch.asking import ask_all, enrich_all
from retrieve_cli.websearch.exchange import Exchange
from retrieve_cli.websearch.rates import Rates

FILES = [*PROVIDERS, *(f"{name}-enrich" for name in ENRICHERS)]
"""Names of the files of exchanges."""
SECRET = "s3cr3t+key/{}"
LONG_S, SHORT_S = PATIENCE_S, 0.3
SLOW = ("slow drip", "silence")
_ID = re.compile(r"(10\.[0-9.]+/[^\s,\"\\]+)|\b(ARXIV|PMID|PMCID):([0-9.]+)")


class Subject(NamedTuple):
    """A provider or an enricher, with a question that the fakes can answer."""

    name: str
    asked: Any
    query: WebQuery
    items: Sequence[Item]

    @property
    def origins(self) -> list[str]:
        return sorted({origin_of(exchange["request"]["url"]) for exchange in read(self.name)["exchanges"]})


def subjects() -> Iterator[Subject]:
    enrichers = {f"{enricher.name}-enrich": enricher for enricher in parts.enrichers(Settings())}
    for name in FILES:
        asked = enrichers.get(name) or parts.provider(name, Settings())
        yield Subject(name, asked, Taped(name).query, looked_up(name) if name in enrichers else ())


def looked_up(name: str) -> list[Item]:
    """Return items with the identifiers that the requests of a file name."""
    requests = [exchange["request"] for exchange in read(name)["exchanges"]]
    text = json.dumps([[request["url"], request["parameters"], request["body"]] for request in requests])
    known = [
        Id("doi", doi.removesuffix("/na/json")) if doi else _named(kind, number)
        for doi, kind, number in _ID.findall(text)
    ]
    made = [items.made(type="preprint", title=f"Work {number}", ids_=(one,)) for number, one in enumerate(known)]
    return [item for item in made if item]


def _named(kind: str, number: str) -> Id:
    """Return an identifier as Semantic Scholar writes it."""
    return Id("pmcid", f"PMC{number}") if kind == "PMCID" else Id(kind.lower(), number)  # type: ignore[arg-type]


def number_of_requests(subject: Subject) -> int:
    """Return the number of requests that the exchanges of its file need."""
    taped = Taped(subject.name)
    with suppress(ProviderFailed):  # a test says so
        subject.asked.enrich(subject.items, taped) if subject.items else subject.asked.search(subject.query, taped)
    return len(taped.calls)


SUBJECTS = {subject.name: subject for subject in subjects()}
SEVERAL = {name: number for name, subject in SUBJECTS.items() if (number := number_of_requests(subject)) > 1}
"""Numbers of requests of those that send more than one."""
QUICK = [name for name in FAULTS if name not in SLOW]


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET.format(name.lower()))


class Asking:
    """Asks subjects over the fakes, each question over a fresh exchange; nothing waits for a rate."""

    def __init__(self, fakes: Fakes, folder: Path) -> None:
        self.fakes, self.folder, self.number = fakes, folder, 0

    def exchange(self) -> Exchange:
        self.number += 1
        return unstored(self.fakes.endpoints, Rates(self.folder / str(self.number), sleep=lambda _: None))

    def __call__(self, name: str, *, deadline_s: float = LONG_S) -> Page | Failure:
        subject = SUBJECTS[name]
        with closing(self.exchange()) as exchange:
            if subject.items:
                (asked,) = enrich_all([subject.asked], subject.items, exchange, deadline_s=deadline_s)
            else:
                (asked,) = ask_all([subject.asked], subject.query, exchange, deadline_s=deadline_s)
        return asked.outcome


@pytest.fixture
def ask(fakes: Fakes, tmp_path: Path) -> Asking:
    return Asking(fakes, tmp_path)


def kind_of(outcome: Page | Failure) -> str:
    """Return the kind of a failure, `ok` for a page with items; `empty` for one without."""
    return ("ok" if outcome.items else "empty") if isinstance(outcome, Page) else outcome.kind


def misbehave(fakes: Fakes, name: str, fault: str, *, after: int = 0) -> None:
    for origin in SUBJECTS[name].origins:
        fakes.misbehave(origin, fault, after=after)


def test_all_built_in_providers_are_among_the_subjects() -> None:
    assert {name.removesuffix("-enrich"): subject.asked.name for name, subject in SUBJECTS.items()} == {
        name: name for name in (*PROVIDERS, *ENRICHERS)
    }


@pytest.mark.parametrize("name", SUBJECTS)
def test_proper_answers_have_items_and_every_request_is_in_the_file(fakes: Fakes, ask: Asking, name: str) -> None:
    outcome = ask(name)
    assert kind_of(outcome) == "ok", outcome
    assert fakes.unknown == []


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("fault", QUICK)
def test_a_fault_is_labelled(fakes: Fakes, ask: Asking, fault: str, name: str) -> None:
    misbehave(fakes, name, fault)
    outcome = ask(name)
    assert kind_of(outcome) in FAULTS[fault].kinds, outcome
    if fault.endswith("with Retry-After"):
        assert outcome == RateLimited(7.0)
    if isinstance(outcome, Page):
        texts = [text for item in outcome.items for text in (item.title, item.abstract, item.snippet)]
        assert max(map(len, texts)) <= items.ABSTRACT
    assert fakes.trap.asked == []
    assert "s3cr3t" not in f"{outcome} {outcome!r}"


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("fault", [fault for fault in QUICK if "ok" not in FAULTS[fault].kinds])
def test_a_fault_of_the_last_of_several_requests_is_labelled(fakes: Fakes, ask: Asking, fault: str, name: str) -> None:
    """The failure, or what was answered before with a notice of what is missing."""
    proper = ask(name)
    misbehave(fakes, name, fault, after=SEVERAL[name] - 1)
    outcome = ask(name)
    if isinstance(outcome, Page):
        assert isinstance(proper, Page)
        assert outcome.items
        assert set(outcome.notices) - set(proper.notices), outcome
    else:
        assert outcome.kind in FAULTS[fault].kinds, outcome


@pytest.mark.parametrize("fault", SLOW)
@pytest.mark.parametrize("name", SUBJECTS)
def test_slow_answers_end_at_the_deadline(fakes: Fakes, ask: Asking, name: str, fault: str) -> None:
    misbehave(fakes, name, fault)
    outcome = ask(name, deadline_s=SHORT_S)  # the fakes go on for as long as the test
    assert kind_of(outcome) == "timeout", outcome


@pytest.mark.parametrize("fault", ["429", "truncated", "error page with status 200", "connection closed early"])
def test_a_fault_of_one_provider_leaves_the_others_alone(fakes: Fakes, ask: Asking, fault: str) -> None:
    subjects = [SUBJECTS[name] for name in ("tavily", "serper", "serpapi", "ddg")]
    (query, *others) = {subject.query for subject in subjects}
    if others:
        pytest.skip("exchanges were recorded: they answer different questions")
    engines = [subject.asked for subject in subjects]
    fakes.misbehave(engines[1].servers[0], fault)
    with closing(ask.exchange()) as exchange:
        outcomes = [asked.outcome for asked in ask_all(engines, query, exchange, deadline_s=LONG_S)]
    assert [kind_of(outcome) for outcome in outcomes if isinstance(outcome, Page)] == ["ok"] * 3
    assert kind_of(outcomes[1]) in FAULTS[fault].kinds
