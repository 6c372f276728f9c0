"""Judged queries are read whole and checked before anything is asked."""

import csv
import json
from pathlib import Path

import pytest
from samples import ROOT, collection

from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.judgments import read_beir, read_files, read_gold, read_run


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file"
    path.write_text(text, "utf-8")
    return path


def test_the_gold_file_of_the_catalog_is_read_whole() -> None:
    path = ROOT / "catalogs" / "gold.jsonl"
    topics = read_gold(path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [topic.id for topic in topics] == [line["id"] for line in lines]
    assert all(topic.grades and topic.group for topic in topics)


def test_a_list_of_ids_is_relevant_alike_and_a_line_number_is_an_id(tmp_path: Path) -> None:
    path = written(tmp_path, '{"query": "a", "relevant": ["x", "y"]}\n\n{"query": "b", "quote": "some words"}\n')
    first, second = read_gold(path)
    assert (first.id, first.grades) == ("1", {"x": 1, "y": 1})
    assert (second.id, second.quote, second.grades) == ("3", "some words", {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "file:1 is not JSON"),
        ("[]", "file:1 is not a JSON object"),
        ('{"relevant": ["x"]}', "file:1 has no `query`"),
        ('{"query": " ", "relevant": ["x"]}', "has no `query`"),
        ('{"query": "a"}', "has a query without judgments"),
        ('{"query": "a", "relevant": []}', "has a query without judgments"),
        ('{"query": "a", "relevant": ["x", "x"]}', "names twice 'x'"),
        ('{"query": "a", "relevant": {"x": 1.5}}', "the grade of 'x' is 1.5"),
        ('{"query": "a", "relevant": {"x": NaN}}', "the grade of 'x' is nan"),
        ('{"query": "a", "relevant": {"x": true}}', "the grade of 'x' is True"),
        ('{"query": "a", "relevant": "x"}', "neither a list of ids nor grades"),
        ('{"query": "a", "relevent": ["x"]}', "unknown key `relevent`"),
        ('{"query": "a", "relevant": ["x"], "group": 3}', "`group` is 3"),
        ('{"query": "a", "file": ["a.md"]}', "`file` is ['a.md']"),
        ('{"query": "a", "file": "a.md", "heading": " "}', "`heading` is ' '"),
        ('{"query": "a", "id": 1, "relevant": ["x"]}\n{"query": "b", "id": 1, "relevant": ["x"]}', "two queries"),
        ("<top>", "file:1 is not JSON"),
        ("", "has no judgments"),
    ],
)
def test_a_gold_file_that_is_not_one_is_refused_by_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        read_gold(written(tmp_path, line))


def test_files_of_trec_and_beir_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "a b"}\n{"_id": "2", "text": "c"}\n')
    (tmp_path / "q.tsv").write_text("1\ta b\n2\tc\n")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\n1\tx\t2\n")
    (tmp_path / "trec").write_text("1 0 x 2\n")
    found = [read_files(tmp_path / q, tmp_path / r) for q in ("q.jsonl", "q.tsv") for r in ("beir.tsv", "trec")]
    assert all(each == found[0] for each in found)
    ([topic], unjudged) = found[0]
    assert (topic.text, topic.grades, unjudged) == ("a b", {"x": 2}, 1)


OLD = """<top>
<num> Number: 1
<title> a b

<desc> Description:
more
<narr> Narrative:
<b> more
</top>

<top>
<head> Track
<num> Number: 2
<dom> Domain: x
<title> Topic: c
</top>
"""
CLOSED = """<TOP>\r
<NUM>1</NUM>\r
<TITLE>a\r
b</TITLE>\r
</TOP>\r
<TOP><NUM>2</NUM><TITLE></TITLE><DESC>Description: c</DESC></TOP>"""
XML = """<?xml version="1.0"?>
<topics>
 <topic number="1" type="x">
  <query>a b</query>
  <question>q</question>
 </topic><topic number="2"><query>c</query></topic>
</topics>"""


@pytest.mark.parametrize("text", [OLD, CLOSED, XML])
@pytest.mark.parametrize("grade", ["2", "2.0", " 2", "2e0"])
def test_topics_of_trec_and_grades_with_a_point_are_read(tmp_path: Path, text: str, grade: str) -> None:
    (tmp_path / "topics.xml").write_text(text, newline="")
    (tmp_path / "qrels").write_text(f"1 0 x {grade}\n2 0 y 0\n2 0 z -1.0\n")
    topics, unjudged = read_files(tmp_path / "topics.xml", tmp_path / "qrels")
    assert [(topic.id, topic.text, topic.grades) for topic in topics] == [
        ("1", "a b", {"x": 2}),
        ("2", "c", {"y": 0, "z": -1}),
    ]
    assert unjudged == 0
    assert all(type(grade) is int for topic in topics for grade in topic.grades.values())


def test_a_sign_in_the_title_of_a_topic_is_text_and_a_topic_without_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 x 1\n")
    path = written(tmp_path, "<top>\n<num> 1\n<title> AT&amp;T with p<b and c>d or <i>so</i>\n</top>")
    ([topic], _) = read_files(path, tmp_path / "qrels")
    assert topic.text == "AT&T with p<b and c>d or <i>so</i>"
    with pytest.raises(UsageError, match="file: topic 2 has no number or no title"):
        read_files(written(tmp_path, path.read_text() + "<top>\n<num> 2\n</top>"), tmp_path / "qrels")


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("9 0 x 1\n", "query '9' is not in"),
        ("1 0 x 1\n1 0 x 0\n", "judged twice"),
        ("1 0 x\n", "is not `query 0 document grade`"),
        ("1 0 x y\n", "the grade of 'x' is 'y', not a whole number"),
        ("1 0 x 1.5\n", "file:1: the grade of 'x' is '1.5', not a whole number"),
        ("1 0 x 1_0\n", "file:1: the grade of 'x' is '1_0'"),
        ("1 0 x 9e999\n", "file:1: the grade of 'x' is '9e999'"),
        ("1 0 x 4000\n", "file:1: 4000 is not a grade"),
        ("query-id\tcorpus-id\tscore\n1\tx\n", "is not `query TAB document TAB grade`"),
        ("", "has no judgments"),
    ],
)
def test_judgments_that_are_none_are_refused_by_their_line(tmp_path: Path, qrels: str, message: str) -> None:
    (tmp_path / "q.tsv").write_text("1\ta\n")
    with pytest.raises(UsageError, match=message):
        read_files(tmp_path / "q.tsv", written(tmp_path, qrels))


@pytest.mark.parametrize(
    ("text", "message"),
    [("1 Q0 x 1 0.5\n", "is not `query Q0"), ("1 Q0 x 1 a t\n", "'a' is not a number"),
     ("1 Q0 x 1 1 t\n1 Q0 x 2 0 t\n", "listed twice"), ("", "is not a run")],
)  # fmt: skip
def test_a_run_that_is_none_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_run(written(tmp_path, text))


def test_a_split_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError) as caught:
        read_beir(collection("toollinkos"), "train")
    assert "test_with_dependencies" in caught.value.hint


# ------------------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize(("name", "delimiter"), [("g.csv", ","), ("g.csv", ";"), ("g.tsv", "\t")])
def test_a_gold_file_may_be_a_table(tmp_path: Path, name: str, delimiter: str) -> None:
    rows = [["query", "relevant", "id", "group"], ["lungs, in CT", "a;b", "q1", ""], ["x", '{"a": 2}', "", "g"]]
    rows += [["y", '["c"]', "q3", ""], []]
    with (tmp_path / name).open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    assert [(topic.id, topic.text, topic.grades, topic.group) for topic in read_gold(tmp_path / name)] == [
        ("q1", "lungs, in CT", {"a": 1, "b": 1}, None),
        ("3", "x", {"a": 2}, "g"),
        ("q3", "y", {"c": 1}, None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('query,relevant\n"a\nb",x\n,y\n', "g.csv:4 has no `query`"),
        ("query,relevant\na,x,y\n", "g.csv:2: it has 3 cells and the header has 2"),
        ("query,query\na,x\n", "g.csv:1: columns 1 and 2 are both called 'query'"),
        ("query,relevant\na,[x\n", "g.csv:2: '[x' is not JSON"),
        ('query,relevant\na,"x\n', "g.csv:2: a quotation mark is opened and never closed"),
        ("query,answer\na,x\n", "g.csv:2: unknown key `answer`"),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.csv").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_gold(tmp_path / "g.csv")
    assert message in caught.value.message
    assert caught.value.hint
