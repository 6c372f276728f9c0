"""Rules for words by language: a sync applies them to every record."""

import json
from pathlib import Path

import pytest
from samples import Program, write_catalog

RECORDS = [
    {"id": "zh", "name": "评估", "description": "召回率的评估。"},
    {"id": "en", "name": "Segmenter", "description": "Segments lungs"},
    {"id": "de", "name": "Lunge", "description": "Die Lungen und die Atmung in der Medizin", "lang": "de"},
]


@pytest.fixture
def first(tmp_path: Path, retrieve: Program) -> Path:
    """An index of texts in three languages."""
    catalog = write_catalog(tmp_path / "tools.jsonl", RECORDS)
    assert retrieve("build", "--catalog", catalog).code == 0
    return catalog


def found(retrieve: Program, query: str) -> list[str]:
    results = json.loads(retrieve("query", query, "--mode", "bm25", "--json").out)["results"]
    return [result["doc_id"] for result in results]


def test_a_rule_of_the_configuration_goes_before_metadata_and_text(first: Path, retrieve: Program) -> None:
    Path("config.yaml").write_text("bm25: {languages: {de: none, 'e*': de}}\n")
    assert retrieve("sync").code == 0
    assert sorted(found(retrieve, "Lungen")) == ["de", "en"]
    assert found(retrieve, "Lunge")[:1] == ["de"]  # its name
    assert found(retrieve, "Lung") == ["en"]
    Path("config.yaml").write_text("bm25: {languages: {de: klingon}}\n")
    refused = retrieve("sync")
    assert (refused.code, "unknown language 'klingon'" in refused.err) == (2, True)


def test_highlights_are_the_matched_words_of_the_original_text(first: Path, retrieve: Program) -> None:
    assert retrieve("sync").code == 0
    cases = {"召回率": ["召回率"], "率": ["率"], "Lunge": ["Lunge", "Lungen"], "ＬＵＮＧＳ": ["lungs"]}
    for query, words in cases.items():
        results = retrieve("query", query, "--mode", "bm25", "--json").json["results"]
        marked = {each["content"][start:end] for each in results for start, end in each["highlights"]}
        assert set(words) <= marked, (query, marked)
