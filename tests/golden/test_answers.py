"""The answers of the program: requests that exercise every stage are answered as they were before.

`answers.json` was recorded before the code was rearranged. It holds the whole of each answer but for times, names of
generations, and long texts, of which it has the SHA-1. Where an answer changes on purpose, run this whole file with
RETRIEVE_WRITE_GOLDEN=1 in the environment, which writes `answers.json` anew, and look at what changed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import told_servers
from golden.corpora import build, run, values
from golden.written import Golden

GOLDEN = Path(__file__).with_name("answers.json")
COARSE: Mapping[str, float] = {"model": 3e-3, "sparse": 2e-4}
"""How far the scores of an index may be from those written down, besides the last digit. Torch and onnxruntime compute
them by the kernels of the processor; and the token vectors of the real model are kept in two bits a number, so that one
between two of their values falls to either side with the last bit."""
ELSEWHERE = "reranked elsewhere"


@dataclass(frozen=True)
class Asked:
    """A command line, the index that it is for, and the keys that are configured for it."""

    index: str
    words: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""


def query(index: str, *words: str, stdin: str = "", **keys: str) -> Asked:
    return Asked(index, ("query", *words, "--json"), keys, stdin)


def why(index: str, *words: str, **keys: str) -> Asked:
    return Asked(index, ("inspect", "why", *words, "--json"), keys)


def measured(index: str, *words: str, **keys: str) -> Asked:
    return Asked(index, ("eval", "--gold", "gold.jsonl", *words, "--json"), keys)


def reranked_by(url: str) -> dict[str, str]:
    """Return the keys of a reranker at an address."""
    return {"RERANK__BACKEND": "remote", "RERANK__MODEL": "longest", "RERANK__BASE_URL": f"{url}/v1"}


BATCH = """{"id": "a", "query": "count cells", "also": ["how many cells are there"]}
{"id": "b", "query": "scan", "files": ["scan.nii"], "filters": ["license=MIT"]}
{"id": "c", "query": "brain", "tenant": "globex"}
stitch tiles
"""
FEW = ("-k", "5")
BLENDED = {"EXPANSION__PLACEMENT": "blend"}
NARROW_GATE = {"GATING__TOP_GROUPS": "1", "GATING__PER_GROUP": "2", "GATING__MIN_RESULTS": "4"}
REQUESTS: Mapping[str, Asked] = {
    # Legs, and how they are fused.
    "hybrid": query("tools", "segment lungs in a CT scan", *FEW),
    "explained": query("tools", "count cells in an image", "--explain", "-k", "4"),
    "dense": query("tools", "brain volumes", "--mode", "dense", *FEW),
    "bm25": query("tools", "remove the skull from brain scans", "--mode", "bm25", *FEW),
    "splade": query("sparse", "word segment", "--mode", "splade", *FEW),
    "three legs": query("sparse", "cluster single-cell data", "--no-expand", *FEW),
    "three legs by rank": query("sparse", "sparse tables on disk", "--no-expand", *FEW, FUSION__METHOD="rrf"),
    "reciprocal ranks": query("tools", "chest CT", *FEW, FUSION__METHOD="rrf", FUSION__RRF_K="10"),
    "z-scores of candidates": query("tools", "chest CT", *FEW, FUSION__NORMALIZATION="zscore_candidates"),
    "min-max": query("tools", "chest CT", *FEW, FUSION__NORMALIZATION="minmax", FUSION__WEIGHTS="{bm25: 0.6}"),
    "shallow": query("tools", "chest CT scans", *FEW, SEARCH__DEPTH="3"),
    "a stage is left out": query(
        "tools", "brain volumes", "-k", "2", **reranked_by("http://127.0.0.1:9"), RERANK__API_KEY_ENV="NO_SUCH_KEY"
    ),
    "deadline": query("tools", "brain volumes", "--deadline-ms", "100000", "-k", "2"),
    # What a question says besides its words.
    "filters": query("tools", "scan", "--filter", "license=MIT", "--filter", "dims>=3", "--filter", "!group=viewers"),
    "filtered paths": query("guides", "delete a disk", "--filter", "path=storage/**", *FEW),
    "file": query("tools", "segment this", "--file", "scan.nii", *FEW),
    "empty file": query("tools", "open this series", "--file", "series.dcm", *FEW),
    "ids": query("tools", "brain", "--doc-id", "align", "--doc-id", "liver", "--doc-id", "brain"),
    "tenant": query("tools", "chest scan", "--tenant", "acme"),
    "excluded": query("tools", "cells [EXCLUDE:CellFinder|nuclei] in frames", *FEW),
    "included": query("tools", "cells [INCLUDE:tracks|NucleoNet|nobody] [FORMAT:TIFF] outlined"),
    "tag that filters": query("tools", "scan [FILTER:group=radiology|license=MIT]"),
    "also": query("tools", "count cells", "--also", "follow cells over time", "--also", "stained tissue section", *FEW),
    "batch": query("tools", "-", "-k", "3", stdin=BATCH),
    "broadened": query("tools", "tiles quokka zebra lynx", "--mode", "bm25", BROADENING__MAX_RETRIES="2"),
    # Groups, edges, diversity, thresholds.
    "gate": query("tools", "brain scans", "--route", *FEW, GATING__TOP_GROUPS="2", GATING__MIN_RESULTS="0"),
    "gate, filled up": query("tools", "large mosaic of a tissue section", "--route", *FEW, **NARROW_GATE),
    "expanded": query("steps", "cluster single-cell data", *FEW, **BLENDED, EXPANSION__SEEDS="2"),
    "expanded leg": query("steps", "stores tables", "--mode", "bm25", "--expand", *FEW, **BLENDED),
    "related": query("steps", "cluster single-cell data", "-k", "2"),
    "related to the hits of one leg": query("steps", "stores tables", "--mode", "bm25", "--expand", *FEW),
    "bundle": query("steps", "cluster single-cell data", "--with-dependencies", "-k", "2", EXPANSION__SEEDS="1"),
    "bundle with a circle": query("steps", "stores tables", "--with-dependencies", "-k", "2", BUDGET__MAX_CHUNKS="3"),
    "three legs, expanded": query(
        "sparse", "cluster single-cell data", "--with-dependencies", "-k", "4", EXPANSION__SEEDS="1"
    ),
    "novelty": query("tools", "chest CT scans", "-k", "4", DIVERSITY__MMR="0.4"),
    "novel chunks": query("guides", "snapshot of a disk", "--chunks", "-k", "4", DIVERSITY__MMR="0.6"),
    "quota of a source": query("guides", "volume disk", "--chunks", *FEW, DIVERSITY__PER_SOURCE="1"),
    "quota of a group": query("tools", "cells in images", *FEW, DIVERSITY__PER_GROUP="1"),
    "least score": query("tools", "brain volumes", "--min-score", "0.1"),
    "grade": query("tools", "brain volumes", SEARCH__GRADE="0.15"),
    "distance": query("tools", "brain volumes", SEARCH__MAX_DISTANCE="0.8"),
    # Passages, their surroundings, budgets.
    "chunks": query("guides", "rotate a password", "--chunks", "-k", "4"),
    "records of guides": query("guides", "limit callers of a gateway", "-k", "3"),
    "context": query("guides", "remove a volume", "--chunks", "--context", "1", "-k", "4"),
    "context of a table": query(
        "guides", "policy databases retain", "--context", "0", "-k", "2", CONTEXT__TABLE_WINDOW="2"
    ),
    "budget of tokens": query("guides", "snapshot disk", "--chunks", "--context", "1", "--max-tokens", "120"),
    "budget of chunks": query("guides", "snapshot disk", BUDGET__MAX_CHUNKS="2"),
    # Engines and other kinds of index.
    "hnsw": query("graph", "segment lungs in a CT scan", *FEW),
    "hnsw, filtered": query("graph", "brain scans", "--mode", "dense", "--filter", "license=MIT", "-k", "2"),
    "bm25 by chunk": query("by chunk", "airways and nodules of a lung", *FEW),
    "bm25 by chunk, passages": query("by chunk", "mask beside the volume", "--chunks", "-k", "3"),
    # The real model.
    "reranked": query("model", "how do I segment the lungs?", "-k", "3"),
    "reranked, filtered": query("model", "follow cells over time", "--filter", "!license=GPL-3.0", "-k", "3"),
    "reranked leg": query("model", "skull", "--mode", "bm25", "--rerank", "-k", "3", RERANK__INTERPOLATE="1"),
    "not reranked": query("model", "take the grain out of a photograph", "--no-rerank", "-k", "3"),
    # Where a record was lost.
    "why it is found": why("tools", "brain volumes", "align"),
    "why it is filtered": why("tools", "brain volumes", "align", "--filter", "license=MIT"),
    "why it is too low": why("tools", "segment lungs in CT", "viewer", "-k", "2"),
    "why its group is out": why("tools", "brain scans", "ribs", GATING__ENABLED="true", GATING__TOP_GROUPS="1"),
    "why it is expanded": why("steps", "cluster single-cell data", "doublets", EXPANSION__SEEDS="1"),
    "why by three legs": why("sparse", "word segment", "loader"),
    "why its score is too low": why("tools", "brain volumes", "fibres", SEARCH__GRADE="0.3"),
    "why it is reranked": why("model", "how do I segment the lungs?", "ribs"),
    # Measured.
    "measured": measured("tools"),
    "measured by bm25": measured("tools", "--mode", "bm25", "--metrics", "nDCG@5 P@1 R@3 AP@10"),
    "compared": measured("tools", "--with", "fusion.method=rrf", "--with", "search.mode=dense"),
    "ablated": measured("model", "--ablate", "--metrics", "nDCG@10"),
}


@pytest.fixture(scope="module")
def golden() -> Iterator[Golden]:
    known = Golden(GOLDEN)
    yield known
    known.write()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an index by its name; each is built once."""
    return cache(lambda name: build(name, tmp_path_factory.mktemp(name.replace(" ", "-"))))


def answers(index: Callable[[str], Path], asked: Asked) -> list[Any]:
    folder = index(asked.index)
    printed = run(folder, *asked.words, keys=asked.keys, stdin=asked.stdin)
    assert str(folder) not in printed
    return list(values(printed))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_answered_as_it_was_before(name: str, index: Callable[[str], Path], golden: Golden) -> None:
    asked = REQUESTS[name]
    golden.hold(name, answers(index, asked), coarse=COARSE.get(asked.index, 0.0))


def like_long_texts(request: told_servers.Asked) -> told_servers.Answer:
    """Answer as a reranker that gives long texts high scores."""
    texts = request.json["documents"]
    scores = [{"index": place, "relevance_score": len(text) / 256} for place, text in enumerate(texts)]
    return told_servers.Answer(json.dumps({"results": scores}).encode(), headers={"Content-Type": "application/json"})


def test_what_a_remote_reranker_says_reaches_the_answer_as_before(index: Callable[[str], Path], golden: Golden) -> None:
    with told_servers.serving(like_long_texts) as url:
        keys = {**reranked_by(url), "RERANK__DEPTH": "6", "RERANK__KEEP": "4"}
        golden.hold(ELSEWHERE, answers(index, query("tools", "brain volumes and images", *FEW, **keys)))


def test_every_answer_that_is_written_down_is_asked_for(golden: Golden) -> None:
    assert set(golden.names) == {*REQUESTS, ELSEWHERE}
