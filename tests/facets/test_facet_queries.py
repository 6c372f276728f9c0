"""Facets of chunks in queries: filters on chunks, a field of BM25, previews, and what tenants see of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from facets.chat_model import completion, finds_pico, text_of
from facets.conftest import chunks
from models.remote.servers import Api
from samples import Done, Program, write_catalog

Configure = Callable[..., None]

TRIALS = {
    "asthma.md": [
        ("Adults", "population = adults; smokers. outcome = fewer attacks.", "breathing"),
        ("Children", "population = children. outcome = fewer attacks.", "breathing"),
    ],
    "sugar.md": [("Old", "population = Adults. outcome = 12.", "breathing"), ("Rest", "Nothing is stated.", "nothing")],
}


@pytest.fixture
def trials(tmp_path: Path, model: Api, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents of two sections each, one chunk a section, with statements that the model finds."""
    model.respond = finds_pico
    configure(prompt="pico")
    monkeypatch.setenv("RETRIEVE_CHUNKING__SIZE", "40")
    folder = tmp_path / "trials"
    folder.mkdir()
    for name, sections in TRIALS.items():
        texts = [
            f"## {title}\n\n{stated} {' '.join(f'{word} {at}' for at in range(9))}" for title, stated, word in sections
        ]
        (folder / name).write_text("\n\n".join(texts) + "\n")
    return folder


@pytest.fixture
def index_of_trials(trials: Path, retrieve: Program) -> Path:
    assert retrieve("build", trials).code == 0
    assert len(chunks()) == 4
    return trials


def hits(done: Done) -> set[str]:
    assert done.code == 0, done.err
    return {result["id"] for result in done.json["results"]}


# ------------------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("facets.population=adults", {"asthma.md#0", "sugar.md#0"}),
        ("facets.population=smokers", {"asthma.md#0"}),
        ("facets.population=adults; smokers", {"asthma.md#0"}),
        ("facets.population=*child*", {"asthma.md#1"}),
        ("facets.outcome>=10", {"sugar.md#0"}),
        ("facets.population!=adults", {"asthma.md#1", "sugar.md#1"}),
    ],
)
def test_a_filter_keeps_the_chunks_that_have_the_value(
    index_of_trials: Path, retrieve: Program, condition: str, expected: set[str]
) -> None:
    done = retrieve("query", "breathing", "--chunks", "--filter", condition, "--json")
    assert hits(done) == expected


def test_conditions_on_facets_hold_for_one_and_the_same_chunk(index_of_trials: Path, retrieve: Program) -> None:
    ask = ("query", "breathing", "--json", "--filter", "facets.outcome=fewer attacks", "--filter")
    assert hits(retrieve(*ask, "facets.population=children")) == {"asthma.md#1"}
    assert hits(retrieve(*ask, "section=adults")) == {"asthma.md#0"}


def test_an_unknown_facet_names_the_nearest(index_of_trials: Path, retrieve: Program) -> None:
    done = retrieve("query", "breathing", "--filter", "facets.populaton=adults")
    assert done.code == 2
    assert "facets.population" in done.err


def test_without_facets_a_filter_on_them_is_an_unknown_field(docs: Path, retrieve: Program) -> None:
    retrieve("build", docs)
    done = retrieve("query", "lungs", "--filter", "facets.summary=x")
    assert done.code == 2
    assert "facets.summary" in done.err


def test_a_tenant_neither_finds_nor_learns_of_the_facets_of_another(
    tmp_path: Path, retrieve: Program, model: Api, configure: Configure
) -> None:
    model.respond = finds_pico
    configure(prompt="pico")
    hidden = "population = adults; secret. outcome = hidden. x"
    rows = [
        {"id": "ours", "name": "One", "description": "population = adults. x", "tenant": "acme"},
        {"id": "theirs", "name": "Two", "description": hidden, "tenant": "b"},
    ]
    assert retrieve("build", write_catalog(tmp_path / "owned.jsonl", rows)).code == 0
    ask = ("query", "adults", "--tenant", "acme", "--json", "--filter")
    assert hits(retrieve(*ask, "facets.population=adults")) == {"ours#0"}
    secret = retrieve(*ask, "facets.population=secret")
    assert hits(secret) == set()
    unknown = retrieve(*ask, "facets.outcome=hidden")
    assert unknown.code == 2  # as for a field that no record has
    assert "facets.population" in unknown.err
    assert "hidden" not in unknown.err.replace("facets.outcome=hidden", "")
    of_owner = retrieve("query", "adults", "--tenant", "b", "--json", "--filter", "facets.outcome=hidden")
    assert hits(of_owner) == {"theirs#0"}


def test_filters_hold_for_chunks_that_a_sync_kept(index_of_trials: Path, retrieve: Program, model: Api) -> None:
    model.asked.clear()
    text = (index_of_trials / "sugar.md").read_text().replace("= Adults.", "= newborns.")
    (index_of_trials / "sugar.md").write_text(text)
    (index_of_trials / "a-first.md").write_text("## New\n\npopulation = adults. breathing\n")
    assert retrieve("sync").code == 0
    assert len(model.asked) == 2  # the other section of the changed document is as it was
    ask = ("query", "breathing", "--json", "--filter")
    assert hits(retrieve(*ask, "facets.population=adults")) == {"a-first.md#0", "asthma.md#0"}
    assert hits(retrieve(*ask, "facets.population=newborns")) == {"sugar.md#0"}
    assert retrieve("inspect", "verify").code == 0
    assert retrieve("sync", "--verify").code == 0


# ------------------------------------------------------------------------------------------------- searched


@pytest.mark.parametrize("unit", ["chunk", "record"])
def test_facets_are_searched_with_a_weight_and_not_without(
    docs: Path,
    retrieve: Program,
    model: Api,
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    unit: str,
) -> None:
    model.respond = lambda asked: completion({"summary": "zebra" if "Kidneys" in text_of(asked) else "x"})
    monkeypatch.setenv("RETRIEVE_BM25__UNIT", unit)
    ask = ("query", "zebra", "--mode", "bm25", "--json")
    retrieve("build", docs)
    assert hits(retrieve(*ask)) == set()
    configure(weight=1)
    model.asked.clear()
    assert retrieve("sync").code == 0
    assert model.asked == []
    first = retrieve(*ask).json["results"]
    assert [result["doc_id"] for result in first] == ["kidneys.md"]
    configure(weight=8)
    retrieve("sync")
    assert retrieve(*ask).json["results"][0]["score"] > first[0]["score"]
    configure(weight=0)
    retrieve("sync")
    assert hits(retrieve(*ask)) == set()


# --------------------------------------------------------------------------------------------------- shown


def test_facets_are_shown_on_one_line_and_in_json_where_a_chunk_has_them(
    index_of_trials: Path, retrieve: Program
) -> None:
    done = retrieve("query", "breathing", "--chunks", "--json")
    shown: dict[str, Any] = {result["id"]: result.get("facets") for result in done.json["results"]}
    assert shown["asthma.md#0"] == {"outcome": "fewer attacks", "population": "adults; smokers"}
    assert shown.get("sugar.md#1") is None
    text = retrieve("query", "breathing", "--filter", "facets.population=smokers").out
    assert "\n    population: adults; smokers · outcome: fewer attacks\n" in text
    assert "population: adults; smokers" in retrieve("inspect", "chunk", "asthma.md#0").out
    assert retrieve("inspect", "chunk", "asthma.md#0", "--json").json["facets"]["population"] == "adults; smokers"


def test_facets_from_a_model_cannot_command_a_terminal(docs: Path, retrieve: Program, model: Api) -> None:
    model.respond = lambda asked: completion({"summary": "red \x1b[31m\x07 \u202e text"})
    retrieve("build", docs)
    out = retrieve("query", "lungs").out
    assert "summary: red" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
