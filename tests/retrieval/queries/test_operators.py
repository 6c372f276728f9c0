"""Phrases, NOT and fields in the text of a query: what is read as an operator, and what stays text."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from samples import ROOT, Program

from retrieve_cli.retrieval.queries.operators import Operators, read_operators

DATA = ROOT.parent / "shared" / "data"
VALUES = {("license", "MIT"), ("group", "radiology"), ("format", "DICOM")}


def read(text: str) -> Operators:
    return read_operators(text, is_value=lambda *pair: pair in VALUES, is_text=lambda word: word == "-rf")


@pytest.mark.parametrize(
    ("text", "left", "phrases", "without", "filters"),
    [
        ('"light sheet" microscope', "light sheet microscope", ("light sheet",), (), ()),
        ("“light sheet”, please", "light sheet, please", ("light sheet",), (), ()),
        ("„light sheet“ microscope", "light sheet microscope", ("light sheet",), (), ()),
        ("lung NOT nnU-Net", "lung", (), ("nnU-Net",), ()),
        ('lung NOT "deep learning"', "lung", (), ('"deep learning"',), ()),
        ("lung -heart", "lung", (), ("heart",), ()),
        ("lung -heart tool", "lung tool", (), ("heart",), ()),
        (
            "tools that segment lungs in a ct -heart -brain",
            "tools that segment lungs in a ct",
            (),
            ("heart", "brain"),
            (),
        ),
        ('lung -"chest ct" tools', "lung tools", (), ('"chest ct"',), ()),
        ("फेफड़े -हिन्दी", "फेफड़े", (), ("हिन्दी",), ()),
        ("license:MIT lung", "lung", (), (), ("license=MIT",)),
        ("group:radiology", "", (), (), ("group=radiology",)),
    ],
)
def test_operators_are_read(text: str, left: str, phrases: tuple, without: tuple, filters: tuple) -> None:
    assert read(text) == Operators(left, phrases, without, filters)


@pytest.mark.parametrize(
    "text",
    [
        "C++ -O2", "gcc --verbose", "state-of-the-art", "it does NOT work", "is NOT a number", "NOT found",
        "FILE NOT FOUND", 'a 5" disk', 'the "', '"" empty', "- dash", "a - b", "-lung", 'say "!?" twice',
        "pre- and post",
        "note: read this", "license:unknown lung", "format:DICOM viewer", "http://x.org/a", "12:30 meeting",
        "ratio 3:1",
        "-5 degrees", "e-mail", "x -y2z", "NOT", "why NOT the dog", "a=b", "C:\\dir", "std::vector", "", " ", "–dash",
        "analysis of -omics data", "jet interference with supersonic flow -dash experimental papers",
        'the "hard" mode of a game with many levels',
        'call {"name": "createEvent", "on": "Monday"} for me and for all others',
    ],
)  # fmt: skip
def test_natural_text_stays_text(text: str) -> None:
    assert read(text) == Operators(text)


def test_natural_text_of_real_queries_stays_text() -> None:
    """All but short ones with a name between quotation marks, which is what operators are for."""
    files = sorted(DATA.glob("*/queries.jsonl"))
    if not files:
        pytest.skip(f"there are no collections in {DATA}")
    texts = [json.loads(line)["text"] for file in files for line in file.read_text("utf-8").splitlines()]
    found = [(text, left) for text in texts if (left := read(text)) != Operators(text)]
    assert [text for text, left in found if not left.phrases or left.without or left.filters] == []
    assert len(found) <= len(texts) / 200


@given(st.text(st.sampled_from(string.ascii_lowercase[:4] + ' -":N"OT'), max_size=60))
def test_no_word_is_lost(text: str) -> None:
    found = read(text)
    kept = " ".join((found.text, *found.without, *found.filters))
    assert sorted(c for c in kept if c.islower()) == sorted(c for c in text if c.islower())


def test_results_are_those_of_a_naive_reading(tmp_path: Path, retrieve: Program) -> None:
    texts = [["lung", "mask", "ct"], ["mask", "lung"], ["lung", "ct", "mask"], ["deep-net", "lung"], ["deep", "net"],
             ["net", "deep", "größe"], ["lungs"], ["ct"], ["提高召回率的方法"], ["パパと"], ["ババと"]]  # fmt: skip
    lines = [json.dumps({"id": f"r{n}", "name": " ".join(words)}) + "\n" for n, words in enumerate(texts)]
    catalog = tmp_path / "c.jsonl"
    catalog.write_text("".join(lines), "utf-8")
    assert retrieve("build", catalog).code == 0

    def ids(query: str) -> set[str]:
        done = retrieve("query", query, "--no-rerank", "-k", "20", "-l")
        assert done.code == 0
        return set(done.out.split())

    everything = {f"r{n}" for n in range(len(texts))}
    assert ids('"lung mask"') == {"r0"}
    assert ids('"mask lung"') == {"r1"}
    assert ids('"deep net"') == {"r3", "r4"}  # punctuation does not count
    assert ids('"lungs" ct') == {"r6"}  # as it is, in no other inflection
    assert ids('"召回率"') == {"r8"}  # in scripts without blanks, anywhere
    assert ids('"パパ"') == {"r9"}  # with marks that make another letter
    assert ids('"GRÖSSE"') == {"r5"}
    assert ids("mask -lung") == everything - {"r0", "r1", "r2", "r3", "r6"}  # in any inflection
    assert ids("mask NOT deep-net") == everything - {"r3"}  # as a whole
    assert ids('mask -"deep net"') == everything - {"r3", "r4"}
    assert ids("mask -größe") == everything - {"r5"}
    done = retrieve("query", "mask -lung", "--json").json
    assert (done["without"], done["clean_query"]) == (["lung"], "mask")
    assert "next to each other" in retrieve("query", '"mask net"').err


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 400))
def test_hostile_text_takes_linear_time(size: int) -> None:
    for piece in ('"', '-"', "NOT ", "a:", '"a', "-a ", "a\u0301"):
        read(piece * (size * 50))
