"""What is suggested in place of values and records that nobody has: by name too, and only what the request may see."""

from __future__ import annotations

from pathlib import Path

import pytest
from program.asking import indexed, refused
from samples import Program

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
        ("inspect", "record", "cellpose"),
        ("inspect", "chunk", "cellpose#0"),
        ("query", "tool", "--doc-id", "Cellpose"),
    ],
    ids=" ".join,
)
def test_an_unknown_record_is_suggested_by_its_name_and_never_taken_for_it(
    words: tuple[str, ...], numbered: Path, retrieve: Program
) -> None:
    assert "hint: did you mean `0` (Cellpose)?" in refused(retrieve, *words)


def test_unknown_names_of_a_tag_are_suggested_from_what_the_request_may_see(numbered: Path, retrieve: Program) -> None:
    (said,) = retrieve("query", "tool [EXCLUDE:celpose|qqqq]", "--json").json["notices"]
    assert said == "no record has the id or name 'celpose', 'qqqq' of [EXCLUDE:…]: did you mean `0` (Cellpose)?"
    (said,) = retrieve("query", "tool [EXCLUDE:celpose]", "--tenant", "acme", "--json").json["notices"]
    assert said == "no record has the id or name 'celpose' of [EXCLUDE:…]"


# ------------------------------------------------------------------------------------------ many records
