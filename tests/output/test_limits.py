"""What limits cut is said, and what results lead to is listed after them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from samples import Program

from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.frozen import replace
from retrieve_cli.output import formats, prompt, text
from retrieve_cli.output.reasons import rank_before_budget
from retrieve_cli.output.styled_lines import LineRenderer
from retrieve_cli.output.text import _last_shown, cut_notes
from retrieve_cli.search.answer import Answer, Skipped, Spent
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

QUERY = ("query", "brain volumes")
BY_WORDS = ("--mode", "bm25")


@pytest.fixture
def answer(index: Path) -> Answer:
    """An answer that leads to one more record."""
    opened = Opened.of(Store(index), load(None))
    (found,) = Searcher(opened, opened.options(k=2, mode="bm25")).answer([Request("microscope")])
    (other,) = Searcher(opened, opened.options(k=1, mode="bm25")).answer([Request("lobes")])
    (linked,) = other.results
    hit = replace(linked.hit, path="stitch —requires→ lungs (0.70)", evidence=())
    return replace(found, related=(replace(linked, hit=hit),))


# ---------------------------------------------------------------------------------------------------- related


@pytest.mark.parametrize("table", [None, lambda _: None], ids=["blocks", "table"])
def test_records_that_results_lead_to_are_listed_after_them(
    answer: Answer, capfd: pytest.CaptureFixture[str], table: Callable[[Answer], None] | None
) -> None:
    text.print_answers([answer], LineRenderer(80), explain=False, timing=False, batch=False, table=table)
    assert capfd.readouterr().out.splitlines()[-2:] == ["Also needed", "    LungMapper  id lungs  required by stitch"]


def test_markdown_and_prompts_list_them_too(answer: Answer) -> None:
    markdown = formats.as_markdown([answer])
    assert markdown.endswith("### Also needed\n\n- **LungMapper** `lungs`: required by stitch\n\n")
    for written in (prompt.as_prompt([answer]), prompt.as_table([answer])):
        assert written.text.endswith("\n## Also needed\n\n- LungMapper (lungs): required by stitch\n")


@pytest.mark.parametrize("write", [formats.as_trec, formats.as_ids, formats.as_csv, formats.as_jsonl])
def test_lines_of_results_are_those_of_results_alone(answer: Answer, write: Callable[[list[Answer]], str]) -> None:
    assert write([answer]) == write([replace(answer, related=())])


def test_a_prompt_has_room_for_related_records_only_behind_its_passages(index: Path, answer: Answer) -> None:
    opened = Opened.of(Store(index), load(None))
    for limit in range(1, 60):
        options = opened.options(k=2, mode="bm25", max_tokens=limit)
        (limited,) = Searcher(opened, options).answer([Request("microscope")])
        alone = prompt.as_prompt([limited]).text
        both = prompt.as_prompt([replace(limited, related=answer.related)]).text
        assert both.startswith(alone)
        assert limited.spent is not None
        assert limited.spent.count is not None
        assert both == alone or limited.spent.count(both) <= limit


# ----------------------------------------------------------------------------------------------------- limits


def sizes(retrieve: Program) -> list[tuple[str, int]]:
    done = retrieve(*QUERY, *BY_WORDS, "--max-tokens", "1", "--json").json
    return [(cut["id"].removesuffix("#0"), cut["size"]) for cut in done["budget"]["cut"]]


def test_a_better_hit_that_did_not_fit_is_said_with_its_size(index: Path, retrieve: Program) -> None:
    (first, size), (second, other) = sizes(retrieve)[:2]
    limit = max(size, other) - 1
    lost, lost_size = (first, size) if size > other else (second, other)
    assert size != other
    done = retrieve(*QUERY, *BY_WORDS, "--max-tokens", limit, "-k", "2")
    said = f"note: 1 hit did not fit into {limit} tokens: {lost} ({lost_size})"
    assert (said in done.err.splitlines()) == (lost == first)
    whole = retrieve(*QUERY, *BY_WORDS, "--max-tokens", "1")
    assert f"did not fit into 1 token: {first} ({size})" in whole.err


def test_a_worse_hit_that_did_not_fit_is_not_said(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_BUDGET__MAX_CHUNKS", "1")
    done = retrieve(*QUERY, *BY_WORDS)
    assert len(done.out.splitlines()) == 3
    assert "note:" not in done.err
    assert retrieve(*QUERY, *BY_WORDS, "--json").json["budget"]["cut"]


def test_results_below_a_threshold_are_said(index: Path, retrieve: Program) -> None:
    scores = [result["score"] for result in retrieve(*QUERY, *BY_WORDS, "--json").json["results"]]
    names = retrieve(*QUERY, *BY_WORDS, "-l").out.split()
    least = (scores[0] + scores[1]) / 2
    done = retrieve(*QUERY, *BY_WORDS, "--min-score", least, "-l")
    assert done.out.split() == names[:1]
    count = f"{len(names) - 1} result{'s' * (len(names) > 2)}"
    assert f"note: {count} below --min-score {least:g}: {', '.join(names[1:])}\n" in done.err
    assert "note:" not in retrieve(*QUERY, *BY_WORDS, "--min-score", least, "-k", "1").err
    assert retrieve(*QUERY, *BY_WORDS, "--min-score", least, "-q").err == ""


def test_results_that_are_not_similar_enough_are_said(index: Path, retrieve: Program, monkeypatch) -> None:
    monkeypatch.setenv("RETRIEVE_BROADENING__MAX_RETRIES", "0")
    monkeypatch.setenv("RETRIEVE_SEARCH__GRADE", "0.99")
    monkeypatch.setenv("RETRIEVE_SEARCH__MIN_RESULTS", "0")
    assert "5 results less similar than search.grade 0.99: " in retrieve(*QUERY).err


def test_better_hits_beyond_a_quota_are_said(index: Path, retrieve: Program, monkeypatch) -> None:
    monkeypatch.setenv("RETRIEVE_DIVERSITY__PER_GROUP", "1")
    names = retrieve("query", "microscopy brain images", "--json").json
    cut = [each["id"].removesuffix("#0") for each in names["trace"]["diversity"]["cut"]]
    last = retrieve("query", "microscopy brain images", "-l").out.split()[-1]
    monkeypatch.delenv("RETRIEVE_DIVERSITY__PER_GROUP")
    order = retrieve("query", "microscopy brain images", "-l").out.split()
    better = [name for name in cut if order.index(name) < order.index(last)]
    monkeypatch.setenv("RETRIEVE_DIVERSITY__PER_GROUP", "1")
    err = retrieve("query", "microscopy brain images").err
    assert better
    count = f"{len(better)} better hit{'s' * (len(better) > 1)}"
    assert f"note: {count} beyond the quota per_group 1: {', '.join(better)}\n" in err


@pytest.mark.parametrize(
    ("cut", "shown", "last"), [([], 3, 3), ([2], 3, 4), ([2, 3, 9], 2, 4), ([1, 2, 3], 0, 0), ([5], 3, 3)]
)
def test_the_rank_of_the_last_result_counts_what_is_cut_above_it(cut: list[int], shown: int, last: int) -> None:
    assert _last_shown(cut, shown) == last


def test_quotas_of_two_stages_count_each_in_its_own_list(answer: Answer) -> None:
    cut = [
        {"id": "a#0", "why": "per_query 1", "rank": 2},
        {"id": "b#0", "why": "per_query 1", "rank": 9},
        {"id": "c#0", "why": "per_group 1", "rank": 1},
    ]
    assert list(cut_notes(replace(answer, trace={"diversity": {"cut": cut}}))) == [
        "1 better hit beyond the quota per_query 1: a",
        "1 better hit beyond the quota per_group 1: c",
    ]


def test_too_little_confidence_is_said(answer: Answer) -> None:
    unsure = replace(answer, confidence={"min_confidence": 0.8, "left_out": 3})
    assert list(cut_notes(unsure)) == ["3 results below --min-confidence 0.8"]


def test_the_move_of_a_reranker_counts_the_hits_that_a_budget_skipped(answer: Answer) -> None:
    skipped = (Skipped("x#0", 1, 5, outranks=True), Skipped("y#0", 4, 5, outranks=False))
    limited = replace(answer, spent=Spent(chunks=1, skipped=skipped))
    assert [rank_before_budget(limited, rank) for rank in (1, 2, 3)] == [2, 3, 5]
