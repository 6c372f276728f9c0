"""From a catalog to answers, as a user does it."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from program.asking import Configure
from samples import Program, write_catalog

from retrieve_cli.ingest.report import LossLimits


def test_the_json_answer_has_the_right_tool_first_and_every_key_of_the_contract(index: Path, retrieve: Program) -> None:
    answer = retrieve("query", "segment lungs in CT", "--json").json
    assert answer["results"][0]["doc_id"] == "lungs"
    assert {
        "schema_version", "query", "clean_query", "enhanced_query", "excluded", "filters", "results", "total_results",
        "strategies_used", "strategies_skipped", "fusion_method", "reranked", "pipeline", "generation", "timings_ms",
    } <= answer.keys()  # fmt: skip
    assert {
        "rank", "id", "doc_id", "score", "retrieval_score", "name", "description", "url", "keywords", "license",
        "supporting_data", "content", "section", "metadata", "source_scores",
    } <= answer["results"][0].keys()  # fmt: skip
    assert answer["schema_version"] == 1
    assert answer["pipeline"] == "fuse(bm25@200, dense@200)"
    assert {"modalities", "dimensions", "formats", "demo_url"} <= answer["results"][0]["supporting_data"].keys()
    assert {"source", "chunk_index", "start_line", "end_line"} <= answer["results"][0]["metadata"].keys()
    assert {"open", "encode", "search", "rerank", "total"} == answer["timings_ms"].keys()


def test_the_evidence_of_every_hit_adds_up_to_its_score(index: Path, retrieve: Program) -> None:
    for result in retrieve("query", "brain image cells", "--json").json["results"]:
        total = sum(leg["weight"] * leg["normalized"] for leg in result["source_scores"].values())
        assert total == pytest.approx(result["score"], abs=1e-9)


def test_k_limits_the_results_each_document_comes_once_and_words_need_no_quotes(index: Path, retrieve: Program) -> None:
    answer = retrieve("query", "brain", "image", "-k", 3, "--json").json
    assert answer["query"] == "brain image"
    assert [result["rank"] for result in answer["results"]] == [1, 2, 3]
    assert len({result["doc_id"] for result in answer["results"]}) == 3


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        pytest.param([], ["TileJoin", "bm25 #1", "mosaic"], id="name, reason and snippet"),
        pytest.param(
            ["--explain"], ["weighted(zscore)", "fuse(bm25@200, dense@200)", "rank 1"], id="how the score came about"
        ),
        pytest.param(["--timing"], ["open", "encode", "search", "rerank", "total"], id="the time of each stage"),
        pytest.param(["--format", "md"], ["[TileJoin](https://example.org/tilejoin)"], id="a link in Markdown"),
    ],
)
def test_an_answer_for_people_shows(index: Path, retrieve: Program, flags: list[str], shown: list[str]) -> None:
    out = retrieve("query", "stitch tiles", "-k", 1, *flags).out
    assert [text for text in shown if text not in out] == []


def test_csv_can_be_read_back(index: Path, retrieve: Program) -> None:
    rows = list(csv.DictReader(io.StringIO(retrieve("query", "brain", "--format", "csv", "-k", 2).out)))
    assert [row["rank"] for row in rows] == ["1", "2"]
    assert rows[0]["doc_id"] in {"brain", "align"}


def test_trec_is_qid_q0_docid_rank_score_tag(index: Path, retrieve: Program) -> None:
    first = retrieve("query", "stitch tiles", "--format", "trec").out.splitlines()[0].split()
    assert first[:4] == ["1", "Q0", "stitch", "1"]
    assert float(first[4]) > 0
    assert len(first) == 6
    assert retrieve("query", "stitch", "--chunks", "--format", "trec", "-k", 1).out.split()[2] == "stitch#0"


def test_a_batch_from_stdin_is_answered_in_order(index: Path, retrieve: Program, stdin) -> None:
    stdin('{"id": "a", "query": "stitch tiles"}\nskull stripping\n{"_id": "c", "text": "lungs"}\n')
    answers = [json.loads(line) for line in retrieve("query", "-", "--json").out.splitlines()]
    assert [answer["query_id"] for answer in answers] == ["a", "2", "c"]
    assert [answer["results"][0]["doc_id"] for answer in answers] == ["stitch", "brain", "lungs"]


def test_a_query_of_stop_words_that_no_record_has_is_answered_by_the_dense_retriever(
    index: Path, retrieve: Program
) -> None:
    answer = retrieve("query", "what is it for", "--json").json
    assert "stop words" in answer["strategies_skipped"]["bm25"]
    assert answer["strategies_used"] == ["dense"]
    assert answer["results"]


def test_refused_records_are_listed_and_the_rest_is_built(tmp_path: Path, retrieve: Program) -> None:
    records = [{"id": f"r{number}", "text": f"tool number {number}"} for number in range(40)]
    path = write_catalog(tmp_path / "c.jsonl", [*records, records[3]])
    done = retrieve("build", "--catalog", path, "--json")
    assert (done.code, done.json["status"], done.json["records"]) == (8, "partial", 40)
    [refused] = [json.loads(line) for line in Path("artifacts/quarantine.jsonl").read_text("utf-8").splitlines()]
    assert (refused["source"], refused["line"]) == ("c.jsonl", 41)
    assert "c.jsonl:4" in refused["reason"]


def test_too_many_refused_records_publish_nothing_and_how_many_are_is_configured(
    index: Path, tmp_path: Path, retrieve: Program, configure: Configure
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(f'{{"id": "a{number}", "text": "fine"}}\n' for number in range(18)) + "not json\n" * 2)
    before = (index / "current").read_text()
    done = retrieve("build", "--catalog", path, "--json")
    assert (done.code, done.json["status"]) == (8, "failed")
    assert "2 of 20 records rejected (limit: --max-fail 0.05)" in done.json["error"]["message"]
    assert (index / "current").read_text() == before
    configure("build", max_fail=0.5)
    done = retrieve("build", "--catalog", path, "--json")
    assert (done.code, done.json["status"]) == (8, "partial")
    assert (index / "current").read_text() != before


def test_one_damaged_document_of_four_does_not_hide_the_other_three(
    tmp_path: Path, retrieve: Program, configure: Configure
) -> None:
    """D: "A full build/update cycle produces stable counts (no silent drops, no partial indexing)." """
    docs = tmp_path / "documents"
    docs.mkdir()
    for city in ("berlin", "munich", "porto"):
        (docs / f"{city}.md").write_text(f"# {city}\nTram lines of {city}.\n")
    (docs / "torn.md").write_bytes(b"\xff\x00\xfa")
    done = retrieve("build", "--docs-dir", docs, "--json")
    assert (done.code, done.json["status"], done.json["records"]) == (8, "partial", 3)
    assert "torn.md" in Path("artifacts/quarantine.jsonl").read_text()
    assert retrieve("sync", "--json").json["records"] == 3

    for limit in ("0", "0.05"):  # what a user sets holds, however few there are
        done = retrieve("build", "--docs-dir", docs, "--json", "--max-fail", limit)
        assert (done.code, done.json["status"]) == (8, "failed")
    configure("build", max_fail=0.05)
    assert retrieve("build", "--docs-dir", docs, "--json").json["status"] == "failed"


def test_a_small_folder_of_which_nothing_can_be_read_publishes_nothing(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "torn.md").write_bytes(b"\xff\x00\xfa")
    done = retrieve("build", "--docs-dir", tmp_path / "docs", "--json")
    assert (done.code, done.json["status"], done.json["generation"]) == (8, "failed", None)
    message = "nothing published: 1 of 1 document rejected; there is no index yet"
    assert (done.json["error"]["message"], done.json["error"]["hint"]) == (message, "fix them")


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_default_limit_is_5_percent_of_at_least_20_records(rejected: int, records: int) -> None:
    tolerated = LossLimits(max_fail=None).tolerates(rejected, records)
    if rejected + records >= 20:
        assert tolerated is LossLimits(max_fail=0.05).tolerates(rejected, records)
    else:
        assert tolerated is (records > 0 or not rejected)


def test_documents_are_ranked_with_their_sections(tmp_path: Path, retrieve: Program) -> None:
    docs = tmp_path / "docs" / "guide"
    docs.mkdir(parents=True)
    life, volumes = "A pod starts, runs and ends. " * 20, "Volumes hold files for a pod. " * 20
    (docs / "pods.md").write_text(f"---\ntitle: Pods\n---\n# Lifecycle\n{life}\n\n# Storage\n{volumes}\n")
    assert retrieve("build", "--docs-dir", tmp_path / "docs").code == 0
    [first, *_] = retrieve("query", "where do volumes hold files", "--chunks", "--json").json["results"]
    assert (first["doc_id"], first["section"], first["group"]) == ("guide/pods.md", "Storage", "guide")
    assert first["metadata"]["start_line"] == 7
