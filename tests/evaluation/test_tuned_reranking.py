"""Tuning the reranker: settings recombined in memory are those of the pipeline, and every hit is read once."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest
from retrieve_cli.experiments.recombination import Recombination
from retrieve_cli.experiments.rereading import Together
from samples import Program, write_catalog

from retrieve_cli.assemble import variants
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Hit, Query
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import Scorer, parse
from retrieve_cli.experiments.choices import Choice, Reranking
from retrieve_cli.experiments.tuning import _Search, tune
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

WORDS = (
    "brain lung liver cell nucleus segment register stitch denoise count track volume slice scan tile image mask"
    " contour mesh skull vessel tumour bone tissue stain".split()
)
MEASURE = parse(["nDCG@10"])[0]
World = tuple[Path, list[Topic]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An index with token vectors, of records of random words, some of several chunks; and queries of three words."""
    from retrieve_cli.cli.main import main

    folder = tmp_path_factory.mktemp("reread")
    generator = np.random.default_rng(5)
    texts = [generator.choice(WORDS, 400 if at % 20 == 0 else 9).tolist() for at in range(100)]
    path = write_catalog(
        folder / "c.jsonl",
        [{"id": f"r{at:03}", "name": text[0], "description": " ".join(text)} for at, text in enumerate(texts)],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
        assert main(["build", "--catalog", str(path), "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    topics = []
    for number in range(30):
        asked = generator.choice(WORDS, 3, replace=False).tolist()
        shares = {f"r{at:03}": sum(map(text.count, asked)) / len(text) for at, text in enumerate(texts)}
        best = sorted(shares, key=lambda name: (-shares[name], name))[:4]
        topics.append(Topic(f"q{number}", " ".join(asked), dict.fromkeys(best, 1)))
    return folder / "artifacts", topics


@pytest.fixture(autouse=True)
def _onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")


@pytest.fixture
def searcher(world: World) -> Searcher:
    return Searcher(Store(world[0]), Settings())


def measured(searcher: Searcher, settings: Settings, choice: Choice, topics: list[Topic], *, k: int) -> Any:
    """The measure by query of what the pipeline answers under these settings."""
    sections = {name: keys for name, keys in choice.settings.items() if name != "bm25"}
    formula = variants.formula_of(searcher.generation, **choice.settings["bm25"])
    under = searcher.under(override(settings, sections, where="test"), variants.reweighted(searcher.indexes, formula))
    ranked = under.rank([Query(topic.text, topic.id) for topic in topics], k=k, mode="hybrid")
    assert ranked.reranker
    run = {
        each.query.id: {searcher.generation.record_id(hit.record): hit.score for hit in each.hits}
        for each in ranked.rankings
    }
    (by_query,) = Scorer([MEASURE], {topic.id: topic.grades for topic in topics})(run).values()
    return [by_query[topic.id] for topic in topics]


CHOICES = [
    Choice("weighted", "zscore", 0.65, 0.35, 60.0, 200, 1.2, 0.75, Reranking(50, 0.6)),
    Choice("weighted", "zscore_candidates", 0.2, 0.8, 60.0, 20, 1.2, 0.75, Reranking(100, 0.4)),
    Choice("weighted", "minmax", 0.8, 0.2, 60.0, 50, 0.6, 0.2, Reranking(20, 1.0)),
    Choice("rrf", "zscore", 0.5, 0.5, 10.0, 15, 2.0, 0.9, Reranking(20, 0.2)),
    Choice("weighted", "zscore", 0.35, 0.65, 60.0, 200, 1.2, 0.75, Reranking(5, 0.0)),
]
"""Some of which read more hits than the legs are asked for, or fewer than are handed on."""


@pytest.mark.slow
@pytest.mark.parametrize(("k", "keys"), [(10, {}), (30, {}), (10, {"keep": 7}), (30, {"min_score": 0.55})])
def test_what_is_recombined_in_memory_is_what_the_pipeline_answers(
    world: World, searcher: Searcher, k: int, keys: dict[str, float]
) -> None:
    settings = override(Settings(), {"rerank": keys}, where="test")
    table = Recombination(searcher.under(settings), settings, world[1], MEASURE, k=k)
    seen = set()
    for choice in CHOICES:
        ours = table.values(choice)
        assert ours == pytest.approx(measured(searcher, settings, choice, world[1], k=k), abs=1e-9)
        seen.add(float(ours.mean()))
    assert len(seen) > 3


@pytest.mark.slow
def test_the_reranker_is_tuned_with_the_fusion_and_what_it_comes_to_is_measured_as_promised(
    world: World, retrieve: Program, tmp_path: Path
) -> None:
    artifacts, topics = world
    gold = tmp_path / "gold.jsonl"
    lines = ({"id": topic.id, "query": topic.text, "relevant": dict(topic.grades)} for topic in topics)
    gold.write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("config.yaml").write_text(
        "fusion: {dense_weight: 1.0, bm25_weight: 0.0}\nrerank:\n  depth: 12  # few\n  interpolate: 1.0\n"
    )
    flags = ["eval", "--artifacts", artifacts, "--gold", gold, "--metrics", "nDCG@10 R@20", "--json"]
    done = retrieve(*flags, "--tune", "--write")
    assert done.code == 0, done.err
    tuning = done.json["tuning"]
    assert tuning["of"] == "the fused legs, read again by maxsim"
    assert tuning["value"] == pytest.approx(done.json["metrics"]["nDCG@10"], abs=1e-9)
    assert tuning["recommended"]
    changes = {f"{name}.{key}": value for name, keys in tuning["changes"].items() for key, value in keys.items()}
    assert {"rerank.depth", "rerank.interpolate"} & set(changes)
    assert "fusion.dense_weight" in changes
    assert all(
        f"{name.partition('.')[2]}: {value}" in Path("config.yaml").read_text() for name, value in changes.items()
    )
    Path("config.yaml").write_text(
        "fusion: {dense_weight: 1.0, bm25_weight: 0.0}\nrerank:\n  depth: 12  # few\n  interpolate: 1.0\n"
    )
    arm = retrieve(*flags, "--with", ",".join(f"{key}={value}" for key, value in changes.items())).json["arms"][0]
    assert arm["metrics"]["nDCG@10"] == pytest.approx(tuning["value_best_in_sample"], abs=1e-9)
    text = retrieve(*flags[:-1], "--tune").out
    assert "tuned nDCG@10 of the fused legs, read again by maxsim" in text


# ------------------------------------------------------------------------------------- what is read how often


class _Server(BaseHTTPRequestHandler):
    """A rerank endpoint that counts what it is shown, and likes an even share of long words."""

    asked: ClassVar[Counter[tuple[str, str]]] = Counter()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.update((asked["query"], text) for text in asked["documents"])
        scores = [{"index": at, "relevance_score": len(text) % 17} for at, text in enumerate(asked["documents"])]
        body = json.dumps({"results": scores}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def remote() -> Iterator[Settings]:
    """The configuration of a reranker behind a server."""
    _Server.asked.clear()
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    Thread(target=running.serve_forever, daemon=True).start()
    keys = {"backend": "remote", "model": "odd", "base_url": f"http://127.0.0.1:{running.server_port}/v1"}
    yield override(Settings(), {"rerank": keys}, where="test")
    running.shutdown()
    running.server_close()


@pytest.mark.slow
def test_a_server_is_shown_each_hit_once_whatever_is_tried(world: World, searcher: Searcher, remote: Settings) -> None:
    table = Recombination(searcher.under(remote), remote, world[1], MEASURE, k=10)
    ours = [table.values(choice) for choice in CHOICES]
    assert set(_Server.asked.values()) == {1}
    asked = len(_Server.asked)
    for choice in CHOICES:
        table.values(replace(choice, rerank=Reranking(10, 0.35)))
    assert len(_Server.asked) == asked
    for choice, values in zip(CHOICES, ours, strict=True):
        assert values == pytest.approx(measured(searcher, remote, choice, world[1], k=10), abs=1e-9)
    _Server.asked.clear()
    tuned = tune(searcher.under(remote), remote, world[1], MEASURE)
    assert tuned.reranker == "odd"
    assert set(_Server.asked.values()) == {1}


class Listwise:
    """A reader that says of a hit where it stands in the list it was shown."""

    name = "list"

    def __init__(self) -> None:
        self.shown: list[tuple[str, tuple[int, ...]]] = []

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        self.shown.append((query.text, tuple(hit.row for hit in hits)))
        return np.arange(len(hits))


@pytest.mark.slow
def test_what_reads_a_list_as_a_whole_is_shown_each_list_once_and_no_other_depth_is_tried(
    world: World, searcher: Searcher
) -> None:
    table = Recombination(searcher, Settings(), world[1], MEASURE, k=10)
    reader = Listwise()
    table._rereading = Together(reader)
    assert table.read_depths == (50,)
    rerankings = list(table.now.rerankings(table.read_depths))
    assert {choice.settings["rerank"]["depth"] for choice in rerankings} == {50}
    assert len({float(table.values(choice).mean()) for choice in rerankings}) > 2
    table.values(replace(table.now, depth=500))  # another setting, the same lists
    assert len(reader.shown) == len(set(reader.shown)) == len(world[1])


# --------------------------------------------------------------------------------------------- what is chosen


class Values:
    """What a table says, written down: by the weight of the dense leg and the reranking, or 0.5."""

    read_depths = (20, 50, 100)
    least_depth = 10

    def __init__(self, values: dict[tuple[float, Reranking | None], float]) -> None:
        self._values = values

    def values(self, choice: Choice) -> Any:
        return np.full(4, self._values.get((choice.dense_weight, choice.rerank), 0.5))

    def of_words(self, k1: float, b: float) -> Any:
        return np.full(4, 0.5)


def search_on(values: dict[tuple[float, Reranking | None], float]) -> _Search:
    return _Search(Values(values), np.arange(4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ({}, (50, 0.6)),
        ({(20, 0.2): 0.5009}, (50, 0.6)),
        ({(20, 0.2): 0.52}, (20, 0.2)),
        ({(100, 0.2): 0.5205, (20, 0.4): 0.52}, (20, 0.4)),
        ({(100, 0.2): 0.53, (20, 0.4): 0.52}, (100, 0.2)),
        ({(100, 0.2): 0.5015, (20, 0.4): 0.5008}, (100, 0.2)),
        ({(20, 0.2): 0.5203, (20, 0.4): 0.5205, (20, 0.8): 0.5201}, (20, 0.4)),
    ],
)
def test_equals_go_to_what_is_configured_and_then_to_what_reads_less(
    values: dict[tuple[int, float], float], chosen: tuple[int, float]
) -> None:
    known = {(0.65, Reranking(*key)): value for key, value in values.items()}
    assert search_on(known)._best_reranked(CHOICES[0]).rerank == Reranking(*chosen)


@pytest.mark.parametrize(("gain", "weight"), [(0.0, 0.65), (0.0009, 0.65), (0.02, 0.8)])
def test_a_fusion_that_gains_nothing_once_hits_are_read_again_is_not_taken(gain: float, weight: float) -> None:
    now = CHOICES[0]
    search = search_on({(0.8, None): 0.6, (0.65, now.rerank): 0.7, (0.8, now.rerank): 0.7 + gain})
    assert search.best(now.fused).dense_weight == 0.8
    assert search.best(now).dense_weight == weight


def test_no_reranker_is_tuned_where_none_runs(world: World, searcher: Searcher) -> None:
    alone = override(Settings(), {"rerank": {"backend": "none"}}, where="test")
    tuned = tune(searcher.under(alone), alone, world[1], MEASURE)
    assert "rerank" not in tuned.best.settings
    assert tuned.what == "the fused legs, before any reranking"
