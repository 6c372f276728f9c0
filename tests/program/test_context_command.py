"""What stands around a hit, and budgets, in the whole program: shown, counted, never exceeded, told."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered
from samples import Program

from retrieve_cli.models.encoders.hashed import WordTokenizer
from retrieve_cli.models.remote.embeddings import PieceTokenizer

count = WordTokenizer().count


def asked(retrieve: Program, *words: str) -> dict[str, Any]:
    return answered(retrieve, "remove claims", "--chunks", *words)


# -------------------------------------------------------------------------------------------------- context


def test_a_hit_is_shown_with_its_neighbours_as_one_text_of_its_file(guides: Path, retrieve: Program) -> None:
    plain = {each["id"]: each for each in asked(retrieve)["results"]}
    results = asked(retrieve, "--context", "1")["results"]
    for result in results:
        span = result["context"]
        text = (guides / result["doc_id"]).read_text()
        assert result["content"] == text[span["start"] : span["end"]]
        assert {result["id"], *span["merged"]} <= set(span["chunks"])
        assert {name.partition("#")[0] for name in span["chunks"]} == {result["doc_id"]}
        places = [int(name.partition("#")[2]) for name in span["chunks"]]
        assert places == list(range(places[0], places[0] + len(places)))
        assert text.splitlines()[span["start_line"] - 1] == result["content"].splitlines()[0]
        assert result["score"] == plain[result["id"]]["score"]
        assert result["metadata"] == plain[result["id"]]["metadata"]
    merged = [name for result in results for name in result["context"]["merged"]]
    assert merged
    assert {*merged, *(result["id"] for result in results)} == set(plain)
    assert [result["id"] for result in results] == [name for name in plain if name not in merged]


def test_without_a_window_there_is_no_context_and_the_widest_shows_whole_files(guides: Path, retrieve: Program) -> None:
    assert all("context" not in each for each in asked(retrieve, "--context", "0")["results"])
    for result in asked(retrieve, "--context", "1000")["results"]:
        assert result["content"] == (guides / result["doc_id"]).read_text().strip()


def test_the_key_is_the_flag_and_tables_have_one_of_their_own(
    guides: Path, retrieve: Program, configure: Configure
) -> None:
    configure("context", window=1)
    assert asked(retrieve) | {"timings_ms": 0} == asked(retrieve, "--context", "1") | {"timings_ms": 0}
    words = ["query", "claims option 3", "--json", "--chunks", "-k", "1"]
    (hit,) = retrieve(*words).json["results"]
    assert hit["id"] == "storage/claims.md#4"
    assert len(hit["context"]["chunks"]) == 3
    configure("context", table_window=0)
    (hit,) = retrieve(*words).json["results"]
    assert hit["context"]["chunks"] == ["storage/claims.md#4"]


def test_every_format_shows_the_same_text(guides: Path, retrieve: Program) -> None:
    wanted = [result["content"] for result in asked(retrieve, "--context", "1")["results"]]
    printed = retrieve("query", "remove claims", "--chunks", "--context", "1", "--format", "csv").out
    assert [row["content"] for row in csv.DictReader(io.StringIO(printed))] == wanted


# --------------------------------------------------------------------------------------------------- budgets


@pytest.mark.parametrize("context", ["0", "1", "9"])
def test_the_tokens_of_an_answer_are_never_above_its_budget(guides: Path, retrieve: Program, context: str) -> None:
    for most in (1, 20, 27, 28, 29, 61, 100, 173, 250, 100_000):
        found = asked(retrieve, "--context", context, "--max-tokens", str(most))
        tokens = sum(count(result["content"]) for result in found["results"])
        assert tokens <= most
        assert (found["budget"]["tokens"], found["budget"]["max_tokens"]) == (tokens, most)
        assert found["total_results"] == len(found["results"])


def test_a_larger_budget_never_shows_less_of_the_first_hit(guides: Path, retrieve: Program) -> None:
    sizes = []
    for most in range(10, 200, 20):
        results = asked(retrieve, "--context", "1", "--max-tokens", str(most), "-k", "1")["results"]
        sizes.append(count(results[0]["content"]) if results else 0)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4  # nothing, the hit alone, with the chunk behind it, with both neighbours


@pytest.mark.parametrize("most", [1, 2, 4, 7])
def test_the_chunks_of_an_answer_are_never_above_its_budget(
    guides: Path, retrieve: Program, configure: Configure, most: int
) -> None:
    configure("budget", max_chunks=most)
    found = asked(retrieve, "--context", "1")
    chunks = sum(len(result["context"]["chunks"]) for result in found["results"])
    assert chunks == found["budget"]["chunks"] <= most
    assert chunks > most - 3


def test_the_tokenizer_that_counts_is_configured_and_named(
    guides: Path, retrieve: Program, configure: Configure
) -> None:
    by_words = asked(retrieve, "--max-tokens", "100")
    configure("budget", tokenizer="pieces")
    by_pieces = asked(retrieve, "--max-tokens", "100")
    assert (by_words["budget"]["tokenizer"], by_pieces["budget"]["tokenizer"]) == ("words", "pieces")
    tokens = sum(PieceTokenizer().count(result["content"]) for result in by_pieces["results"])
    assert by_pieces["budget"]["tokens"] == tokens <= 100
    assert len(by_pieces["results"]) < len(by_words["results"])


def test_a_budget_that_nothing_fits_leaves_an_empty_answer_with_the_reasons(guides: Path, retrieve: Program) -> None:
    done = retrieve("query", "remove claims", "--max-tokens", "1")
    assert done.code == 0
    assert "no results" in done.out
    assert "storage/claims.md#2: skipped: it takes" in done.out
    assert retrieve("query", "remove claims", "--max-tokens", "1", "--exit-status").code == 3


@pytest.mark.parametrize("words", [["--max-tokens", "0"], ["--context", "1001"], ["--context", "-1"]], ids=" ".join)
def test_limits_out_of_bounds_are_refused(guides: Path, retrieve: Program, words: list[str]) -> None:
    done = retrieve("query", "remove claims", *words)
    assert (done.code, done.out) == (2, "")
    assert words[0] in done.err
