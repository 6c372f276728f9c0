"""What is suggested in place of values and records that nobody has: by name too, and only what the request may see."""

from __future__ import annotations

from pathlib import Path

import pytest
from program.asking import indexed, refused
from samples import Program

import retrieve_cli

NAMES = ("Cellpose", "StarDist", "3D Slicer", "ITK-SNAP", "lungmask")
LICENSES = ("Apache-2.0", "apache-2.0", "MIT", "MIT", "GPL-3.0")


@pytest.fixture
def numbered(retrieve: Program) -> Path:
    """The catalog of an index whose ids are numbers; the last record is a tenant's."""
    tools = [
        {"id": str(at), "name": name, "description": f"{name} is a tool", "license": LICENSES[at]}
        for at, name in enumerate(NAMES)
    ]
    tools[-1]["tenant"] = "acme"
    return indexed(retrieve, tools)


def notes(retrieve: Program, *arguments: object) -> list[str]:
    """The notices of the answer to a query."""
    found: list[str] = retrieve("query", "tool", "--json", *arguments).json.get("notices", [])
    return found


# ----------------------------------------------------------------------------------------------- filters


def test_a_filter_without_matches_lists_the_values_that_there_are(numbered: Path, retrieve: Program) -> None:
    said = "no record has license=apache: did you mean license=Apache-2.0? values of license: "
    listed = "Apache-2.0 (2), MIT (2), GPL-3.0 (1)"
    assert notes(retrieve, "--filter", "license=apache") == [said + listed]
    assert notes(retrieve, "--filter", "license=zzz") == [f"no record has license=zzz; values of license: {listed}"]
    assert f"note: {said}{listed}" in retrieve("query", "tool", "--filter", "license=apache").err
    assert notes(retrieve, "--filter", "license=MIT") == []


def test_only_what_the_request_may_see_is_counted_and_suggested(numbered: Path, retrieve: Program) -> None:
    acme = notes(retrieve, "--tenant", "acme", "--filter", "license=apache")
    assert acme == ["no record has license=apache; values of license: GPL-3.0 (1)"]
    (said,) = retrieve("query", "tool [EXCLUDE:0|1]", "--json", "--filter", "license=apache").json["notices"]
    assert said == "no record has license=apache; values of license: MIT (2), GPL-3.0 (1)"


def test_filters_that_do_not_go_together_say_how_many_pass_each(numbered: Path, retrieve: Program) -> None:
    both = ("--filter", "license=MIT", "--filter", "name=Cellpose")
    assert notes(retrieve, *both) == ["no record passes all of license=MIT (2), name=Cellpose (1)"]


def test_an_unknown_tenant_is_said_and_none_is_suggested(numbered: Path, retrieve: Program) -> None:
    assert notes(retrieve, "--tenant", "acm") == ["no record belongs to the tenant 'acm'"]


# ----------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "record", "cellpos"),
        ("inspect", "chunk", "cellpos#0"),
        ("query", "tool", "--doc-id", "Celpose"),
    ],
    ids=" ".join,
)
def test_an_unknown_record_is_suggested_by_its_name(words: tuple[str, ...], numbered: Path, retrieve: Program) -> None:
    assert "hint: did you mean `0` (Cellpose)?" in refused(retrieve, *words)


@pytest.mark.usefixtures("numbered")
def test_a_unique_name_is_accepted_wherever_an_id_is(retrieve: Program) -> None:
    def shown(*words: object) -> str:
        done = retrieve(*words)
        assert done.code == 0, done
        return done.out

    for by_name, by_id in (("cellpose", "0"), ("3d slicer", "2")):
        for words in (
            ("inspect", "record"), ("inspect", "why", "tool"), ("query", "tool", "-l", "--doc-id"),
            ("query", "-l", "--like"), ("query", "tool", "-l", "--not-like"), ("inspect", "graph"),
        ):  # fmt: skip
            assert shown(*words, by_name) == shown(*words, by_id), words
        assert shown("inspect", "chunk", f"{by_name}#0") == shown("inspect", "chunk", f"{by_id}#0")
        with retrieve_cli.open() as index:
            assert index.record(by_name) == index.record(by_id)
            assert [hit.doc_id for hit in index.search("tool", doc_ids=[by_name])] == [by_id]


def test_a_name_of_several_records_is_no_id_but_for_a_tenant_that_has_one_of_them(retrieve: Program) -> None:
    tools = [{"id": key, "name": "gzip", "description": f"tool {key}", "tenant": key} for key in ("a", "b")]
    indexed(retrieve, [*tools, {"id": "gunzip", "name": "a", "description": "tool"}])
    assert "there is no record 'gzip'" in refused(retrieve, "inspect", "record", "gzip")
    assert retrieve("query", "tool", "-l", "--tenant", "b", "--doc-id", "gzip").out == "b\n"
    assert retrieve("inspect", "record", "a", "--json").json["id"] == "a", "an id comes before a name"


def test_a_record_that_was_added_is_replaced_and_deleted_by_its_name(tmp_path: Path) -> None:
    index = retrieve_cli.build([{"id": "1", "name": "gzip", "description": "tool"}], artifacts=tmp_path / "art")
    index.add([{"id": "2", "name": "tar", "description": "tool"}])
    index.sync()
    index.delete("gzip")
    index.sync()
    assert [record["id"] for record in index.records()] == ["2"]


def test_unknown_names_of_a_tag_are_suggested_from_what_the_request_may_see(numbered: Path, retrieve: Program) -> None:
    (said,) = retrieve("query", "tool [EXCLUDE:celpose|qqqq]", "--json").json["notices"]
    assert said == "no record has the id or name 'celpose', 'qqqq' of [EXCLUDE:…]: did you mean `0` (Cellpose)?"
    (said,) = retrieve("query", "tool [EXCLUDE:celpose]", "--tenant", "acme", "--json").json["notices"]
    assert said == "no record has the id or name 'celpose' of [EXCLUDE:…]"
