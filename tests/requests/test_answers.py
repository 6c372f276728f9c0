"""Pages, facets and reasons of answers, and one request in every form: flags, a line of a batch, Python."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asked_samples import QUERIES, flags, generated
from golden.corpora import TOOLS
from samples import Program, write_catalog
from servers import built

import retrieve_cli
from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.index import Index
from retrieve_cli.output.formats import answer_bytes

Stdin = Callable[[str | bytes], None]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts folder of an index of tools of several groups and owners, some of them in several chunks."""
    return built(tmp_path_factory.mktemp("tools"), TOOLS, RETRIEVE_CHUNKING__SIZE="40")


@pytest.fixture
def opened(tools: Path) -> Iterator[Index]:
    with retrieve_cli.open(tools) as index:
        yield index


def found(index: Index, text: str = QUERIES[0], **choices: Any) -> dict[str, Any]:
    return index.search(text, **choices).to_json()


# ------------------------------------------------------------------------------------------- one request


def as_printed(value: Any) -> str:
    value.pop("timings_ms", None)
    return json.dumps(value)


def test_a_request_gives_the_same_bytes_as_flags_as_a_line_and_in_python(
    tools: Path, opened: Index, retrieve: Program, stdin: Stdin
) -> None:
    requests = generated(30)
    stdin("".join(json.dumps(request) + "\n" for request in requests))
    lines = retrieve("query", "-", "--json", "--artifacts", tools).out.splitlines()
    answered = 0
    for number, (request, line) in enumerate(zip(requests, lines, strict=True), 1):
        of_line = json.loads(line)
        assert of_line["query_id"] == str(number)
        single = retrieve("query", "--json", "--no-timing", "--artifacts", tools, *flags(request))
        if single.code:
            error = of_line["error"] | {"message": of_line["error"]["message"].replace(f"'{number}'", "'1'")}
            assert error == json.loads(single.err.splitlines()[-1])["error"], request
            continue
        answered += 1
        of_line["query_id"] = "1"
        assert as_printed(of_line) == as_printed(single.json), request
        asked = read_asked(request)
        (answer,) = opened.answer([asked.request], opened.options(**asked.choices))
        assert answer_bytes(answer).decode() == single.out, request
    assert answered > 20


def test_lines_of_equal_choices_are_one_batch(tools: Path, retrieve: Program, stdin: Stdin) -> None:
    lines = [{"query": text, "k": k} for k in (1, 2) for text in QUERIES[:3]]
    random.Random(3).shuffle(lines)
    stdin("".join(json.dumps(line) + "\n" for line in lines))
    answers = [json.loads(line) for line in retrieve("query", "-", "--json", "--artifacts", tools).out.splitlines()]
    given = [(line["query"], line["k"]) for line in lines]
    assert [(answer["query"], len(answer["results"])) for answer in answers] == given
    assert len({json.dumps(answer["timings_ms"]) for answer in answers}) == 2


def test_a_line_wins_over_a_flag_where_it_does_not_widen(tools: Path, retrieve: Program, stdin: Stdin) -> None:
    stdin('{"query": "brain", "limit": 2}\n{"query": "brain"}\nbrain\n')
    done = retrieve("query", "-", "-k", "3", "--json", "--artifacts", tools)
    assert [len(json.loads(line)["results"]) for line in done.out.splitlines()] == [2, 3, 3]
    stdin('{"query": "brain", "retrievers": ["dense"]}\n')
    done = retrieve("query", "-", "--retrievers", "bm25", "--json", "--artifacts", tools)
    assert (done.code, "--retrievers" in done.json["error"]["message"]) == (8, True)


def test_keys_of_a_line_that_a_request_does_not_have_are_ignored_unless_misspelt(
    tools: Path, retrieve: Program, stdin: Stdin
) -> None:
    stdin('{"query": "brain", "model": "m", "title": "t", "relevant": [], "text": "other", "_id": "a", "id": 5}\n')
    assert retrieve("query", "-", "--json", "--artifacts", tools).json["query"] == "brain"
    for key in ("limits", "facet", "explian", "tenantid", "max_token"):
        stdin(json.dumps({"query": "brain", key: 1}))
        done = retrieve("query", "-", "--json", "--artifacts", tools)
        assert (done.code, "did you mean" in done.json["error"]["hint"]) == (8, True), key


def test_a_line_may_name_its_generation(tools: Path, retrieve: Program, stdin: Stdin) -> None:
    current = retrieve("inspect", "status", "--json", "--artifacts", tools).json["generation"]
    stdin(f'{{"query": "brain", "generation": "{current}"}}\n{{"query": "brain", "generation": "none"}}\nbrain\n')
    done = retrieve("query", "-", "--json", "--artifacts", tools)
    first, second, third = map(json.loads, done.out.splitlines())
    assert done.code == 8
    assert first["results"] == third["results"] != []
    assert "none" in second["error"]["message"]


def test_a_run_is_not_saved_without_the_choices_of_its_lines(tools: Path, retrieve: Program, stdin: Stdin) -> None:
    stdin('{"query": "brain", "limit": 2}\n')
    done = retrieve("query", "-", "--save-run", "--json", "--artifacts", tools)
    assert (done.code, done.out) == (2, "")
    assert not (tools / "runs").exists()


# ------------------------------------------------------------------------------------------------- files


def test_the_beginning_of_a_file_counts_as_the_file_does(
    tools: Path, opened: Index, retrieve: Program, stdin: Stdin
) -> None:
    import nibabel
    import numpy as np

    nibabel.Nifti1Image(np.zeros((8, 8, 8), "u1"), np.eye(4)).to_filename("scan.nii.gz")
    by_path = retrieve("query", "brain", "--file", "scan.nii.gz", "--json", "--artifacts", tools).json
    head = base64.b64encode(Path("scan.nii.gz").read_bytes()[:600]).decode()
    request = {"query": "brain", "files": [{"name": "scan.nii.gz", "head_base64": head}]}
    stdin(json.dumps(request))
    of_line = retrieve("query", "-", "--json", "--artifacts", tools).json
    assert by_path["enhanced_query"] == of_line["enhanced_query"] == "brain format:NIfTI format:3D"
    assert as_printed(of_line) == as_printed(by_path)
    asked = read_asked(request)
    assert json.loads(answer_bytes(opened.answer([asked.request], opened.options())[0])) == of_line


def test_a_head_that_is_not_what_its_name_says_is_a_notice_and_no_error(opened: Index) -> None:
    packed = b"\x1f\x8b\x08broken"
    odd = {"scan.dcm": b"", "scan.nii.gz": packed, "\u202egnp.dcm": b"\x89PNG", "none": b"\0" * 99}
    files = [{"name": name, "head_base64": base64.b64encode(data).decode()} for name, data in odd.items()]
    asked = read_asked({"query": "brain", "files": files})
    (answer,) = opened.answer([asked.request], opened.options())
    assert len([notice for notice in answer.notices if "\u202e" not in notice]) >= len(odd)


# ------------------------------------------------------------------------------------------------- pages

WAYS: list[dict[str, Any]] = [
    {}, {"mode": "bm25"}, {"mode": "dense"}, {"chunks": True}, {"rerank": False}, {"expand": False}, {"route": True},
    {"filters": ["group=radiology"]}, {"tenant": "acme"}, {"also": ["skull"]}, {"dependencies": True},
    {"engine": "naive"}, {"boosts": ["license=MIT:2"]}, {"explain": True},
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("limit", [3])
def test_pages_join_to_the_list_of_one_long_answer(opened: Index, way: dict[str, Any], limit: int) -> None:
    whole = found(opened, k=30, **way)["results"]
    pages = []
    for offset in range(0, len(whole) + limit, limit):
        page = found(opened, k=limit, offset=offset, **way)
        assert page["total_results"] == len(page["results"])
        pages += page["results"]
    assert pages == whole
    assert [result["rank"] for result in pages] == list(range(1, len(whole) + 1))


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_of_a_query_with_few_results_are_relaxed_together_or_not_at_all(opened: Index, limit: int) -> None:
    text = "segment nerve fibres of zebra lungs"
    whole = found(opened, text, mode="bm25", min_score=1.0, k=5)
    assert whole["attempts"]
    pages = [found(opened, text, mode="bm25", min_score=1.0, k=limit, offset=at) for at in range(0, 10, limit)]
    assert len({"attempts" in page for page in pages}) == 1
    shown = [result for page in pages for result in page["results"]]
    assert [result["rank"] for result in shown] == list(range(1, len(shown) + 1))
    assert len({result["id"] for result in shown}) == len(shown) > 0
    if limit == 5:
        assert shown[:5] == whole["results"]


def test_a_page_beyond_the_depth_of_the_search_says_so(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_SEARCH__DEPTH", "6")
    index = retrieve_cli.open(tools)
    for offset, beyond in ((0, False), (3, False), (4, True)):
        notices = found(index, k=3, offset=offset).get("notices", [])
        assert any("deeper search" in notice for notice in notices) is beyond
    pages = [found(index, k=3, offset=offset)["results"] for offset in (0, 3)]
    assert [*pages[0], *pages[1]] == found(index, k=6)["results"]


def test_a_page_has_a_budget_and_neighbours_of_its_own(opened: Index) -> None:
    page = found(opened, k=3, offset=3, max_tokens=100, context=1, chunks=True)
    assert page["budget"]["tokens"] <= 100
    assert [result["rank"] for result in page["results"]][:1] == [4]
    for cut in page["budget"]["cut"]:
        assert cut.get("rank", 4) >= 4


def test_ranks_go_on_in_every_format(tools: Path, retrieve: Program) -> None:
    asked = ["query", "brain", "--artifacts", tools, "-k", "2", "--offset", "2"]

    def lines(*form: str) -> list[str]:
        return retrieve(*asked, *form).out.splitlines()

    assert [row["rank"] for row in retrieve(*asked, "--json").json["results"]] == [3, 4]
    assert [json.loads(line)["rank"] for line in lines("--format", "jsonl")] == [3, 4]
    assert [line.split()[3] for line in lines("--format", "trec")] == ["3", "4"]
    assert [line.split(",")[1] for line in lines("--format", "csv") if line[:2] == "1,"] == ["3", "4"]
    assert [line[:3] for line in lines() if line[:2].strip().isdigit()] == [" 3 ", " 4 "]
    assert [line[:2] for line in lines("--format", "md") if line[1:2] == "."] == ["3.", "4."]


def test_a_page_behind_the_last_is_empty(tools: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--artifacts", tools, "--offset", "500", "--json")
    assert (done.code, done.json["results"], done.json["related"]) == (0, [], [])
    assert done.json["total_matches"] > 0
    assert retrieve("query", "brain", "--artifacts", tools, "--offset", "10001").code == 2
    assert retrieve("query", "brain", "--artifacts", tools, "--offset", "-1").code == 2


# ------------------------------------------------------------------------------------------------ facets

NARROWED: list[dict[str, Any]] = [
    {}, {"filters": ["license=MIT"]}, {"filters": ["!group=radiology", "dims>=3"]}, {"tenant": "acme"},
    {"chunks": True}, {"doc_ids": ["lungs", "brain", "align"]},
    {"tenant": "globex", "filters": ["dims>=3"]}, {"also": ["ribs"]},
    {"k": 1, "offset": 2}, {"engine": "naive"}, {"rerank": False, "expand": False}, {"route": True},
]  # fmt: skip
FACETS = ("license", "group", "modality", "keyword", "dims")


@pytest.mark.parametrize("narrowed", NARROWED, ids=str)
@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_a_count_is_that_of_the_records_that_the_query_matches_with_the_value(
    opened: Index, narrowed: dict[str, Any], mode: str
) -> None:
    choices = {"mode": mode, **narrowed}
    facets = found(opened, facets=FACETS, **choices)["facets"]
    assert list(facets) == list(FACETS)
    if "chunks" in choices:
        choices["chunks"] = False
    for field, values in facets.items():
        filters = narrowed.get("filters", ())
        others = [text for text in filters if text.lstrip("!").partition("=")[0].strip(">") != field]
        for entry in values:
            chosen = {**choices, "filters": [*others, f'{field}="{entry["value"]}"']}
            assert found(opened, **chosen)["total_matches"] == entry["count"] > 0, (field, entry)
        if len(values) and field in ("license", "group"):  # of which a record has one at most
            free = {**choices, "filters": others}
            having = found(opened, **{**free, "filters": [*others, f"{field}=*"]})["total_matches"]
            assert sum(entry["count"] for entry in values) == having
        assert values == sorted(values, key=lambda entry: (-entry["count"], entry["value"].casefold()))


def test_a_filter_on_a_field_leaves_the_other_values_of_its_facet(opened: Index) -> None:
    free = found(opened, facets=["license", "group"])["facets"]
    narrow = found(opened, facets=["license", "group"], filters=["license=MIT"])
    tagged = found(opened, f"{QUERIES[0]} [FILTER:license=MIT]", facets=["license", "group"])
    assert narrow["facets"]["license"] == tagged["facets"]["license"] == free["license"]
    assert narrow["facets"]["group"] == tagged["facets"]["group"] != free["group"]
    assert sum(entry["count"] for entry in narrow["facets"]["group"]) <= narrow["total_matches"]


def test_many_values_are_cut_and_counted(tmp_path: Path, retrieve: Program) -> None:
    rows = [{"id": str(row), "name": "tool", "description": "a tool", "topic": f"t{row % 60:02}"} for row in range(121)]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "many.jsonl", rows)).code == 0
    answer = retrieve("query", "tool", "--mode", "bm25", "--facet", "topic", "--facet", "topic", "--json").json
    assert answer["facet_others"] == {"topic": 10}
    assert answer["facets"]["topic"][:2] == [{"value": "t00", "count": 3}, {"value": "t01", "count": 2}]
    assert len(answer["facets"]["topic"]) == 50


def test_values_that_differ_only_in_case_are_one(tmp_path: Path, retrieve: Program) -> None:
    topics, plain = ["CT", "ct", "CT", "Mri", "MRI"], {"name": "tool", "description": "a tool"}
    rows = [{"id": str(row), **plain, "topic": topic} for row, topic in enumerate(topics)]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "cases.jsonl", rows)).code == 0
    facets = retrieve("query", "tool", "--facet", "topic", "--json").json["facets"]
    assert facets == {"topic": [{"value": "CT", "count": 3}, {"value": "MRI", "count": 2}]}


@pytest.mark.parametrize("form", [["--format", "csv"], ["--format", "jsonl"], ["-l"], ["--format", "prompt"]], ids=str)
def test_a_format_without_facets_says_so(tools: Path, retrieve: Program, form: list[str]) -> None:
    done = retrieve("query", "brain", "--facet", "group", "--artifacts", tools, *form)
    assert (done.code, done.out) == (2, "")
    assert "--facet" in done.err


def test_facets_are_lines_of_the_text(tools: Path, retrieve: Program) -> None:
    for form in ("text", "table"):
        out = retrieve("query", QUERIES[0], "--facet", "group", "--format", form, "--artifacts", tools).out
        (line,) = [line for line in out.splitlines() if line.startswith("group ")]
        assert line.split("  ")[1].startswith(("radiology ", "neuroimaging ", "microscopy "))


def test_an_unknown_field_is_an_error_with_the_nearest(tools: Path, retrieve: Program, stdin: Stdin) -> None:
    done = retrieve("query", "brain", "--facet", "licence", "--artifacts", tools)
    assert (done.code, done.out) == (2, "")
    assert "did you mean `license`?" in done.err
    stdin('{"query": "brain", "facets": ["licence"]}\n{"query": "brain", "facets": ["license"]}\n')
    first, second = retrieve("query", "-", "--json", "--artifacts", tools).out.splitlines()
    assert "license" in json.loads(first)["error"]["hint"]
    assert json.loads(second)["facets"]["license"]


def test_what_is_excluded_is_not_counted(opened: Index) -> None:
    before = found(opened, "lungs [EXCLUDE:lungs]", facets=["id"])["facets"]["id"]
    assert "lungs" not in {entry["value"] for entry in before}
    assert "lungs" in {entry["value"] for entry in found(opened, "lungs", facets=["id"])["facets"]["id"]}


# --------------------------------------------------------------------------------------- reasons and times


def test_a_result_says_why_in_the_words_of_the_command_line(tools: Path, retrieve: Program) -> None:
    asked = ["query", QUERIES[0], "-k", "3", "--explain", "--artifacts", tools]
    printed = [" ".join(line.split()) for line in retrieve(*asked).out.splitlines()]
    results = retrieve(*asked, "--json").json["results"]
    for result in results:
        first, *parts = result["why"]
        assert first in printed
        assert parts[0].startswith("score: ")
        assert [" ".join(part.replace(": ", " ", 1).split()) in printed for part in parts] == [True] * len(parts)
    plain = retrieve(*asked[:-3], "--artifacts", tools, "--json").json["results"]
    assert [{key: result[key] for key in result if key != "why"} for result in results] == plain


def test_without_times_equal_requests_give_equal_bytes(tools: Path, retrieve: Program, stdin: Stdin) -> None:
    asked = ["query", "brain", "--json", "--artifacts", tools]
    first, second = (retrieve(*asked, "--no-timing").out for _ in range(2))
    assert first == second
    timed = retrieve(*asked).json
    assert timed.pop("timings_ms")
    assert timed == json.loads(first)
    stdin("brain\n")
    assert "timings_ms" not in retrieve("query", "-", "--json", "--no-timing", "--artifacts", tools).json
