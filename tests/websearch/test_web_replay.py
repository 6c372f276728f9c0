"""`retrieve web --save-run` and `retrieve replay`: a search is answered again to the byte, and nothing is sent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import Program
from websearch.fakes.faults import FAULTS
from websearch.fakes.server import Fakes

from retrieve_cli.storage import durable

QUESTION = ("crispr off-target", "--since", "2024")
"""The question to which the fakes of the web have answers."""
KEYS = {"TAVILY_API_KEY": "quetzal-tavily", "SERPER_API_KEY": "quetzal-serper"}
TAVILY = "https://api.tavily.com"
RETRIEVAL, RUN, TAPE = "retrieval.json", "run.json", "tape.json"


@pytest.fixture
def _configured(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Web search by the fakes of Tavily and Serper, with keys; the key of SerpApi is not set."""
    for name, value in {**KEYS, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    configure(fakes, "tavily", "serper", "serpapi")


pytestmark = pytest.mark.usefixtures("_configured")


def configure(fakes: Fakes, *providers: str) -> None:
    web = {"enabled": True, "k": 10, "providers": list(providers), "endpoints": fakes.endpoints}
    Path("config.yaml").write_text(yaml.safe_dump({"web": web}), "utf-8")


def keep(retrieve: Program, *words: str, codes: Sequence[int] = (0,)) -> Path:
    """The folder of a run that was saved just now."""
    runs = Path("artifacts").resolve() / "runs"
    before = set(runs.glob("*"))
    done = retrieve("web", *QUESTION, "--kind", "web", "--json", "--save-run", *words)
    assert done.code in codes, done
    (run,) = set(runs.glob("*")) - before
    assert json.loads((run / RETRIEVAL).read_text("utf-8"))["answers"] == [done.json]
    return run


@pytest.fixture
def run(retrieve: Program) -> Path:
    """The folder of a run without any flag."""
    return keep(retrieve)


def assert_identical(retrieve: Program, run: Path) -> None:
    done = retrieve("replay", run)
    assert (done.code, done.out, done.err) == (0, "identical\n", "")


def answer_of(run: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((run / RETRIEVAL).read_text("utf-8"))["answers"][0]
    return answer


def statuses(run: Path) -> dict[str, str]:
    return {entry["provider"]: entry["status"] for entry in answer_of(run)["providers"]}


def edit(run: Path, name: str, change: Callable[[Any], object]) -> None:
    """Change a file of a run as an attacker or an accident may."""
    value = json.loads((run / name).read_text("utf-8"))
    change(value)
    (run / name).write_text(json.dumps(value), "utf-8")


# ------------------------------------------------------------------------------------------ the same bytes


@pytest.mark.parametrize(
    "words",
    [(), ("--no-rerank",), ("--first",), ("--provider", "serper"), ("--max-age", "off", "--deadline-ms", "9000")],
)
def test_a_search_is_answered_again_to_the_byte_whatever_is_configured_today(
    words: tuple[str, ...], retrieve: Program, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = keep(retrieve, *words)
    assert answer_of(run)["results"]
    shutil.rmtree("artifacts/web")
    today = {"enabled": False, "providers": ["arxiv"], "enrich": [], "k": 1, "deadline_ms": 1, "max_age": "off"}
    Path("config.yaml").write_text(yaml.safe_dump({"web": today, "fusion": {"rrf_k": 3}}), "utf-8")
    for name in KEYS:
        monkeypatch.delenv(name)
    calls = len(fakes.calls)
    assert_identical(retrieve, run)
    told = retrieve("replay", run.name, "--json").json
    assert (told["identical"], told["differences"], told["not_compared"]) == (True, [], [])
    assert (told["run"], told["generation"], told["queries"]) == (run.name, None, 1)
    assert len(fakes.calls) == calls


def test_a_search_is_reranked_again_by_the_encoder_of_the_run(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    run = keep(retrieve)
    assert answer_of(run)["reranked"] is True
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
    monkeypatch.setenv("RETRIEVE_RERANK__BACKEND", "none")
    assert_identical(retrieve, run)


def test_a_search_of_literature_is_the_same_again_with_those_who_describe_it_further(
    retrieve: Program, fakes: Fakes
) -> None:
    configure(fakes, "s2", "arxiv")
    run = keep(retrieve, "--provider", "s2,arxiv", "--category", "q-bio,cs.LG", codes=(0, 8))
    roles = {(entry["provider"], entry["role"]) for entry in answer_of(run)["providers"]}
    assert roles >= {("s2", "provider"), ("arxiv", "provider"), ("crossref", "enricher")}
    assert answer_of(run)["results"]
    calls = len(fakes.calls)
    assert_identical(retrieve, run)
    assert len(fakes.calls) == calls


def test_the_age_of_stored_answers_is_that_of_the_run(retrieve: Program, run: Path) -> None:
    later = keep(retrieve)
    assert later != run
    ages = [entry["age_s"] for entry in answer_of(later)["providers"] if entry["status"] == "ok"]
    assert ages
    assert None not in ages
    assert_identical(retrieve, later)


def test_a_provider_without_its_key_is_the_same_when_the_key_is_there(
    retrieve: Program, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert statuses(run) == {"tavily": "ok", "serper": "ok", "serpapi": "not_configured"}
    monkeypatch.setenv("SERPAPI_API_KEY", "quetzal")
    assert_identical(retrieve, run)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_is_the_same_failure_again(fault: str, retrieve: Program, fakes: Fakes) -> None:
    fakes.misbehave(TAVILY, fault)
    run = keep(retrieve, "--deadline-ms", "1500", codes=(0, 8))
    assert statuses(run)["tavily"] in FAULTS[fault].kinds | {"timeout", "rate_limited"}  # for want of time
    fakes.behave()
    assert_identical(retrieve, run)


def test_an_offline_search_without_stored_answers_is_the_same_again(retrieve: Program, fakes: Fakes) -> None:
    run = keep(retrieve, "--offline", codes=(8,))
    assert set(statuses(run).values()) == {"not_stored", "not_configured"}
    assert_identical(retrieve, run)
    assert fakes.calls == []


def test_trouble_of_the_machine_is_said_and_is_no_part_of_the_answer(
    retrieve: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").write_text("this is not a folder", "utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
    assert "rates" in retrieve("web", *QUESTION, "--kind", "web").err
    run = keep(retrieve)
    assert answer_of(run)["notices"] == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert_identical(retrieve, run)


def test_a_run_is_found_by_its_folder_wherever_it_lies(tmp_path: Path, retrieve: Program, run: Path) -> None:
    shutil.move(run, tmp_path / "elsewhere")
    assert_identical(retrieve, tmp_path / "elsewhere")


def test_a_run_is_shown(retrieve: Program, run: Path) -> None:
    told = retrieve("inspect", "run", run.name, "--json").json
    assert (told["kind"], told["answers"]) == ("web", [answer_of(run)])
    summary = (run / "run_summary.txt").read_text("utf-8")
    assert "crispr off-target" in summary
    assert answer_of(run)["results"][0]["title"] in summary


# ------------------------------------------------------------------------------------------ differences and damage


def test_what_differs_is_shown(retrieve: Program, run: Path) -> None:
    edit(run, RETRIEVAL, lambda value: value["answers"][0]["results"][0].update(title="Another\x1b[31m title"))
    done = retrieve("replay", run.name)
    verdict, line = done.out.splitlines()
    assert (done.code, verdict) == (1, "different")
    assert line.startswith("query 1: results[0].title: ")
    assert "\x1b" not in done.out
    assert retrieve("replay", run.name, "--json").json["identical"] is False


def test_an_exchange_that_is_missing_is_named_with_its_provider(retrieve: Program, run: Path, fakes: Fakes) -> None:
    def drop(tape: dict[str, Any]) -> None:
        exchanges = tape["exchanges"]
        for key in [key for key, entry in exchanges.items() if entry["request"]["url"].startswith(TAVILY)]:
            del exchanges[key]

    edit(run, TAPE, drop)
    calls = len(fakes.calls)
    done = retrieve("replay", run.name)
    assert done.code == 1
    assert "tape.json of the run lacks an exchange with tavily (provider)" in done.err
    differences = retrieve("replay", run.name, "--json").json["differences"]
    status = {"query_id": "1", "at": "providers[0].status", "was": '"ok"', "now": '"not_stored"'}
    assert status in differences
    assert len(fakes.calls) == calls


@pytest.mark.parametrize("damage", ["other bytes", "missing", "a pipe"])
def test_a_body_that_is_damaged_is_named_and_not_waited_for(damage: str, retrieve: Program, run: Path) -> None:
    body = min((run / "bodies").iterdir())
    content = body.read_bytes()
    body.unlink()
    if damage == "other bytes":
        body.write_bytes(content.replace(b"c", b"k", 1))
    elif damage == "a pipe":
        os.mkfifo(body)
    done = retrieve("replay", run.name)
    assert (done.code, done.out) == (2, "")
    assert (f"bodies/{body.name}" if damage == "missing" else body.name) in done.err


def each_exchange(part: str, **values: str) -> Callable[[Any], object]:
    return lambda tape: [entry[part].update(values) for entry in tape["exchanges"].values()]


CHANGES: Mapping[str, tuple[str, Callable[[Any], object], str]] = {
    "an option that does not exist": (RUN, lambda run: run["inputs"]["options"].update(kk=3), "kk"),
    "an option of another type": (RUN, lambda run: run["inputs"]["options"].update(first=3), "option first"),
    "k out of range": (RUN, lambda run: run["inputs"]["options"].update(k=1000), "k is 1000"),
    "a date that is none": (RUN, lambda run: run["inputs"]["options"].update(since="soon"), "'soon'"),
    "no question": (RUN, lambda run: run["inputs"]["options"].pop("text"), "question"),
    "an empty question": (RUN, lambda run: run["inputs"]["options"].update(text=" "), "question"),
    "no inputs": (RUN, lambda run: run.pop("inputs"), "`inputs`"),
    "no configuration": (RUN, lambda run: run.update(configuration=[]), "`configuration`"),
    "no section web": (RUN, lambda run: run.pop("web"), "`web`"),
    "a key that does not exist": (RUN, lambda run: run["web"].update(kk=3), "web.kk"),
    "a value out of range": (RUN, lambda run: run["web"].update(k=0), "web.k"),
    "a provider that does not exist": (RUN, lambda run: run["web"].update(providers=["pubmd"]), "'pubmd'"),
    "a section that does not exist": (RUN, lambda run: run["configuration"].update(serch={}), "serch"),
    "a time that is none": (RUN, lambda run: run.update(at="now"), "'now'"),
    "a time without a zone": (RUN, lambda run: run.update(at="2026-11-23T04:00:00"), "2026-11-23T04:00:00"),
    "two answers": (RETRIEVAL, lambda value: value["answers"].append({}), "one answer"),
    "no answer": (RETRIEVAL, lambda value: value.pop("answers"), "answers"),
    "a tape without exchanges": (TAPE, lambda tape: tape.pop("exchanges"), "exchanges"),
    "a digest that is a path": (TAPE, each_exchange("response", digest="../run.json"), "response"),
    "another request under a key": (TAPE, each_exchange("request", method="PUT"), "request"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_wrong_in_a_run_is_named(name: str, retrieve: Program, run: Path) -> None:
    file, change, named = CHANGES[name]
    edit(run, file, change)
    done = retrieve("replay", run.name)
    assert (done.code, done.out) == (2, ""), done
    assert named in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("content", ["", "[]", "{", "3", "[" * 100_000])
@pytest.mark.parametrize("file", [RUN, RETRIEVAL, TAPE])
def test_a_file_of_a_run_that_is_something_else_is_an_error(
    file: str, content: str, retrieve: Program, run: Path
) -> None:
    (run / file).write_text(content, "utf-8")
    done = retrieve("replay", run)
    assert (done.code, done.out) == (2, ""), done


# ------------------------------------------------------------------------------------------ what a run may not choose


def test_a_run_does_not_choose_servers(retrieve: Program, run: Path, fakes: Fakes) -> None:
    edit(run, RUN, lambda value: value["web"].update(endpoints={TAVILY: fakes.trap.url}))
    edit(run, TAPE, lambda tape: tape.update(exchanges={}))
    assert retrieve("replay", run.name).code == 1
    assert fakes.trap.asked == []


@pytest.mark.parametrize("model", ["/somewhere/else", "../else", "a/b/c", "~"])
def test_a_run_does_not_choose_folders_of_models(model: str, retrieve: Program, run: Path) -> None:
    edit(run, RUN, lambda value: value["configuration"]["encoder"].update(model=model))
    assert_identical(retrieve, run)


def test_another_encoder_than_that_of_the_run_is_an_error_that_names_it(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    run = keep(retrieve)
    assert answer_of(run)["reranked"] is True
    edit(run, RUN, lambda value: value["encoder"].update(revision="0" * 40))
    done = retrieve("replay", run.name)
    assert (done.code, done.out) == (6, "")
    assert "different keys: revision" in done.err


# ------------------------------------------------------------------------------------------ what is written


def test_no_file_of_a_run_has_a_credential(run: Path) -> None:
    files = [path for path in run.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {RETRIEVAL, RUN, TAPE, "run_summary.txt"}
    assert [path.name for path in files if b"quetzal" in path.read_bytes()] == []


def test_a_run_that_cannot_be_written_is_an_error_and_leaves_nothing(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = durable.replace

    def full(path: Path, text: str, *, mode: int | None = None) -> None:
        if path.name == RUN:
            raise OSError(28, "No space left on device", str(path))
        real(path, text, mode=mode)

    monkeypatch.setattr(durable, "replace", full)
    done = retrieve("web", *QUESTION, "--kind", "web", "--save-run")
    assert done.code == 1
    assert "No space left on device" in done.err
    assert list(Path("artifacts/runs").iterdir()) == []
