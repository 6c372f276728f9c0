"""Words are found as people write them: names made of stop words, options of commands, misspelled or not."""

import json
from pathlib import Path

import pytest
from samples import Program

RECORDS = {
    "att": "Line fault procedure for AT&T circuits.",
    "who": "Salt memo: WHO guidance applies.",
    "it": "Tickets for IT are answered within a day.",
    "band": "Concert of The Who in the park.",
    "album": "Soul Mining, by The The, is the album.",
    "ete": "L'été est une saison de l'année; les jours sont longs et il fait chaud dans le sud.",
    "zug": "Züge nach Passau und nach Linz sind pünktlich, und nicht alle Züge fahren.",
    "noch": "Busse fahren noch, wenn der Zug nicht mehr kommt, und sie sind günstig.",
    "memo": "It is a memo on who is at the gate, and what was said of it.",
    "bright": "White matter hyperintensity in pictures of the brain.",
    "tar": "Extract an archive: tar -xzf archive.tar",
    "pit": "A tar pit. The letters xzf mean nothing.",
    "find": "List files with `find . -name`, or more.",
    "name": "The name of a file.",
    "sheet": "Light sheet microscopy of the heart.",
}
OTHERS = {"x-nach": "Ein Weg nach Hause, und nicht mehr als der Weg, der noch da ist."}


@pytest.fixture
def ask(tmp_path: Path, retrieve: Program):  # type: ignore[no-untyped-def]
    rows = [
        {"id": key, "text": text, "tenant": "a" if key in RECORDS else "x", "license": "MIT" if key == "tar" else "BSD"}
        for key, text in {**RECORDS, **OTHERS}.items()
    ]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert retrieve("build", tmp_path / "c.jsonl").code == 0
    return lambda text: retrieve("query", "--mode", "bm25", "--json", "--tenant", "a", "--", text).json


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("AT&T", "att"), ("WHO", "who"), ("IT", "it"), ("The The", "album"), ("The Who", "band"), ("été", "ete"),
        ('"The Who"', "band"), ("who is", "memo"), ("WHO guidance", "who"), ("nach", "zug"), ("find -name", "find"),
        ("tar -xzf", "tar"), ("Züge nach Passau", "zug"), ("who is it", "memo"),
    ],
)  # fmt: skip
def test_stop_words_capitals_and_options_are_searched_as_written(ask, query: str, first: str) -> None:  # type: ignore[no-untyped-def]
    answer = ask(query)
    assert answer["results"][0]["doc_id"] == first
    assert answer["results"][0]["highlights"]
    assert "corrections" not in answer
    assert answer["strategies_skipped"] == {}


def test_a_word_that_is_like_another_only_by_its_stem_is_not_that_word(ask) -> None:  # type: ignore[no-untyped-def]
    assert "corrections" not in ask("hypertension")
    assert ask("hyperintensiyt")["corrections"][0]["searched"] == ["hyperintensity"]


def test_fields_and_words_are_excluded_and_an_empty_rest_is_explained(ask) -> None:  # type: ignore[no-untyped-def]
    for query in ("archive tar -license:MIT", "archive tar NOT license:MIT"):
        assert [hit["doc_id"] for hit in ask(query)["results"]] == ["pit"]
    assert [hit["doc_id"] for hit in ask("tar -pit")["results"]] == ["tar"]
    assert [hit["doc_id"] for hit in ask("tar NOT xzf")["results"]] == []
    empty = ask('"light sheet" -heart')
    assert empty["results"] == []
    assert any('"light sheet" are excluded' in notice for notice in empty["notices"])
