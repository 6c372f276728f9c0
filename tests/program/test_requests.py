"""What a question says besides its words: control tags, filters, ids, tenants, other texts, on flags and in lines."""

import dataclasses
import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from samples import ROOT, Done, Program, write_catalog

from retrieve_cli.records.columns import FILE as COLUMNS
from retrieve_cli.storage.manifest import Manifest

OWN = {"acme": {"lungs"}, "ACME": {"cells"}, "globex": {"brain", "stitch"}}
MODES = [*product(["hybrid"], ["weighted", "rrf"]), ("bm25", "weighted"), ("dense", "weighted")]


def ids(done: Done) -> list[str]:
    assert done.code == 0, done
    return [result["doc_id"] for result in done.json["results"]]


def scored(done: Done) -> dict[str, float]:
    assert done.code == 0, done
    return {result["doc_id"]: result["score"] for result in done.json["results"]}


# --------------------------------------------------------------------------------------------- control tags


@pytest.mark.parametrize(
    ("tag", "gone"),
    [
        ("[EXCLUDE:brain]", {"brain"}),
        ("[exclude: BRAINSTRIP ]", {"brain"}),
        ("[EXCLUDED:BrainStrip|align]", {"brain", "align"}),
        ("[EXCLUDE:brain][EXCLUDE:lungs]", {"brain", "lungs"}),
    ],
)
def test_what_a_tag_excludes_by_id_or_name_is_not_found(
    index: Path, retrieve: Program, tag: str, gone: set[str]
) -> None:
    done = retrieve("query", f"brain {tag} scans", "--json")
    assert set(ids(done)) == {"lungs", "cells", "brain", "stitch", "align"} - gone
    assert set(done.json["excluded"]) == gone


def test_only_what_a_tag_includes_is_found(index: Path, retrieve: Program) -> None:
    assert ids(retrieve("query", "brain [INCLUDE:cells|WarpAlign]", "--json")) == ["align", "cells"]


def test_a_tag_that_includes_nobody_finds_nothing_and_says_whom(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain [INCLUDE:nobody]", "--json")
    assert ids(done) == []
    assert done.json["notices"] == ["no record has the id or name 'nobody' of [INCLUDE:…]"]


def test_many_unknown_names_are_one_sentence(index: Path, retrieve: Program) -> None:
    names = "|".join(f"tool{number}" for number in range(5000))
    done = retrieve("query", f"brain [EXCLUDE:{names}]", "-l")
    assert "'tool2' (or any of 4997 more)" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_tag_of_a_format_is_put_behind_the_text(index: Path, retrieve: Program) -> None:
    found = retrieve("query", "segment [FORMAT:DICOM|CT] organs", "--json").json
    assert found["clean_query"] == "segment organs"
    assert found["enhanced_query"] == "segment organs format:DICOM format:CT"
    assert found["query"] == "segment [FORMAT:DICOM|CT] organs"


def test_a_tag_filters_as_the_flag_does(index: Path, retrieve: Program) -> None:
    tag = retrieve("query", "brain [FILTER:license=MIT|dims>=3]", "--json")
    flag = retrieve("query", "brain", "--filter", "license=MIT", "--filter", "dims>=3", "--json")
    assert ids(tag) == ids(flag) == ["lungs"]
    assert tag.json["filters"] == flag.json["filters"] == {"license": "license=MIT", "dims": "dims>=3"}


@pytest.mark.parametrize("tag", ["[EXCLUDE:brain", "[EXCLUD:brain]", "[EXCLUDE:]", "[FILTER: | ]"])
def test_a_tag_that_is_not_understood_is_said_and_excludes_nothing(index: Path, retrieve: Program, tag: str) -> None:
    done = retrieve("query", f"brain {tag}", "--json")
    assert "brain" in ids(done)
    (notice,) = done.json["notices"]
    assert tag in notice
    assert notice in retrieve("query", f"brain {tag}").err


def test_a_question_of_nothing_but_tags_is_refused_as_such(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "[EXCLUDE:brain]")
    assert (done.code, done.out) == (2, "")
    assert "empty besides its tags" in done.err


# -------------------------------------------------------------------------------------------------- filters


@pytest.mark.bits
@pytest.mark.parametrize(("mode", "method"), MODES)
@pytest.mark.parametrize("unit", [[], ["--chunks"]], ids=["records", "chunks"])
def test_a_filtered_answer_is_the_full_ranking_restricted(
    guides: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, mode: str, method: str, unit: list[str]
) -> None:
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", method)
    asked = ["query", "inspect claims", "--mode", mode, "--json", "-k", "1000", *unit]
    full = retrieve(*asked).json["results"]
    found = retrieve(*asked, "--filter", "path=storage/**", "--filter", "!path=**/snapshots.md").json["results"]
    left = [result for result in full if result["doc_id"] in ("storage/claims.md", "storage/volumes.md")]
    assert {result["id"] for result in found} == {result["id"] for result in left} != set()
    if method == "weighted":  # reciprocal ranks are those among the records that may be found
        assert [(each["id"], each["score"]) for each in found] == [(each["id"], each["score"]) for each in left]


def test_reciprocal_ranks_are_those_among_the_records_that_may_be_found(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")
    narrow = ["--filter", "!group=neuroimaging", "--json"]
    fused = retrieve("query", "brain images", *narrow).json["results"]
    legs = [ids(retrieve("query", "brain images", *narrow, "--mode", mode)) for mode in ("bm25", "dense")]
    wanted = {
        each["doc_id"]: sum(1 / (60 + leg.index(each["doc_id"]) + 1) for leg in legs if each["doc_id"] in leg)
        for each in fused
    }
    assert {each["doc_id"]: each["score"] for each in fused} == pytest.approx(wanted)


def test_each_leg_says_how_many_candidates_a_filter_left_it(index: Path, retrieve: Program) -> None:
    trace = retrieve("query", "brain", "--filter", "license=MIT", "--json").json["trace"]
    assert trace["filter"]["dense"] == {"candidates_before_filter": 5, "candidates_after_filter": 2}
    assert trace["filter"]["bm25"] == {"candidates_before_filter": 2, "candidates_after_filter": 1}


MORE = [
    ["--gate"],
    ["--also", "cells and tiles"],
    ["--engine", "naive"],
    ["--chunks"],
    ["--min-score", "-9"],
    ["--context", "1"],
]


@pytest.mark.parametrize("more", MORE, ids=" ".join)
def test_a_filter_holds_whatever_else_is_asked_for(index: Path, retrieve: Program, more: list[str]) -> None:
    assert set(ids(retrieve("query", "brain", "--filter", "license=MIT", "--json", *more))) == {"lungs", "brain"}


def test_a_filter_holds_in_a_gate_that_chooses_one_group(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_GATING__TOP_GROUPS", "1")
    done = retrieve("query", "brain", "--gate", "--filter", "!license=MIT", "--json")
    assert done.json["trace"]["gate"]["passes"] == 2
    assert set(ids(done)) == {"align", "cells", "stitch"}


def test_what_is_read_again_has_passed_the_filter(
    catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    assert retrieve("build", "--catalog", catalog).code == 0
    done = retrieve("query", "brain images", "--filter", "!license=MIT", "--json")
    assert done.json["reranked"]
    assert set(ids(done)) == {"align", "cells", "stitch"}
    assert all(result["rerank"]["rank_before"] <= 3 for result in done.json["results"])


def test_several_conditions_on_a_field_are_a_list_in_json(index: Path, retrieve: Program) -> None:
    done = retrieve(
        "query", "brain", "--filter", "license=MIT", "--filter", "license!=GPL", "--doc-id", "brain", "--json"
    )
    assert done.json["filters"] == {"license": ["license=MIT", "license!=GPL"], "id": "id=brain"}


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("licence=MIT", ["'licence'", "`license`"]),
        ("license=", ["empty value", "license=value"]),
        ("license", ["no operator"]),
        ("=MIT", ["names no field"]),
        ("dims>=x", ["needs a number", "dims>=3"]),
        ("license>=3", ["has no numbers"]),
        ('license="MIT', ["quotation marks"]),
        ("license=a\x01", ["control character"]),
        ("license=M\udcffT", ["not UTF-8"]),
    ],
)
def test_a_filter_that_is_none_is_an_error_that_quotes_it_and_never_dropped(
    index: Path, retrieve: Program, stdin: Callable[[str], None], condition: str, words: list[str]
) -> None:
    stdin(json.dumps({"query": "brain", "filters": [condition]}))
    ways = [(retrieve("query", "brain", "--filter", condition), 2), (retrieve("query", "-"), 8)]
    for done, code in ways:
        assert (done.code, done.out) == (code, "")
        assert all(word in done.err for word in words), done.err


def test_an_index_from_before_there_were_filters_says_how_to_get_them(index: Path, retrieve: Program) -> None:
    live = index / "generations" / (index / "current").read_text().strip()
    manifest = Manifest.read(live / "manifest.json")
    files = {name: entry for name, entry in manifest.files.items() if name != COLUMNS}
    old = dataclasses.replace(manifest, files=files)
    (live / COLUMNS).unlink()
    (live / "manifest.json").write_text(json.dumps(old.to_json()))
    live.rename(live.with_name(old.id))
    (index / "current").write_text(old.id + "\n")

    assert ids(retrieve("query", "brain", "--json", "-k", "1")) == ["brain"]
    for words in (["--filter", "license=MIT"], ["--tenant", "acme"], ["--gate"], ["[EXCLUDE:lungs]"]):
        done = retrieve("query", "brain", *words)
        assert done.code == 2
        assert "retrieve sync" in done.err


# ------------------------------------------------------------------------------------------------------ ids


def test_only_the_records_that_are_named_are_found_in_the_order_of_the_full_ranking(
    index: Path, retrieve: Program
) -> None:
    full = ids(retrieve("query", "brain", "--json"))
    found = ids(retrieve("query", "brain", "--json", "--doc-id", "cells", "--doc-id", "align", "--doc-id", "cells"))
    assert found == [name for name in full if name in ("cells", "align")]


def test_an_id_that_no_record_has_is_an_error_with_the_nearest(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--doc-id", "lung")
    assert done.code == 2
    assert "`lungs`" in done.err


@pytest.mark.parametrize(
    "condition",
    ["license=MIT", "license=mit", "license=https://spdx.org/licenses/MIT.html", "license=The MIT License",
     "license!=GPL-3.0", "modality=CT", "modality=computed tomography", "modality=ct-scan",
     "!modality=magnetic resonance",
     "modality=c*", 'license="https://opensource.org/licenses/MIT"'],
)  # fmt: skip
def test_a_licence_and_a_modality_are_found_in_any_spelling(tmp_path: Path, retrieve: Program, condition: str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "license": "http://www.opensource.org/licenses/mit-license.php", "imagingModality": "ct"},
        {"id": "b", "license": "https://www.gnu.org/licenses/gpl-3.0.html", "imagingModality": "MR"},
    ]
    catalog = write_catalog(tmp_path / "c.jsonl", [{**row, "name": "lungs"} for row in rows])
    assert retrieve("build", "--catalog", catalog).code == 0
    assert retrieve("query", "lungs", "--filter", condition, "--list").out.split() == ["a"]


def test_ten_thousand_ids_are_as_good_as_one(index: Path, retrieve: Program) -> None:
    assert ids(retrieve("query", "brain", "--json", *["--doc-id=cells"] * 10_000)) == ["cells"]


# -------------------------------------------------------------------------------------------------- tenants

WAYS: list[list[str]] = [
    *[["brain scans", "--mode", mode] for mode in ("hybrid", "bm25", "dense")],
    ["brain scans", "--engine", "naive"],
    ["brain scans", "--also", "cells in tiles", "--also", "lung lobes"],
    ["brain scans", "--gate"],
    ["brain scans", "--chunks", "--context", "3"],
    ["brain [INCLUDE:BrainStrip|LungMapper|CellFinder|align]"],
    ["brain [EXCLUDE:BrainStrip|LungMapper|CellFinder|TileJoin|align]"],
    ["brain [FILTER:tenant=globex,acme|license=*]"],
    ["brain", "--filter", "tenant=*"],
    ["brain", "--filter", "!tenant=acme"],
    ["brain", "-k", "100000"],
    ["zebra otter lynx badger quokka"],
]


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
@pytest.mark.parametrize("tenant", OWN)
def test_a_tenant_is_shown_no_record_of_another_nor_its_id(
    tenants: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, tenant: str, words: list[str]
) -> None:
    monkeypatch.setenv("RETRIEVE_GATING__TOP_GROUPS", "1")
    done = retrieve("query", *words, "--tenant", tenant, "--json")
    assert set(ids(done)) <= OWN[tenant]
    assert set(done.json["excluded"]) <= OWN[tenant]
    told = {key: value for key, value in done.json.items() if key not in ("query", "clean_query", "enhanced_query")}
    others = {"lungs", "cells", "brain", "stitch", "align"} - OWN[tenant]
    assert not {name for text in strings(told) for name in others if text in (name, f"{name}#0")}


def strings(value: Any) -> list[str]:
    """All strings in a JSON value, keys included."""
    if isinstance(value, dict):
        return [*value, *(text for part in value.values() for text in strings(part))]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [value] if isinstance(value, str) else []


def test_a_tenant_finds_all_of_its_own(tenants: Path, retrieve: Program) -> None:
    for tenant, own in OWN.items():
        assert set(ids(retrieve("query", "brain", "--tenant", tenant, "--json"))) == own


@pytest.mark.parametrize("tenant", ["Acme", "aCME", " acme", "acme ", "ac*", "acme,globex", '"acme"', "glob?x", "ß"])
def test_tenants_are_compared_letter_by_letter(tenants: Path, retrieve: Program, tenant: str) -> None:
    assert ids(retrieve("query", "brain", "--tenant", tenant, "--json")) == []


@pytest.mark.parametrize("name", ["brain", "lung", "align", "nobody"])
def test_an_id_that_is_not_the_tenants_is_refused_in_the_same_words_whoever_has_it(
    tenants: Path, retrieve: Program, name: str
) -> None:
    done = retrieve("query", "brain", "--tenant", "acme", "--doc-id", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"error: the tenant 'acme' has no record '{name}'",
        "hint: remove it from --doc-id",
    ]


def test_no_line_of_a_batch_speaks_for_another_tenant_than_the_command(
    tenants: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    lines: list[dict[str, Any]] = [{"tenant": name} for name in ("globex", "", "ACME", ["acme"])]
    lines += [
        {"Tenant": "globex"},
        {"tenant_id": "globex"},
        {"tenant": "acme", "tenant_id": "globex"},
        {"tenantid": "x"},
    ]
    for line in lines:
        stdin(json.dumps({"query": "brain"} | line))
        done = retrieve("query", "-", "--tenant", "acme", "--json")
        assert (done.code, list(done.json), done.json["error"]["code"]) == (8, ["query_id", "error"], 2)
    stdin('{"query": "brain", "tenant": null}\n{"query": "brain", "tenant": "acme"}\nbrain')
    answers = retrieve("query", "-", "--tenant", "acme", "--json").out.splitlines()
    assert [[each["doc_id"] for each in json.loads(answer)["results"]] for answer in answers] == [["lungs"]] * 3


@pytest.mark.parametrize("key", ["tenant", "tenant_id"])
def test_each_line_of_a_batch_may_name_its_tenant(
    tenants: Path, retrieve: Program, stdin: Callable[[str], None], key: str
) -> None:
    stdin("".join(json.dumps({"query": "brain", key: tenant}) + "\n" for tenant in OWN))
    answers = [json.loads(line) for line in retrieve("query", "-", "--json").out.splitlines()]
    assert [{each["doc_id"] for each in answer["results"]} for answer in answers] == list(OWN.values())


def test_where_a_tenant_is_required_no_question_goes_without(
    tenants: Path, retrieve: Program, stdin: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SEARCH__REQUIRE_TENANT", "true")
    stdin('{"query": "brain", "tenant": "acme"}\nbrain\n')
    for done in (retrieve("query", "brain"), retrieve("query", "brain [FILTER:tenant=acme]")):
        assert (done.code, done.out) == (2, "")
        assert "--tenant X" in done.err
    lined = retrieve("query", "-", "--json")
    first, second = map(json.loads, lined.out.splitlines())
    assert (lined.code, [each["doc_id"] for each in first["results"]]) == (8, ["lungs"])
    assert "--tenant X" in second["error"]["hint"]
    assert ids(retrieve("query", "brain", "--tenant", "acme", "--json")) == ["lungs"]


@pytest.mark.parametrize("tenant", ["", "  ", "ac\udcffme"])
def test_a_tenant_that_is_no_name_is_refused(tenants: Path, retrieve: Program, tenant: str) -> None:
    done = retrieve("query", "brain", "--tenant", tenant)
    assert (done.code, done.out) == (2, "")
    assert "tenant" in done.err


def test_an_index_without_tenants_is_searched_for_none(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--tenant", "acme")
    assert (done.code, done.out) == (2, "")
    assert "'tenant'" in done.err


# ---------------------------------------------------------------------------------------------- other texts


def test_other_texts_bring_what_the_first_does_not(index: Path, retrieve: Program) -> None:
    asked = ["query", "brain skull", "--mode", "bm25", "--json"]
    alone, both = retrieve(*asked), retrieve(*asked, "--also", "mosaic of tiles")
    assert "stitch" not in ids(alone)
    assert "stitch" in ids(both)
    best = next(result for result in both.json["results"] if result["doc_id"] == "stitch")
    assert best["source_scores"]["text 2"]["rank"] == 1
    assert [text["text"] for text in both.json["trace"]["texts"]] == ["brain skull", "mosaic of tiles"]


def test_the_most_texts_of_a_query_are_configured(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SEARCH__MAX_ALSO", "1")
    assert retrieve("query", "brain", "--also", "cells").code == 0
    done = retrieve("query", "brain", "--also", "cells", "--also", "lungs")
    assert done.code == 2
    assert "search.max_also" in done.err


def test_the_most_results_of_a_text_are_configured(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SEARCH__PER_TEXT", "1")
    done = retrieve("query", "brain skull", "--also", "mosaic of tiles", "--json")
    assert [text["given"] for text in done.json["trace"]["texts"]] == [1, 1]
    assert len(ids(done)) == 2


def test_the_same_text_again_changes_nothing(index: Path, retrieve: Program) -> None:
    again = retrieve("query", "brain", "--also", "brain", "--also", " brain ", "--json")
    assert scored(again) == scored(retrieve("query", "brain", "--json"))


def test_another_text_without_words_is_refused(index: Path, retrieve: Program) -> None:
    for text in ("", "  ", "[EXCLUDE:brain]"):
        done = retrieve("query", "brain", "--also", text)
        assert (done.code, done.out) == (2, "")


def test_a_tag_in_another_text_holds_for_the_question(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--also", "skull [EXCLUDE:align] [FORMAT:NIfTI]", "--json")
    assert "align" not in ids(done)
    assert done.json["excluded"] == ["align"]
    texts = [text["text"] for text in done.json["trace"]["texts"]]
    assert texts == ["brain format:NIfTI", "skull format:NIfTI"]


# --------------------------------------------------------------------------------------------------- batches


def test_lines_of_a_batch_have_filters_ids_and_other_texts_of_their_own(
    index: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    lines: list[dict[str, Any]] = [
        {"query": "brain"},
        {"query": "brain", "filters": ["license=BSD*"]},
        {"query": "brain", "doc_ids": ["lungs"]},
        {"query": "brain", "also": ["cells"], "id": None},
    ]
    stdin("".join(json.dumps(line) + "\n" for line in lines))
    answers = [json.loads(line) for line in retrieve("query", "-", "--json", "--filter", "license=*").out.splitlines()]
    found = [{each["doc_id"] for each in answer["results"]} for answer in answers]
    assert found == [{"lungs", "cells", "brain"}, {"cells"}, {"lungs"}, {"lungs", "cells", "brain"}]
    assert [answer["query_id"] for answer in answers] == ["1", "2", "3", "4"]
    assert len(answers[3]["trace"]["texts"]) == 2


@pytest.mark.parametrize(
    "line",
    [
        {"filters": {"license": {"nott": "MIT"}}},
        {"filters": {"license": []}},
        {"filters": {"license=MIT": "BSD"}},
        {"filters": {"license": None}},
        {"filters": [1]},
        {"filters": ""},
        {"doc_ids": ""},
        {"doc_ids": []},
        {"doc_ids": ["cells"]},
        {"also": "cells"},
        {"also": [""]},
        {"files": 5},
        {"filter": ["license=MIT"]},
        {"doc_id": "lungs"},
        {"tenantid": "acme"},
    ],
    ids=str,
)
def test_a_line_that_would_narrow_and_is_not_understood_is_an_error_and_no_answer(
    index: Path, retrieve: Program, stdin: Callable[[str], None], line: dict[str, Any]
) -> None:
    stdin("brain\n\n" + json.dumps({"query": "brain", "doc_ids": ["lungs"], "id": "third"} | line) + "\n")
    done = retrieve("query", "-", "--doc-id", "lungs", "--json")
    first, second = map(json.loads, done.out.splitlines())
    assert (done.code, [each["doc_id"] for each in first["results"]]) == (8, ["lungs"])
    assert (list(second), second["query_id"], second["error"]["code"]) == (["query_id", "error"], "third", 2)


def test_other_keys_of_a_line_are_its_own(index: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin('{"query": "brain", "relevant": ["x"], "title": 1, "metadata": {}, "group": "g", "fields": 2}')
    assert ids(retrieve("query", "-", "--json"))[0] == "brain"


def test_a_file_is_named_by_a_line_or_a_flag(
    index: Path, retrieve: Program, stdin: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "cells.csv").write_text("cell,area\n1,20\n2,31\n")
    stdin('{"query": "brain", "files": ["cells.csv"]}')
    lined = retrieve("query", "-", "--json").json
    flagged = retrieve("query", "brain", "--file", "cells.csv", "--json").json
    assert lined["enhanced_query"] == flagged["enhanced_query"] == "brain format:CSV"


@pytest.mark.parametrize("name", ["", "a\0b", "none.dcm", "tools.jsonl/x", "pipe"])
def test_a_file_that_cannot_be_read_is_an_error(
    name: str, index: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    os.mkfifo("pipe")
    stdin(json.dumps({"query": "brain", "files": [name]}))
    done = retrieve("query", "-", "--json")
    assert done.code == 8
    error = done.json["error"]
    assert (error["code"], error["kind"]) == (2, "usage")
    assert "file" in error["message"]


def test_a_misspelt_file_is_an_error_that_names_the_one_beside_it(index: Path, retrieve: Program) -> None:
    Path("scans").mkdir()
    Path("scans/chest_ct.nrrd").write_bytes(b"NRRD0004\ndimension: 3\n\n")
    done = retrieve("query", "brain", "--file", "scans/chest.nrrd")
    assert done.err == "error: there is no file 'scans/chest.nrrd'\nhint: did you mean 'scans/chest_ct.nrrd'?\n"
    assert "there is no folder 'scan'" in retrieve("query", "brain", "--file", "scan/chest_ct.nrrd").err


def test_what_was_read_from_a_file_is_said_unless_quiet_and_nothing_personal(index: Path, retrieve: Program) -> None:
    scan = ROOT / "catalogs" / "files" / "ct_chest.dcm"
    first, second = retrieve("query", "lungs", "--file", scan).err.splitlines()
    assert first == f"{scan}: DICOM, CT, 3D, chest"
    assert "likely a volume" in second
    assert retrieve("query", "lungs", "--file", scan, "-q").err == ""
