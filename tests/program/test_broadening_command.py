"""Questions that found too little: asked again in fewer words, each attempt told, and only where that may help."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure
from samples import Program

from retrieve_cli.search.ranker import Ranker

LONG = "brain volumes zebra quokka lynx badger"
"""A question whose rare words make it less like any record than its first ones are."""
SHORTER = ["brain volumes zebra quokka lynx badger", "brain volumes zebra", "brain volumes"]


@pytest.fixture
def strict(index: Path, configure: Configure) -> Path:
    """An index of which only what is much like the question is found."""
    configure("search", grade=0.3)
    return index


@pytest.fixture
def texts_asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of every batch that is ranked, in order."""
    asked: list[list[str]] = []
    rank = Ranker.rank

    def listening(self: Ranker, queries: Any, *how: Any) -> Any:
        asked.append([query.text for query in queries])
        return rank(self, queries, *how)

    monkeypatch.setattr(Ranker, "rank", listening)
    return asked


def test_each_attempt_is_recorded_with_what_it_found(strict: Path, retrieve: Program) -> None:
    attempts = retrieve("query", LONG, "--json").json["attempts"]
    assert [attempt["text"] for attempt in attempts] == SHORTER
    for attempt in attempts:
        alone = retrieve("query", attempt["text"], "--json").json
        first = alone["attempts"][0]["results"] if "attempts" in alone else alone["total_results"]
        assert attempt["results"] == first


def test_what_only_fills_up_an_answer_is_not_found(strict: Path, retrieve: Program, configure: Configure) -> None:
    plain = retrieve("query", LONG, "--json").json
    configure("search", min_results=5)
    filled = retrieve("query", LONG, "--json").json
    assert filled["attempts"] == plain["attempts"]
    assert len(filled["results"]) == 5
    near = [each["id"] for each in filled["results"] if not each.get("topped_up")]
    assert near == [each["id"] for each in plain["results"]]


def test_the_answer_is_that_of_the_text_that_found_the_most(strict: Path, retrieve: Program) -> None:
    found = retrieve("query", LONG, "--json").json
    counts = [attempt["results"] for attempt in found["attempts"]]
    best = found["attempts"][counts.index(max(counts))]["text"]
    assert best != LONG
    alone = retrieve("query", best, "--json", "--explain").json
    scores = [[(each["id"], each["score"]) for each in answer["results"]] for answer in (found, alone)]
    assert scores[0] == scores[1]
    assert found["total_results"] == max(counts) > counts[0]
    assert found["query"] == found["clean_query"] == LONG


def test_the_most_retries_and_what_is_enough_are_configured(
    strict: Path, retrieve: Program, configure: Configure
) -> None:
    attempts = retrieve("query", LONG, "--json").json["attempts"]
    for retries, texts in ((0, 0), (1, 2), (2, 3)):
        configure("broadening", max_retries=retries)
        assert retrieve("query", LONG, "--json").json.get("attempts", []) == attempts[:texts]
    enough = attempts[1]["results"]
    assert 0 < enough < 5
    configure("broadening", min_results=enough)
    assert retrieve("query", LONG, "--json").json["attempts"] == attempts[:2]
    configure("broadening", min_results=0)
    assert "attempts" not in retrieve("query", LONG, "--json").json


@pytest.mark.parametrize(
    "words",
    [
        ["brain volumes"],
        ["the brain of the volumes"],
        [LONG, "--filter", "license=GPL"],
        ["Removes the skull from brain MRI scans", "--doc-id", "brain"],
        ["Removes the skull from brain MRI scans", "-k", "1"],
    ],
    ids=" ".join,
)
def test_it_is_not_asked_again_where_that_cannot_find_more(
    strict: Path, retrieve: Program, texts_asked: list[list[str]], words: list[str]
) -> None:
    assert "attempts" not in retrieve("query", *words, "--json").json
    assert len(texts_asked) == 1


def test_of_a_batch_those_that_found_too_little_are_asked_again_together(
    strict: Path, retrieve: Program, configure: Configure, texts_asked: list[list[str]], stdin: Callable[[str], None]
) -> None:
    configure("broadening", min_results=1)
    stdin(f"brain\n{LONG} puma\nzebra otter lynx badger quokka\nlungs\n")
    answers = [json.loads(line) for line in retrieve("query", "-", "--json").out.splitlines()]
    assert [len(answer.get("attempts", [])) for answer in answers] == [0, 2, 3, 0]
    assert texts_asked[1:] == [["brain volumes zebra", "zebra otter lynx"], ["zebra otter"]]


def test_a_retry_keeps_the_filter_and_the_formats(
    strict: Path, retrieve: Program, texts_asked: list[list[str]]
) -> None:
    found = retrieve("query", f"{LONG} [FORMAT:MRI]", "--filter", "!group=radiology", "--json").json
    assert texts_asked == [[f"{text} format:MRI"] for text in SHORTER]
    assert found["results"]
    assert "lungs" not in {each["doc_id"] for each in found["results"]}


def test_the_reason_for_a_hit_is_given_for_the_text_that_found_it(strict: Path, retrieve: Program) -> None:
    found = retrieve("query", LONG, "--json").json
    best = max(found["attempts"], key=lambda attempt: attempt["results"])["text"]
    for rank, result in enumerate(found["results"], 1):
        told = retrieve("inspect", "why", LONG, result["doc_id"], "--json").json
        assert (told["rank"], told["answered_as"]) == (rank, best)
        assert told["stages"][-1]["score"] == result["score"]


def test_each_attempt_is_told_where_nothing_was_found(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", grade=0.99)
    done = retrieve("query", LONG, "--explain-empty")
    assert [f"  as {text!r}: 0 results" in done.out for text in SHORTER] == [True] * 3
