"""What a question says besides its words: control tags, filters, ids, tenants, other texts, on flags and in lines."""

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from program.asking import Batch, Configure, answered, indexed, refused
from samples import Done, Program

OWN = {"acme": {"lungs"}, "ACME": {"cells"}, "globex": {"brain", "stitch"}}
MODES = [*product(["hybrid"], ["weighted", "rrf"]), ("bm25", "weighted"), ("dense", "weighted")]


def ids(done: Done) -> list[str]:
    assert done.code == 0, done
    return names(done.json)


def names(answer: dict[str, Any]) -> list[str]:
    """The ids of the records of an answer."""
    return [result["doc_id"] for result in answer["results"]]


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


def test_only_what_a_tag_includes_is_found_and_an_unknown_name_is_said(index: Path, retrieve: Program) -> None:
    assert ids(retrieve("query", "brain [INCLUDE:cells|WarpAlign]", "--json")) == ["align", "cells"]
    nobody = answered(retrieve, "brain [INCLUDE:nobody]")
    assert names(nobody) == []
    assert nobody["notices"] == ["no record has the id or name 'nobody' of [INCLUDE:…]"]


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
    assert "has only tags and no text" in refused(retrieve, "query", "[EXCLUDE:brain]")


# -------------------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize(("mode", "method"), MODES)
@pytest.mark.parametrize("unit", [[], ["--chunks"]], ids=["records", "chunks"])
def test_a_filtered_answer_is_the_full_ranking_restricted(
    guides: Path, retrieve: Program, configure: Configure, mode: str, method: str, unit: list[str]
) -> None:
    configure("fusion", method=method)
    asked = ["query", "inspect claims", "--mode", mode, "--json", "-k", "1000", *unit]
    full = retrieve(*asked).json["results"]
    found = retrieve(*asked, "--filter", "path=storage/**", "--filter", "!path=**/snapshots.md").json["results"]
    left = [result for result in full if result["doc_id"] in ("storage/claims.md", "storage/volumes.md")]
    assert {result["id"] for result in found} == {result["id"] for result in left} != set()
    if method == "weighted":  # reciprocal ranks are those among the records that may be found
        assert [(each["id"], each["score"]) for each in found] == [(each["id"], each["score"]) for each in left]


def test_reciprocal_ranks_are_those_among_the_records_that_may_be_found(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("fusion", method="rrf")
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
    ["--route"],
    ["--also", "cells and tiles"],
    ["--chunks"],
    ["--min-score", "-9"],
    ["--context", "1"],
]


@pytest.mark.parametrize("more", MORE, ids=" ".join)
def test_a_filter_holds_whatever_else_is_asked_for(index: Path, retrieve: Program, more: list[str]) -> None:
    assert set(ids(retrieve("query", "brain", "--filter", "license=MIT", "--json", *more))) == {"lungs", "brain"}


def test_a_filter_holds_in_a_gate_that_chooses_one_group(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("gating", top_groups=1)
    done = retrieve("query", "brain", "--route", "--filter", "!license=MIT", "--json")
    assert done.json["trace"]["gate"]["passes"] == 2
    assert set(ids(done)) == {"align", "cells", "stitch"}


def test_several_conditions_on_a_field_are_a_list_in_json(index: Path, retrieve: Program) -> None:
    both = ("--filter", "license=MIT", "--filter", "license!=GPL")
    filters = answered(retrieve, "brain", *both, "--doc-id", "brain")["filters"]
    assert filters == {"license": ["license=MIT", "license!=GPL"], "id": "id=brain"}


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
    for way, code in ((("brain", "--filter", condition), 2), (("-",), 8)):
        err = refused(retrieve, "query", *way, code=code)
        assert all(word in err for word in words), err


# ------------------------------------------------------------------------------------------------------ ids


def test_only_the_records_that_are_named_are_found_in_the_order_of_the_full_ranking(
    index: Path, retrieve: Program
) -> None:
    full = ids(retrieve("query", "brain", "--json"))
    found = ids(retrieve("query", "brain", "--json", "--doc-id", "cells", "--doc-id", "align", "--doc-id", "cells"))
    assert found == [name for name in full if name in ("cells", "align")]
    assert ids(retrieve("query", "brain", "--json", *["--doc-id=cells"] * 10_000)) == ["cells"]


def test_an_id_that_no_record_has_is_an_error_with_the_nearest(index: Path, retrieve: Program) -> None:
    assert "`lungs`" in refused(retrieve, "query", "brain", "--doc-id", "lung")


def test_an_id_in_a_line_that_no_record_has_finds_nothing_and_is_named(index: Path, batch: Batch) -> None:
    answers = batch([{"query": "brain", "doc_ids": chosen} for chosen in (["lung", "lungs"], ["lung"], [])])
    assert [names(answer) for answer in answers] == [["lungs"], [], []]
    unknown = "no record has the id 'lung', which the request selects: did you mean `lungs` (LungMapper)?"
    assert [answer["notices"][0] for answer in answers] == [unknown] * 2 + [
        "the request selects no record: its list of ids is empty"
    ]


@pytest.mark.parametrize(
    "condition",
    ["license=mit", "license=https://spdx.org/licenses/MIT.html", "license!=GPL-3.0", "modality=computed tomography"],
)
def test_a_licence_and_a_modality_are_found_in_any_spelling(retrieve: Program, condition: str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "license": "http://www.opensource.org/licenses/mit-license.php", "imagingModality": "ct"},
        {"id": "b", "license": "https://www.gnu.org/licenses/gpl-3.0.html", "imagingModality": "MR"},
    ]
    indexed(retrieve, [{**row, "name": "lungs"} for row in rows])
    assert retrieve("query", "lungs", "--filter", condition, "--list").out.split() == ["a"]


# -------------------------------------------------------------------------------------------------- tenants


def test_a_tenant_finds_all_of_its_own_compared_letter_by_letter(tenants: Path, retrieve: Program) -> None:
    others = ["Acme", "aCME", " acme", "acme ", "ac*", "acme,globex", '"acme"', "glob?x", "ß"]
    for tenant in (*OWN, *others):
        assert set(ids(retrieve("query", "brain", "--tenant", tenant, "--json"))) == OWN.get(tenant, set()), tenant


def test_no_line_of_a_batch_speaks_for_another_tenant_than_the_command(tenants: Path, batch: Batch) -> None:
    lines: list[dict[str, Any]] = [{"tenant": name} for name in ("globex", "", "ACME", ["acme"])]
    lines += [{"Tenant": "globex"}, {"tenant_id": "globex"}, {"tenantid": "x"}]
    for line in [*lines, {"tenant": "acme", "tenant_id": "globex"}]:
        (answer,) = batch([{"query": "brain"} | line], "--tenant", "acme", code=8)
        assert (list(answer), answer["error"]["code"]) == (["query_id", "error"], 2)
    own = [{"query": "brain", "tenant": None}, {"query": "brain", "tenant": "acme"}, "brain"]
    answers = batch(own, "--tenant", "acme")
    assert list(map(names, answers)) == [["lungs"]] * 3


@pytest.mark.parametrize("key", ["tenant", "tenant_id"])
def test_each_line_of_a_batch_may_name_its_tenant(tenants: Path, batch: Batch, key: str) -> None:
    answers = batch({"query": "brain", key: tenant} for tenant in OWN)
    assert [set(names(answer)) for answer in answers] == list(OWN.values())


def test_where_a_tenant_is_required_no_question_goes_without(
    tenants: Path, retrieve: Program, batch: Batch, configure: Configure
) -> None:
    configure("search", require_tenant="true")
    for text in ("brain", "brain [FILTER:tenant=acme]"):
        assert "--tenant X" in refused(retrieve, "query", text)
    first, second = batch([{"query": "brain", "tenant": "acme"}, "brain"], code=8)
    assert names(first) == ["lungs"]
    assert "--tenant X" in second["error"]["hint"]
    assert ids(retrieve("query", "brain", "--tenant", "acme", "--json")) == ["lungs"]


@pytest.mark.parametrize("tenant", ["", "  ", "ac\udcffme"])
def test_a_tenant_that_is_no_name_is_refused(tenants: Path, retrieve: Program, tenant: str) -> None:
    assert "tenant" in refused(retrieve, "query", "brain", "--tenant", tenant)


def test_an_index_without_tenants_is_searched_for_none(index: Path, retrieve: Program) -> None:
    assert "'tenant'" in refused(retrieve, "query", "brain", "--tenant", "acme")


# ---------------------------------------------------------------------------------------------- other texts


def test_other_texts_bring_what_the_first_does_not(index: Path, retrieve: Program) -> None:
    asked = ["query", "brain skull", "--mode", "bm25", "--json"]
    alone, both = retrieve(*asked), retrieve(*asked, "--also", "mosaic of tiles")
    assert "stitch" not in ids(alone)
    assert "stitch" in ids(both)
    best = next(result for result in both.json["results"] if result["doc_id"] == "stitch")
    assert best["source_scores"]["text 2"]["rank"] == 1
    assert [text["text"] for text in both.json["trace"]["texts"]] == ["brain skull", "mosaic of tiles"]


def test_the_most_texts_are_configured(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", max_also=1)
    assert "search.max_also" in refused(retrieve, "query", "brain", "--also", "cells", "--also", "lungs")


def test_a_tag_in_another_text_holds_for_the_question(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--also", "skull [EXCLUDE:align] [FORMAT:NIfTI]", "--json")
    assert "align" not in ids(done)
    assert done.json["excluded"] == ["align"]
    texts = [text["text"] for text in done.json["trace"]["texts"]]
    assert texts == ["brain format:NIfTI", "skull format:NIfTI"]


# --------------------------------------------------------------------------------------------------- batches


def test_lines_of_a_batch_have_filters_ids_and_other_texts_of_their_own(index: Path, batch: Batch) -> None:
    lines: list[dict[str, Any]] = [
        {"query": "brain"},
        {"query": "brain", "filters": ["license=BSD*"]},
        {"query": "brain", "doc_ids": ["lungs"]},
        {"query": "brain", "also": ["cells"], "id": None},
    ]
    answers = batch(lines, "--filter", "license=*")
    assert [set(names(answer)) for answer in answers] == [
        {"lungs", "cells", "brain"},
        {"cells"},
        {"lungs"},
        {"lungs", "cells", "brain"},
    ]
    assert [answer["query_id"] for answer in answers] == ["1", "2", "3", "4"]
    assert len(answers[3]["trace"]["texts"]) == 2


@pytest.mark.parametrize(
    "line",
    [
        {"filters": {"license": {"nott": "MIT"}}},
        {"filters": [1]},
        {"doc_ids": ["cells"]},
        {"also": "cells"},
        {"files": 5},
        {"tenantid": "acme"},
    ],
    ids=str,
)
def test_a_line_that_would_narrow_and_is_not_understood_is_an_error_and_no_answer(
    index: Path, batch: Batch, line: dict[str, Any]
) -> None:
    third = {"query": "brain", "doc_ids": ["lungs"], "id": "third"} | line
    first, second = batch(["brain", "", third], "--doc-id", "lungs", code=8)
    assert names(first) == ["lungs"]
    assert (list(second), second["query_id"], second["error"]["code"]) == (["query_id", "error"], "third", 2)


def test_a_file_is_named_by_a_line_or_a_flag(index: Path, retrieve: Program, batch: Batch) -> None:
    Path("cells.csv").write_text("cell,area\n1,20\n2,31\n")
    (lined,) = batch([{"query": "brain", "files": ["cells.csv"]}])
    flagged = answered(retrieve, "brain", "--file", "cells.csv")
    assert lined["enhanced_query"] == flagged["enhanced_query"] == "brain format:CSV"


@pytest.mark.parametrize("name", ["", "a\0b", "none.dcm", "tools.jsonl/x", "pipe"])
def test_a_file_that_cannot_be_read_is_an_error(name: str, index: Path, batch: Batch) -> None:
    os.mkfifo("pipe")
    (answer,) = batch([{"query": "brain", "files": [name]}], code=8)
    error = answer["error"]
    assert (error["code"], error["kind"]) == (2, "usage")
    assert "file" in error["message"]


# ---------------------------------------------------------------------------------------------------- scores


def test_a_lowest_score_does_not_apply_to_query_variants_whose_scores_have_another_scale(
    index: Path, retrieve: Program, batch: Batch, configure: Configure
) -> None:
    reason = "min_score 1 does not apply to query variants: their scores are reciprocal ranks"
    said = refused(retrieve, "query", "brain", "--also", "scans", "--min-score", "1")
    assert reason in said
    assert "hint: remove min_score, or the variants (--also)" in said
    assert retrieve("query", "brain", "--min-score", "-9").code == 0
    lines: list[str | dict[str, Any]] = [{"query": "brain"}, {"query": "brain", "also": ["scans"]}]
    plain, merged = batch(lines, "--min-score", "1", code=8)
    assert plain["results"]
    assert merged["error"]["message"] == reason
    configure("search", min_score="1")
    assert reason in refused(retrieve, "query", "brain", "--also", "scans")
