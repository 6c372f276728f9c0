"""`retrieve web` and `retrieve query --web`, asked of fakes of the providers on loopback."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import Done, Program
from websearch.fakes.server import Fakes
from websearch.worlds import QUESTION, settle

Ask = Callable[..., Done]
PROVIDERS = ("pubmed", "europepmc", "arxiv", "s2")
PUBMED = "https://eutils.ncbi.nlm.nih.gov"


@pytest.fixture
def ask(fakes: Fakes, retrieve: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Run `retrieve web` about the question, of four providers; flags may say more."""
    settle(fakes, *PROVIDERS)
    web = {"enabled": True, "endpoints": fakes.endpoints, "enrich": [], "providers": list(PROVIDERS)}
    for key, value in web.items():
        monkeypatch.setenv(f"RETRIEVE_WEB__{key.upper()}", json.dumps(value))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda *flags: retrieve("web", QUESTION, *flags)


def statuses(answer: dict[str, Any]) -> dict[str, str]:
    return {status["provider"]: status["status"] for status in answer["providers"]}


def test_every_provider_is_asked_and_every_result_says_by_whom_it_was_found_in_a_stored_body(ask: Ask) -> None:
    done = ask("--json")
    assert done.code == 0, done.err
    assert statuses(done.json) == dict.fromkeys(PROVIDERS, "ok")
    assert done.json["results"]
    for result in done.json["results"]:
        assert result["found_by"]
        assert set(result["source_scores"]) == {each["provider"] for each in result["found_by"] if each["rank"]}
    for status in done.json["providers"]:
        (path,) = Path("artifacts/web/bodies").rglob(status["digest"])
        assert hashlib.sha256(path.read_bytes()).hexdigest() == status["digest"]


def test_a_search_is_refused_until_it_is_enabled(ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_WEB__ENABLED", "false")
    done = ask()
    assert done.code == 2
    assert "web.enabled" in done.err
    assert fakes.calls == []


def test_only_configured_providers_receive_the_question(ask: Ask, fakes: Fakes) -> None:
    ask("--provider", "arxiv")
    assert {call.origin for call in fakes.calls} == {"https://export.arxiv.org"}
    assert ask("--provider", "biorxiv").code == 2


def test_the_first_search_says_to_whom_the_question_went_and_later_ones_do_not(ask: Ask) -> None:
    said = "note: the question is sent to pubmed, europepmc, arxiv, s2"
    assert said in ask().err
    assert said not in ask().err


def test_a_failure_makes_the_answer_partial_and_the_exit_code_8(ask: Ask, fakes: Fakes) -> None:
    fakes.misbehave("https://api.semanticscholar.org", "429 with Retry-After")
    done = ask("--json")
    assert done.code == 8
    assert done.json["partial"]
    assert statuses(done.json)["s2"] == "rate_limited"
    assert statuses(done.json)["pubmed"] == "ok"


def test_a_stored_answer_is_used_again_to_the_byte_and_its_age_is_told(ask: Ask, fakes: Fakes) -> None:
    first = ask("--json").json
    sent = len(fakes.calls)
    one, other = (ask("--json").json for _ in range(2))
    assert len(fakes.calls) == sent
    assert one["results"] == first["results"]
    for status in (*one["providers"], *other["providers"]):
        assert status.pop("age_s") is not None
    assert json.dumps(one) == json.dumps(other)


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


def test_offline_answers_come_from_the_store_alone(ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ask("--json").json
    sent = len(fakes.calls)
    monkeypatch.setenv("RETRIEVE_WEB__ENABLED", "false")
    monkeypatch.setenv("RETRIEVE_WEB__MAX_AGE", "off")
    done = ask("--json", "--offline")
    assert done.code == 0
    assert done.json["results"] == before["results"]
    assert len(fakes.calls) == sent


def test_offline_without_a_stored_answer_is_a_failure_and_not_an_empty_list(ask: Ask) -> None:
    done = ask("--offline", "--json")
    assert done.code == 8
    assert set(statuses(done.json).values()) == {"not_stored"}
    assert "everybody who was asked failed" in ask("--offline").out


def test_the_first_provider_with_results_ends_the_asking_and_a_failure_leads_to_the_next(
    ask: Ask, fakes: Fakes
) -> None:
    done = ask("--first", "--json")
    assert statuses(done.json) == {"pubmed": "ok", "europepmc": "not_asked", "arxiv": "not_asked", "s2": "not_asked"}
    assert {call.origin for call in fakes.calls} == {PUBMED}
    fakes.misbehave(PUBMED, "429 with Retry-After")
    failed = ask("--first", "--json", "--max-age", "off")
    assert failed.code == 8
    assert (statuses(failed.json)["pubmed"], statuses(failed.json)["europepmc"]) == ("rate_limited", "ok")


def test_a_provider_that_hangs_does_not_hold_up_the_others(
    ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_WEB__DEADLINE_MS", "3000")
    fakes.misbehave("https://api.semanticscholar.org", "slow drip")
    done = ask("--json")
    assert statuses(done.json) == {"pubmed": "ok", "europepmc": "ok", "arxiv": "ok", "s2": "timeout"}


def test_k_is_the_number_of_results_and_fewer_are_the_first_of_more(ask: Ask, fakes: Fakes) -> None:
    every = ask("--json").json["results"]
    sent = len(fakes.calls)
    assert ask("-k", "2", "--json").json["results"] == every[:2]
    assert len(fakes.calls) == sent


def test_the_configured_k_is_that_of_every_provider(ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(fakes, "pubmed", k=1)
    monkeypatch.setenv("RETRIEVE_WEB__K", "1")
    done = ask("--provider", "pubmed", "--json")
    assert len(done.json["results"]) == 1
    assert fakes.calls[0].parameters["retmax"] == "1"


def test_enrichers_are_asked_if_they_are_configured(ask: Ask, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_WEB__ENRICH", '["crossref"]')
    done = ask("--json")
    assert "crossref" in statuses(done.json)
    assert any(call.origin == "https://api.crossref.org" for call in fakes.calls)


def test_the_share_of_the_reranker_is_configured(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    reranked = ask("--json").json
    assert reranked["reranked"]
    assert reranked["pipeline"].endswith("> encoder+maxsim@50")
    monkeypatch.setenv("RETRIEVE_WEB__INTERPOLATE", "0")
    by_rank = ask("--json").json
    assert [each["score"] for each in by_rank["results"]] == [
        each["rerank"]["score_before"] for each in by_rank["results"]
    ]
    assert [each["score"] for each in reranked["results"]] != [each["score"] for each in by_rank["results"]]


def test_a_skipped_reranker_is_said(ask: Ask) -> None:
    done = ask("--json")
    assert "no token vectors" in done.json["strategies_skipped"]["rerank"]
    assert ask("--json", "--no-rerank").json["strategies_skipped"] == {}


def test_results_before_a_date_are_dropped_and_counted(ask: Ask, fakes: Fakes) -> None:
    settle(fakes, *PROVIDERS, since="2024")
    done = ask("--since", "2024", "--json")
    assert all((result["date"] or "2024")[:4] >= "2024" for result in done.json["results"])


@pytest.mark.parametrize("form", ["text", "jsonl", "md", "prompt"])
def test_every_format_names_every_result(ask: Ask, form: str) -> None:
    results = ask("--json").json["results"]
    out = ask("--format", form).out
    assert len(results) > 3
    for result in results:
        assert result["id"].partition(":")[2].replace("\\", "") in out.replace("\\", "")


def test_added_results_are_found_offline_after_a_sync(
    ask: Ask, retrieve: Program, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    done = ask("--add", "--json")
    result = next(each for each in done.json["results"] if each["abstract"])
    assert retrieve("sync").code == 0
    monkeypatch.setenv("RETRIEVE_WEB__ENABLED", "false")
    (found,) = retrieve("query", result["title"], "-k", "1", "--json").json["results"]
    assert found["name"] == result["title"]
    assert found["doc_id"] == result["id"]


@pytest.mark.usefixtures("ask")
def test_a_recording_has_the_exchanges_and_no_credentials(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch, fakes: Fakes
) -> None:
    settle(fakes, "pubmed", k=5)
    monkeypatch.setenv("NCBI_API_KEY", "sesame-sesame")
    monkeypatch.setenv("NCBI_EMAIL", "someone@example.org")
    Path("recorded").mkdir()
    done = retrieve("web", "record", QUESTION, "--provider", "pubmed", "--to", "recorded")
    assert done.code == 0, done.err
    text = Path("recorded/pubmed.json").read_text("utf-8")
    assert json.loads(text)["exchanges"]
    assert "sesame" not in text
    assert "someone" not in text
