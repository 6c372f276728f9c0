"""Queries for which the first stage finds too little: retried with fewer words, before any threshold and only there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure
from samples import Program

from retrieve_cli.config.settings import RelaxationSettings
from retrieve_cli.contracts import Hit, Query, Question, Ranking, Request
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.search import ranking
from retrieve_cli.search.relaxation import Relaxation, answered

LONG = "brain volumes zebra quokka lynx badger"
"""A question of which few records have a word."""
SHORTER = ["brain volumes zebra quokka lynx badger", "brain volumes zebra", "brain volumes"]
WORDS = ("--mode", "bm25")
"""Only records with a word of the question are found: by vectors, every record is near."""
ASKED = ("query", LONG, *WORDS, "--json")


@pytest.fixture
def strict(index: Path, configure: Configure) -> Path:
    """An index that is searched for words."""
    configure("search", mode="bm25")
    return index


@pytest.fixture
def texts_asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of every batch that a retriever is asked for, in order."""
    asked: list[list[str]] = []
    retrieve = ranking._retrieve

    def listening(stage: Any, rankings: Any, *how: Any) -> Any:
        def heard(rankings: Any) -> Any:
            asked.append([ranking.query.text for ranking in rankings])
            return stage(rankings)

        return retrieve(heard, rankings, *how)

    monkeypatch.setattr(ranking, "_retrieve", listening)
    return asked


def test_each_attempt_is_recorded_with_what_it_found(strict: Path, retrieve: Program) -> None:
    attempts = retrieve(*ASKED).json["attempts"]
    assert [attempt["text"] for attempt in attempts] == SHORTER
    for attempt in attempts:
        alone = retrieve("query", attempt["text"], "--json").json
        assert attempt["results"] == alone["total_results"] > 0


WHOLE = "segment rare pulmonary structure"
TOLD: dict[str, list[str]] = {WHOLE: ["a", "b"], "segment rare pulmonary": list("abcdefg")}
"""By text, what a stage that finds records with all words has: design A, "Alternative Query Generation" """


def found_by_all_words(queries: Any) -> list[Ranking]:
    return [
        Ranking.of(query, [Hit(name, row, row, 1.0) for row, name in enumerate(TOLD.get(query.text, []))])
        for query in queries
    ]


@pytest.mark.parametrize("most", [10, 6, 5])
def test_the_answer_is_that_of_the_text_that_found_the_most(most: int) -> None:
    question = Question(Request(WHOLE), Query(WHOLE), WHOLE)
    relaxation = Relaxation([question], RelaxationSettings(), lambda _: TextAnalyzer(), most=most)
    (ranking,) = relaxation(found_by_all_words([question.query]), found_by_all_words)
    assert ranking.query.text == "segment rare pulmonary"
    assert [(each.text, each.results) for each in relaxation.attempts[0]] == [
        (WHOLE, 2),
        ("segment rare pulmonary", min(7, most)),
    ]
    assert answered(question, relaxation.attempts[0]).text == ranking.query.text


def test_the_most_retries_and_what_is_enough_are_configured(
    strict: Path, retrieve: Program, configure: Configure
) -> None:
    attempts = retrieve(*ASKED).json["attempts"]
    for retries, texts in ((0, 0), (1, 2), (2, 3)):
        configure("broadening", max_retries=retries)
        assert retrieve(*ASKED).json.get("attempts", []) == attempts[:texts]
    for enough in (attempts[0]["results"], 0):
        configure("broadening", min_results=enough)
        assert "attempts" not in retrieve(*ASKED).json


@pytest.mark.parametrize(
    "words",
    [
        ["brain volumes"],
        ["the brain of the volumes"],
        [LONG, "--mode", "hybrid"],
        [LONG, "--mode", "dense"],
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
    stdin("brain\nquokka otter lynx puma\nzebra otter lynx badger quokka\nlungs\n")
    answers = [json.loads(line) for line in retrieve("query", "-", "--json").out.splitlines()]
    assert [len(answer.get("attempts", [])) for answer in answers] == [0, 3, 3, 0]
    assert texts_asked[1:] == [["quokka otter lynx", "zebra otter lynx"], ["quokka otter", "zebra otter"]]


def test_a_retry_keeps_the_filter_and_the_formats(
    strict: Path, retrieve: Program, texts_asked: list[list[str]]
) -> None:
    found = retrieve("query", f"{LONG} [FORMAT:MRI]", "--filter", "!group=radiology", "--json").json
    assert texts_asked == [[f"{text} format:MRI"] for text in SHORTER]
    assert found["results"]
    assert "lungs" not in {each["doc_id"] for each in found["results"]}


def test_the_reason_for_a_hit_is_given_for_the_text_that_found_it(strict: Path, retrieve: Program) -> None:
    found = retrieve(*ASKED).json
    for rank, result in enumerate(found["results"], 1):
        view = retrieve("inspect", "why", LONG, result["doc_id"], "--json").json
        assert view["rank"] == rank
        assert view["stages"][-1]["score"] == result["score"]


def test_each_attempt_is_told_where_nothing_was_found(strict: Path, retrieve: Program) -> None:
    texts = ["zebra quokka lynx badger", "zebra quokka lynx", "zebra quokka"]
    done = retrieve("query", texts[0])
    assert [f"  as {text!r}: 0 results" in done.out for text in texts] == [True] * 3
