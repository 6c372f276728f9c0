"""Choice of the defaults: every candidate on every collection, measured and compared by `retrieve eval`."""

import json
import statistics
import sys

from benchmarks.process import DATA, RETRIEVE, WORK, run

COLLECTIONS = ("scifact", "cranfield", "biii", "sealtools", "toollinkos", "chunking-eval", "biotools")
CANDIDATES = {
    "BM25": "search.mode=bm25",
    "dense": "search.mode=dense",
    "RRF, k = 60": "fusion.method=rrf,fusion.rrf_k=60",
    "min-max, 0.5 : 0.5": "fusion.normalization=minmax,fusion.weights={dense: 0.5, bm25: 0.5}",
    "z-score of the list, 0.5 : 0.5":
        "fusion.normalization=zscore_candidates,fusion.weights={dense: 0.5, bm25: 0.5}",
    "z-score over all, 0.5 : 0.5": "fusion.weights={dense: 0.5, bm25: 0.5}",
    "z-score over all, 0.8 : 0.2": "fusion.weights={dense: 0.8, bm25: 0.2}",
    "depth 50": "search.depth=50",
    "without field weights": "",
}  # fmt: skip
DEFAULT = "the default"


def _values(collection: str) -> dict[str, float]:
    """nDCG@10 of every candidate on a collection, whose index is built where there is none."""
    artifacts = str(WORK / "defaults" / collection)
    if run((*RETRIEVE, "inspect", "status", "--artifacts", artifacts), fails=True).output == "":
        corpus = str(DATA / collection / "corpus.jsonl")
        run((*RETRIEVE, "build", "--catalog", corpus, "--artifacts", artifacts), fails=True)
    flags = [flag for change in filter(None, CANDIDATES.values()) for flag in ("--with", change)]
    judged = ("eval", "--beir", str(DATA / collection), "--artifacts", artifacts, "--metrics", "nDCG@10", "--json")
    found = json.loads(run((*RETRIEVE, *judged, *flags)).output)
    ablated = json.loads(run((*RETRIEVE, *judged, "--ablate")).output)
    runs = {entry["run"]: entry["metrics"]["nDCG@10"] for entry in (*found["runs"], *ablated["runs"])}
    values = {name: runs.get(change or name) for name, change in CANDIDATES.items()}
    return {DEFAULT: found["metrics"]["nDCG@10"], **values}


def table() -> bool:
    """Prints candidates by collections; whether the default keeps what it is held to."""
    by_collection = [_values(name) for name in COLLECTIONS]
    print(f"  {'nDCG@10':32}" + "".join(f"{name:>14}" for name in (*COLLECTIONS, "mean")))
    means = {}
    for name in (*CANDIDATES, DEFAULT):
        row = [values[name] for values in by_collection]
        means[name] = sum(row) / len(row)
        print(f"  {name:32}" + "".join(f"{value:14.4f}" for value in (*row, means[name])))
    lost = sum(max(values["BM25"], values["dense"]) - values[DEFAULT] for values in by_collection) / len(COLLECTIONS)
    above = means[DEFAULT] - means["RRF, k = 60"]
    good = lost <= 0.01 and above > 0
    print(f"  the default loses {lost:+.4f} to each collection's better leg on average (<= 0.01), and is {above:+.4f}")
    print(f"  above RRF (> 0)  {'ok' if good else 'BELOW'}")
    return good


ENCODE = """
import json, sys, time
from pathlib import Path
from retrieve_cli.config.settings import Settings
from retrieve_cli.search.opened import Opened
from retrieve_cli.storage.store import Store
opened = Opened.of(Store(Path(sys.argv[1])), Settings())
texts = json.load(sys.stdin)
begun = time.perf_counter()
opened.models.encoder.encode_queries(texts)
print(time.perf_counter() - begun)
"""


def evaluation() -> bool:
    """A whole `retrieve eval` of SciFact in seconds, against what encoding as many of its queries takes."""
    artifacts = str(WORK / "scifact")
    lines = (DATA / "scifact" / "queries.jsonl").read_text("utf-8").splitlines()
    texts = json.dumps([json.loads(line)["text"] for line in lines[:300]])
    pairs = []
    for _ in range(3):
        whole = run((*RETRIEVE, "eval", "--beir", str(DATA / "scifact"), "--artifacts", artifacts, "--json"))
        encoding = float(run((sys.executable, "-c", ENCODE, artifacts), stdin=texts).output)
        pairs.append((whole.seconds / encoding, whole.seconds, encoding))
    ratio, seconds, encoding = statistics.median(pairs)
    good = ratio <= 3
    print(f"  eval of 300 queries {seconds:.2f} s, encoding them {encoding:.2f} s: {ratio:.1f}× (<= 3)"
          f"  {'ok' if good else 'BELOW'}")  # fmt: skip
    return good
