"""nDCG@10 and R@100 of each mode, from TREC runs that `retrieve query` writes, measured by ir_measures."""

import json
import shutil
from pathlib import Path

import ir_measures
from ir_measures import R, nDCG

from benchmarks.process import DATA, RETRIEVE, WORK, run

FLOORS = {"bm25": (0.67, 0.91), "dense": (0.640, 0.0), "hybrid": (0.725, 0.0)}
"""Minimum nDCG@10 and R@100 on the SciFact collection, by mode."""


def qrels(collection: str) -> list[ir_measures.Qrel]:
    """The judgments of a BEIR folder."""
    rows = (DATA / collection / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]
    return [ir_measures.Qrel(query, doc, int(grade)) for query, doc, grade in (row.split("\t") for row in rows)]


def measure(collection: str, artifacts: Path, mode: str, *flags: str) -> dict[str, float]:
    """The measures of one mode over every judged query."""
    judged = qrels(collection)
    wanted = {each.query_id for each in judged}
    lines = (DATA / collection / "queries.jsonl").read_text("utf-8").splitlines()
    queries = [line for line in lines if json.loads(line)["_id"] in wanted]
    command = (
        *RETRIEVE,
        "query",
        "-",
        "--mode",
        mode,
        "-k",
        "100",
        "--format",
        "trec",
        "--artifacts",
        str(artifacts),
        *flags,
    )
    trec = run(command, stdin="\n".join(queries)).output
    found = ir_measures.calc_aggregate([nDCG @ 10, R @ 100], judged, list(ir_measures.read_trec_run(trec)))
    return {str(name): value for name, value in found.items()}


def scifact() -> bool:
    """Builds SciFact and prints its figures; whether each reached its floor."""
    artifacts = WORK / "scifact"
    shutil.rmtree(artifacts, ignore_errors=True)
    built = run(
        (*RETRIEVE, "build", "--catalog", str(DATA / "scifact" / "corpus.jsonl"), "--artifacts", str(artifacts))
    )
    print(f"SciFact ({built.output.strip()}, peak {built.mebibytes:.0f} MiB)")
    good = True
    for mode, (floor, recall_floor) in FLOORS.items():
        found = measure("scifact", artifacts, mode)
        reached = found["nDCG@10"] >= floor and found["R@100"] >= recall_floor
        good &= reached
        print(
            f"  {mode:6} nDCG@10 {found['nDCG@10']:.4f} (floor {floor})  R@100 {found['R@100']:.4f}"
            f"{f' (floor {recall_floor})' if recall_floor else ''}  {'ok' if reached else 'BELOW'}"
        )
    return good


if __name__ == "__main__":
    raise SystemExit(0 if scifact() else 1)
