"""The sample catalog and its gold queries are sound, and the default configuration answers them."""

import json
from collections import Counter
from pathlib import Path

import ir_measures
import pytest
from ir_measures import R, nDCG
from program.asking import Configure
from samples import ROOT

RECORDS = [json.loads(line) for line in (ROOT / "catalogs" / "tools.jsonl").read_text("utf-8").splitlines()]
GOLD = [json.loads(line) for line in (ROOT / "catalogs" / "gold.jsonl").read_text("utf-8").splitlines()]
IDS = {record["id"] for record in RECORDS}


def test_every_tool_has_an_id_of_its_own_what_a_hit_shows_and_related_tools_of_the_catalog() -> None:
    assert [id_ for id_, count in Counter(record["id"] for record in RECORDS).items() if count > 1] == []
    assert [record["id"] for record in RECORDS if not (record.get("name") and record.get("description"))] == []
    assert len(RECORDS) >= 148
    named = {id_ for record in RECORDS for key in ("requires_tool", "compatible_with") for id_ in record.get(key, [])}
    assert named <= IDS


def test_gold_judges_only_tools_of_the_catalog() -> None:
    assert {id_ for query in GOLD for id_ in query["relevant"]} <= IDS
    assert len(GOLD) >= 80
    assert len({query["id"] for query in GOLD}) == len(GOLD)


def test_the_default_configuration_answers_the_gold_queries(
    sample_index: Path, retrieve, stdin, configure: Configure
) -> None:
    configure("encoder", kind="auto")
    stdin("".join(json.dumps({"id": query["id"], "query": query["query"]}) + "\n" for query in GOLD))
    done = retrieve("query", "-", "--format", "trec", "-k", 20, "--artifacts", sample_index)
    run = list(ir_measures.read_trec_run(done.out))
    judged = [ir_measures.Qrel(query["id"], id_, grade) for query in GOLD for id_, grade in query["relevant"].items()]
    found = ir_measures.calc_aggregate([nDCG @ 10, R @ 20], judged, run)
    assert found[nDCG @ 10] >= 0.6
    assert found[R @ 20] >= 0.7


@pytest.mark.parametrize("mode", ["hybrid", "dense", "bm25"])
def test_segment_lungs_in_ct_finds_a_lung_segmenter(
    sample_index: Path, retrieve, configure: Configure, mode: str
) -> None:
    configure("encoder", kind="auto")
    done = retrieve("query", "segment lungs in CT", "--mode", mode, "-l", "-k", 1, "--artifacts", sample_index)
    assert done.out.strip() in {"lungmask", "totalsegmentator"}
