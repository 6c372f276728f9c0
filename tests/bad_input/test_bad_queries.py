"""Questions, flags and batches that nobody meant: an answer, or a sentence that says what to write instead."""

import json

import pytest
from bad_input.speech import RAW_CONTROLS, said, said_in_json
from samples import Program

pytestmark = pytest.mark.usefixtures("index")


@pytest.mark.parametrize("words", [[""], ["  \t\n"], [], ["", ""], ["\u00a0\u2003"]], ids=repr)
def test_an_empty_query_is_a_usage_error(retrieve: Program, words: list[str]) -> None:
    assert "empty" in said(retrieve("query", *words), 2)
    assert said_in_json(retrieve("query", *words, "--json"), 2)["kind"] == "usage"


def test_a_query_or_flag_of_a_length_that_nobody_types_is_a_usage_error(retrieve: Program, stdin) -> None:
    assert len(said(retrieve("query", "lungs", "--max-tokens", "9" * 100_000 + "x"), 2)) < 3000
    assert "more than 100,000 characters" in said(retrieve("query", "y" * 100_001), 2)
    assert "more than 100,000 characters" in said(retrieve("query", "lungs", "--also", "y" * 100_001), 2)
    stdin("lungs\n" + "y" * (2**20 + 1))
    assert "line 2 of stdin is longer than 1 MB" in said(retrieve("query", "-"), 8, silent=False)


def test_a_query_of_stop_words_that_no_record_has_finds_nothing_and_says_why(retrieve: Program) -> None:
    done = retrieve("query", "hers theirs", "--mode", "bm25", "--json")
    assert (done.code, done.json["results"]) == (0, [])
    assert "stop words" in done.json["strategies_skipped"]["bm25"]


@pytest.mark.parametrize("k", ["0", "-1", "abc", "1.5", "", "=3", "1e3"])
def test_a_number_of_results_that_is_none_is_refused_by_the_name_of_its_flag(retrieve: Program, k: str) -> None:
    sentence = said(retrieve("query", "lungs", "-k", k), 2)
    assert "-k" in sentence


@pytest.mark.parametrize(
    "words",
    [
        ["query", "x", "--mode", ""], ["query", "x", "--format", ""], ["query", "x", "-k"], ["query", "x", "-x"],
        ["build"], ["build", "--catalog"], ["build", "--catalog", "a", "--docs-dir", "b"], ["build", "x"],
        ["build", "--catalog", "tools.jsonl", "--max-fail", "-5"], ["build", "--catalog", "a", "--max-fail", "nan"],
        ["build", "--catalog", "tools.jsonl", "--format", "csv"], ["inspect", "record"], ["inspect", "chunk", "lungs"],
        ["inspect", "chunk", "lungs#"], ["inspect", "chunk", "#0"], ["inspect", "chunk", "lungs#9"],
        ["inspect", "chunk", "lungs#٣"], ["inspect", "chunk", "lungs#²"], ["inspect", "chunk", "lungs#" + "9" * 5000],
        ["inspect", "records", "--limit", "-1"], ["inspect", "records", "--limit", "x"],
        ["inspect", "records", "--filter", "x"], ["inspect", "records", "--filter", "=x"], ["query", "--\x1b[31m"],
        ["inspect", "record", "\udcff"],
    ],
    ids=lambda words: repr(words)[:50],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error(retrieve: Program, words: list[str]) -> None:
    sentence = said(retrieve(*words), 2)
    assert not RAW_CONTROLS & set(sentence)
    if "--format" not in words and not words[-1].startswith("-"):
        said_in_json(retrieve(*words, "--json"), 2)


@pytest.mark.parametrize(
    "line",
    [
        b"{broken", b'{"query": 5}', b'{"id": 3}', b'{"query": NaN}', b'{"query": ""}', b'{"query": "  "}', b"\xff",
        b'{"query": "a", "id": ' + b"9" * 5000 + b"}", b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b'{"query": "a", "id": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    ],
    ids=lambda line: repr(line[:20]),
)  # fmt: skip
def test_a_bad_line_of_a_batch_is_named_and_the_others_are_answered(retrieve: Program, stdin, line: bytes) -> None:
    stdin(b'plain lungs\n{"id": "q2", "query": "brain"}\n' + line + b"\ncells\n")
    sentence = said(retrieve("query", "-"), 8, silent=False)
    assert "'3'" in sentence
    for stream in ([], ["--stream"]):
        stdin(b'plain lungs\n{"id": "q2", "query": "brain"}\n' + line + b"\ncells\n")
        done = retrieve("query", "-", "--json", *stream)
        answers = [json.loads(answer) for answer in done.out.splitlines()]
        assert (done.code, done.err) == (8, "")
        assert [answer["query_id"] for answer in answers] == ["1", "q2", "3", "4"]
        assert ["error" in answer for answer in answers] == [False, False, True, False]
        assert (answers[2]["error"]["code"], answers[2]["error"]["kind"]) == (2, "usage")


def test_a_mixed_batch_is_answered_line_by_line_in_order(retrieve: Program, stdin) -> None:
    stdin('lungs\r\n\n{"id": "q2", "query": "brain"}\n"quoted"\n[1]\n{"_id": 7, "text": "a\\u0000b"}\n')
    answers = [json.loads(line) for line in retrieve("query", "-", "--json").out.splitlines()]
    assert [answer["query"] for answer in answers] == ["lungs", "brain", '"quoted"', "[1]", "a\0b"]
    assert [answer["query_id"] for answer in answers] == ["1", "q2", "4", "5", "7"]
