"""What limits cut is said, and what results lead to is listed after them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from samples import Program

from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.frozen import replace
from retrieve_cli.output import text
from retrieve_cli.output.styled_lines import LineRenderer
from retrieve_cli.search.answer import Answer
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
