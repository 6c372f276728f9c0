"""Synonyms that the configuration or a file gives, and abbreviations that records define."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from samples import Program

from retrieve_cli.errors import UsageError
from retrieve_cli.operations.abbreviations import definitions
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.search.rewording import Synonyms

RECORDS = [
    {"id": "scan", "name": "Scan", "description": "computed tomography of the chest"},
    {"id": "coil", "name": "Coil", "description": "magnetic resonance imaging of the knee"},
    {"id": "dig", "name": "Dig", "description": "digs holes for bulbs"},
]


def beside(*rules: str, text: str) -> list[str]:
    named = [(f"line {number}", rule) for number, rule in enumerate(rules, 1)]
    return [word for word, _ in Synonyms(named, TextAnalyzer(), 0.5).beside(text)]


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("ct, computed tomography", "CT of lungs", ["computed tomography"]),
        ("ct, computed tomography", "Computed Tomography of lungs", ["ct"]),
        ("mrt => mri, magnetic resonance imaging", "mrt scan", ["mri", "magnetic resonance imaging"]),
        ("lung, pulmonary, lungs", "lung", ["pulmonary"]),
    ],
)
def test_rules_add_words(rule: str, text: str, expected: list[str]) -> None:
    assert beside(rule, text=text) == expected


@pytest.mark.parametrize("rule", ["ct", "=> mri", "ct =>", ",", " , ,", "a => " + "b " * 13])
def test_a_bad_rule_is_an_error_that_names_it(rule: str) -> None:
    with pytest.raises(UsageError, match="line 1: "):
        beside(rule, text="")


@given(st.lists(st.tuples(st.text("abc ", min_size=1), st.text("abc ", min_size=1))), st.text("abc "))
def test_synonyms_are_those_of_a_naive_oracle(pairs: list[tuple[str, str]], text: str) -> None:
    words = TextAnalyzer(stemming="none", stop_words="none")
    rules = [(left.split(), right.strip()) for left, right in pairs if left.split() and right.split()]
    rules = [(left, right) for left, right in rules if max(len(left), len(right.split())) <= 12]
    synonyms = Synonyms([("", f"{' '.join(left)} => {right}") for left, right in rules], words, 0.5)
    expected: dict[str, None] = {}
    rest = text.split()
    while rest:
        fitting = [(left, right) for left, right in rules if rest[: len(left)] == left and " ".join(left) != right]
        size = max((len(left) for left, _ in fitting), default=1)
        expected |= {right: None for left, right in fitting if len(left) == size}
        rest = rest[size:]
    left_out = [right for right in expected if {*right.split()} <= {*text.split()}]
    found = synonyms.beside(text)
    assert {word for word, _ in found} == {*[word for word in expected if word not in left_out][:16]}


@pytest.fixture
def scans(catalog: Path, retrieve: Program) -> Path:
    catalog.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), "utf-8")
    assert retrieve("build", catalog).code == 0
    return catalog


def test_rules_and_a_file_change_answers_which_say_so(
    scans: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ids(*words: str) -> list[str]:
        found = retrieve("query", *words, "--mode", "bm25", "--json").json
        return [hit["doc_id"] for hit in found["results"]] + [f"+{word}" for word in found.get("synonyms", ())]

    assert ids("ct chest") == ["scan"]
    assert ids("mrt") == []
    Path("synonyms.txt").write_text(
        "# ours\nmrt => magnetic resonance imaging  # as doctors write\n\nct, computed tomography\n"
    )
    monkeypatch.setenv("RETRIEVE_SYNONYMS__FILE", "synonyms.txt")
    assert ids("mrt") == ["coil", "+magnetic resonance imaging"]
    assert ids("mrt", "--exact-words") == []
    Path("synonyms.txt").write_text("mrt => holes for bulbs\n")
    assert ids("mrt") == ["dig", "+holes for bulbs"]
    Path("synonyms.txt").write_text("fine, good\nmrt\n")
    assert "synonyms.txt, line 2: 'mrt' is not a rule" in retrieve("query", "mrt").err
    monkeypatch.setenv("RETRIEVE_SYNONYMS__FILE", "nowhere.txt")
    assert (failed := retrieve("query", "mrt")).code == 2
    assert "nowhere.txt" in failed.err
    monkeypatch.delenv("RETRIEVE_SYNONYMS__FILE")
    monkeypatch.setenv("RETRIEVE_SYNONYMS__RULES", '["ct => tomography"]')
    assert ids("ct") == ["scan", "+tomography"]


def test_synonyms_that_no_retriever_searches_for_are_not_claimed(
    scans: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SYNONYMS__RULES", '["knee => chest"]')
    assert retrieve("query", "knee", "--json").json["synonyms"] == ["chest"]
    for words in (("--mode", "dense"), ("--exact-words",)):
        found = retrieve("query", "knee", *words, "--json").json
        assert "synonyms" not in found
        assert not any("synonyms" in notice for notice in found.get("notices", []))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We use computed tomography (CT) daily.", [("CT", "computed tomography")]),
        ("the World Health Organization (WHO)", [("WHO", "World Health Organization")]),
        ("of Heat shock protein 70 (HSP70), and", [("HSP70", "Heat shock protein 70")]),
        ("single-cell RNA sequencing (scRNA-seq)", [("scRNA-seq", "single-cell RNA sequencing")]),
        ("a list (of things) and (see Fig. 2)", []),
        ("nothing fits here (XYZ)", []),
        ("the CT scanner (CT)", []),
        ("It ends. The Adaptive Model (TAM)", [("TAM", "The Adaptive Model")]),
        ("It ends with computed. Tomography (CT)", []),
    ],
)
def test_abbreviations_are_found_with_their_long_forms(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(definitions(text)) == expected


@given(st.text(st.sampled_from("aB (),.;:-1é\n"), max_size=300))
def test_any_text_is_read(text: str) -> None:
    for short, long in definitions(text):
        assert f"({short}" in text or f"( {short}" in text
        assert short[0].lower() == long[0].lower() or not short[0].isalnum()


def test_a_listing_is_a_file_of_synonyms(catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        "computed tomography (CT) of lungs",
        "Computed tomography (CT)",
        "cell tracking (CT)",
        "magnetic field (MF)",
    ]
    catalog.write_text(
        "".join(json.dumps({"id": f"r{n}", "name": "tool", "description": text}) + "\n" for n, text in enumerate(texts))
    )
    assert retrieve("build", catalog).code == 0
    found = retrieve("inspect", "synonyms", "--json").json
    assert [(each["short"], each["long"], each["records"]) for each in found["synonyms"]] == [
        ("CT", "computed tomography", 2),
        ("MF", "magnetic field", 1),
    ]
    Path("synonyms.txt").write_text(retrieve("inspect", "synonyms").out)
    monkeypatch.setenv("RETRIEVE_SYNONYMS__FILE", "synonyms.txt")
    assert retrieve("query", "MF", "--json").json["synonyms"] == ["magnetic field"]
