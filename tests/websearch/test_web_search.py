"""`retrieve web`, asked of fakes of the providers on loopback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import Done, Program
from websearch.fakes.server import Fakes

Ask = Callable[..., Done]
QUESTION = "guide rna specificity"
PROVIDERS = ("pubmed", "biorxiv", "arxiv", "s2")
PUBMED, S2, SERPER = "https://eutils.ncbi.nlm.nih.gov", "https://api.semanticscholar.org", "https://google.serper.dev"
DDG = "https://html.duckduckgo.com"


@pytest.fixture
def ask(fakes: Fakes, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run `retrieve web` about the question; flags may say more."""
    fakes.any_question = True
    monkeypatch.setenv("RETRIEVE_WEB__ENABLED", "true")
    monkeypatch.setenv("RETRIEVE_WEB__ENDPOINTS", json.dumps(fakes.endpoints))
    return lambda *flags: retrieve("web", QUESTION, *flags)


def statuses(answer: dict[str, Any]) -> dict[str, str]:
    return {status["provider"]: status["status"] for status in answer["providers"]}


def test_every_provider_is_asked_and_a_result_is_one_row_with_all_that_found_it(ask: Ask) -> None:
    done = ask("--json")
    assert done.code == 0, done.err
    assert statuses(done.json) == dict.fromkeys(PROVIDERS, "ok")
    results = done.json["results"]
    by_doi = {result["ids"].get("doi"): result for result in results}
    found = by_doi["10.5555/jige.2024.0101"]["found_by"]
    queries = {source["provider"]: source["query"] for source in found}
    assert queries == {"s2": "guide rna specificity", "arxiv": "all:guide AND all:rna AND all:specificity"}
    assert len({result["id"] for result in results}) == len(results) == done.json["total_results"]
    assert [result["score"] for result in results] == sorted((one["score"] for one in results), reverse=True)


def test_a_search_is_refused_until_it_is_enabled(ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_WEB__ENABLED", "false")
    done = ask()
    assert done.code == 2
    assert "web.enabled" in done.err
    assert fakes.calls == []


@pytest.mark.parametrize("flags", [("-k", "0"), ("--deadline-ms", "0"), ("--since", "2024-13")])
def test_an_option_out_of_range_is_refused_and_nothing_is_sent(ask: Ask, fakes: Fakes, flags: tuple[str, str]) -> None:
    done = ask(*flags)
    assert done.code == 2
    assert flags[0].strip("-").replace("-ms", "") in done.err
    assert fakes.calls == []


def test_only_configured_providers_receive_the_question(
    ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_WEB__PROVIDERS", '["pubmed", "arxiv"]')
    ask("--provider", "arxiv")
    assert {call.origin for call in fakes.calls} == {"https://export.arxiv.org"}
    assert ask("--provider", "biorxiv").code == 2


def test_the_first_search_says_to_whom_the_question_goes_and_later_ones_do_not(ask: Ask) -> None:
    said = "note: the question is sent to pubmed, biorxiv, s2, arxiv"
    assert said in ask().err
    assert said not in ask().err


def test_a_failure_makes_the_answer_partial_and_the_exit_code_8(ask: Ask, fakes: Fakes) -> None:
    fakes.misbehave(S2, "429 with Retry-After")
    done = ask("--json")
    assert done.code == 8
    assert done.json["partial"]
    assert done.json["results"]
    assert statuses(done.json)["s2"] == "rate_limited"
    assert statuses(done.json)["pubmed"] == "ok"


@pytest.mark.parametrize("how", [(), ("--first",)])
def test_a_wrong_key_is_followed_by_the_provider_that_needs_none_and_is_named(
    ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    """Design B: "tries backends in priority order (keyed first, then keyless) and returns the first success"."""
    monkeypatch.setenv("SERPER_API_KEY", "wrong-key")
    fakes.misbehave(SERPER, "401 that quotes the credentials")
    done = ask("--kind", "web", "--json", *how)
    assert done.code == 8
    assert {"serper": "rejected", "ddg": "ok"}.items() <= statuses(done.json).items()
    assert done.json["results"]
    assert {source["provider"] for result in done.json["results"] for source in result["found_by"]} == {"ddg"}
    assert "wrong-key" not in done.out + done.err
    fakes.behave()
    proper = ask("--kind", "web", "--json", "--max-age", "off", *how)
    assert proper.code == 0
    assert {"serper": "ok", "ddg": "not_asked"}.items() <= statuses(proper.json).items()


def test_no_answer_of_anybody_is_not_shown_as_nothing_found(ask: Ask, fakes: Fakes) -> None:
    for origin in fakes.endpoints:
        fakes.misbehave(origin, "500")
    done = ask()
    assert done.code == 8
    assert "no answer: every provider failed" in done.out


def test_a_stored_answer_is_used_again_and_its_age_is_told(ask: Ask, fakes: Fakes) -> None:
    first = ask("--json").json
    sent = len(fakes.calls)
    one = ask("--json").json
    assert len(fakes.calls) == sent
    assert one["results"] == first["results"]
    assert all(status["age_s"] is not None for status in one["providers"] if status["status"] == "ok")
    assert {path.name for path in Path("artifacts").iterdir()} == {"web.sqlite"}


@pytest.mark.parametrize("configured", [False, True])
def test_no_stored_answer_is_used_with_max_age_off(
    ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    ask("--provider", "s2")
    sent = len(fakes.calls)
    if configured:
        monkeypatch.setenv("RETRIEVE_WEB__MAX_AGE", "off")
    ask("--provider", "s2", *([] if configured else ["--max-age", "off"]))
    assert len(fakes.calls) > sent


def test_the_first_provider_with_results_ends_the_asking_and_a_failure_leads_to_the_next(
    ask: Ask, fakes: Fakes
) -> None:
    done = ask("--first", "--json")
    assert statuses(done.json) == {"pubmed": "ok", "biorxiv": "not_asked", "arxiv": "not_asked", "s2": "not_asked"}
    assert {call.origin for call in fakes.calls} == {PUBMED}
    fakes.misbehave(PUBMED, "429 with Retry-After")
    failed = ask("--first", "--json", "--max-age", "off")
    assert failed.code == 8
    assert (statuses(failed.json)["pubmed"], statuses(failed.json)["biorxiv"]) == ("rate_limited", "ok")


def test_a_provider_that_hangs_does_not_hold_up_the_others(ask: Ask, fakes: Fakes) -> None:
    fakes.misbehave(S2, "slow drip")
    assert statuses(ask("--deadline-ms", "3000", "--json").json) == {**dict.fromkeys(PROVIDERS, "ok"), "s2": "timeout"}


def test_results_before_a_date_are_dropped_and_counted(ask: Ask) -> None:
    done = ask("--since", "2024", "--json")
    assert all((result["date"] or "2024")[:4] >= "2024" for result in done.json["results"])
    assert any("from before 2024 dropped" in notice for notice in done.json["notices"])


def test_categories_are_applied_by_arxiv_and_a_notice_names_the_others(ask: Ask) -> None:
    assert statuses(ask("--category", "q-bio", "--json").json) == {"arxiv": "ok"}
    done = ask("--category", "q-bio", "--provider", "arxiv,s2", "--json")
    assert done.json["notices"] == ["categories are of arXiv and not applied by Semantic Scholar"]


@pytest.mark.parametrize("form", ["text", "prompt"])
def test_every_format_names_every_result(ask: Ask, form: str) -> None:
    results = ask("--json").json["results"]
    out = ask("--format", form).out
    assert len(results) > 3
    assert all(result["id"].partition(":")[2] in out for result in results)
