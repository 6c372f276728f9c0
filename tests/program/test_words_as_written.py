"""Words are found as people write them: names made of stop words, options of commands, misspelled or not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from samples import ROOT, Program

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


NAMES = {
    "version": "Kiosk v1.2.3 release notes.",
    "tool": "listApiKeysById: calls the service.",
    "shorter": "listApiKeys: calls the service.",
    "error": "HTTPServerError is raised by the gate.",
    "part": "Gasket AB-1234/5 for pumps.",
    "cytokine": "Levels of IL-6 in blood.",
    "radio": "A wi-fi antenna.",
    "filter": "Pores of 10 µm in a sheet.",
    "sieve": "A sieve of 20um.",
    "country": "Made in the U.S.A. by hand.",
    "art": "Œuvre of a painter in the Straße.",
    "other": "API pages list a key of 5 things, id and version 3.2.1 of a server.",
}


@pytest.mark.parametrize(
    ("record", "queries"),
    [
        ("version", ["1.2.3", "v1.2.3", "kiosk-v1.2.3"]),
        ("tool", ["list api keys by id", "list_api_keys_by_id", "listApiKeysById", "ListAPIKeysById"]),
        ("shorter", ["list api keys", "list_api_keys", "list-api-keys"]),
        ("error", ["http server error", "http_server_error", "HTTPServerError", "server error"]),
        ("part", ["AB1234/5", "AB-1234/5", "ab1234"]),
        ("cytokine", ["IL6", "IL-6", "il 6"]),
        ("radio", ["wifi", "wi-fi", "wi fi"]),
        ("filter", ["10um", "10 um", "10µm", "10 μm"]),
        ("sieve", ["20 µm", "20um"]),
        ("country", ["USA", "U.S.A.", "U.S.A"]),
        ("art", ["oeuvre", "strasse", "ŒUVRE"]),
    ],
)
def test_a_name_is_found_in_each_of_its_forms(
    tmp_path: Path, retrieve: Program, record: str, queries: list[str]
) -> None:
    rows = [{"id": key, "text": text} for key, text in {**RECORDS, **NAMES}.items()]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert retrieve("build", tmp_path / "c.jsonl").code == 0
    for query in queries:
        answer = retrieve("query", query, "--mode", "bm25", "--json").json
        assert answer["results"][0]["doc_id"] == record, query
        assert answer["results"][0]["highlights"], query
        assert "corrections" not in answer


def test_names_at_scale_are_first(tmp_path: Path, retrieve: Program, stdin) -> None:  # type: ignore[no-untyped-def]
    script = ROOT.parent / "shared" / "cases" / "identifiers-at-scale" / "make.py"
    if not script.exists():
        pytest.skip(f"there are no cases in {script.parent}")
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert retrieve("build", tmp_path / "recs.jsonl").code == 0
    for kind, queries in json.loads((tmp_path / "queries.json").read_text("utf-8")).items():
        stdin("".join(json.dumps({"id": right, "query": text}) + "\n" for text, right in queries.items()))
        answers = map(json.loads, retrieve("query", "-", "--mode", "bm25", "--json", "-k", "1").out.splitlines())
        first = sum(answer["results"][0]["doc_id"] == answer["query_id"] for answer in answers if answer["results"])
        assert first == len(queries), kind
