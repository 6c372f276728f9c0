"""Tuning the reranker: what is remembered answers as the pipeline does, and every hit is read once."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml
from evaluation.test_tuning import MEASURE, World, answering, built, gold_of, run_of, topics_of, values_of
from samples import Program

from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Hit, Query
from retrieve_cli.evaluation.evaluate import evaluate
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.memory import remembering
from retrieve_cli.evaluation.tuning import _Search, tune
from retrieve_cli.evaluation.tuning_measures import Formula, MeasureTable, Reranking, TuningSettings
from retrieve_cli.frozen import replace
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

WORDS = (
    "brain lung liver cell nucleus segment register stitch denoise count track volume slice scan tile image mask"
    " contour mesh skull vessel tumour bone tissue stain".split()
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An index with token vectors, of records of random words, some of several chunks; and queries of three words."""
    folder = tmp_path_factory.mktemp("reread")
    generator = np.random.default_rng(5)
    texts = [generator.choice(WORDS, 400 if at % 20 == 0 else 9).tolist() for at in range(100)]
    records = [{"name": text[0], "description": " ".join(text), "group": text[1]} for text in texts]
    asked = [generator.choice(WORDS, 3, replace=False).tolist() for _ in range(30)]
    return built(folder, records, encoder="onnx"), topics_of(texts, asked, best=4)


@pytest.fixture(autouse=True)
def _onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")


@pytest.fixture
def opened(world: World) -> Opened:
    return Opened.of(Store(world[0]), Settings())


def measured(opened: Opened, settings: Settings, choice: TuningSettings, topics: list[Topic], *, k: int) -> Any:
    """The measure by query of what the pipeline answers under these settings."""
    under = answering(opened, settings, choice)
    ranked = Searcher(under, under.options(k=k)).rank([Query(topic.text, topic.id) for topic in topics])
    assert (ranked.reranker is None) == (choice.rerank is None)
    return values_of(run_of(opened, ranked.rankings), topics)


def chosen(
    method: Any, normalization: Any, bm25: float, rrf_k: float, depth: int, k1: float, b: float
) -> TuningSettings:
    formula: Formula = (("k1", k1), ("b", b))
    weights = (("bm25", bm25), ("dense", round(1.0 - bm25, 2)))
    return TuningSettings(method, normalization, weights, rrf_k, depth, (("bm25", formula),))


CHOICES = [
    replace(chosen("weighted", "zscore", 0.35, 60.0, 200, 1.2, 0.75), rerank=Reranking(50, 0.6)),
    replace(chosen("weighted", "zscore_candidates", 0.8, 60.0, 20, 1.2, 0.75), rerank=Reranking(100, 0.4)),
    replace(chosen("weighted", "minmax", 0.2, 60.0, 50, 0.6, 0.2), rerank=Reranking(20, 1.0)),
    replace(chosen("rrf", "zscore", 0.5, 10.0, 15, 2.0, 0.9), rerank=Reranking(20, 0.2)),
    replace(chosen("weighted", "zscore", 0.65, 60.0, 200, 1.2, 0.75), rerank=Reranking(5, 0.0)),
]
"""Some of which rerank more hits than the retrievers are asked for, or fewer than are passed on."""
TAILS: list[dict[str, Any]] = [
    {"diversity": {"mmr": 0.7, "per_source": 1}},
    {"gating": {"enabled": True, "top_groups": 3, "global_candidates": 30, "min_results": 6}},
    {"expansion": {"enabled": True, "seeds": 3}, "search": {"min_score": 0.2}},
]


@pytest.mark.parametrize(("k", "keys"), [(10, {}), (30, {}), (10, {"keep": 7}), (30, {"min_score": 0.55})])
def test_what_is_remembered_is_worth_what_the_pipeline_answers(
    world: World, opened: Opened, k: int, keys: dict[str, float]
) -> None:
    settings = override(Settings(), {"rerank": keys}, where="test")
    table = MeasureTable(opened.under(settings), settings, world[1], MEASURE, k=k)
    seen = set()
    for choice in CHOICES:
        ours = table.values(choice)
        assert ours == pytest.approx(measured(opened, settings, choice, world[1], k=k), abs=1e-9)
        seen.add(float(ours.mean()))
    assert len(seen) > 3


@pytest.mark.parametrize("tail", TAILS, ids=["diversity", "gate", "expansion"])
def test_stages_besides_the_reranker_are_measured_with_it(world: World, opened: Opened, tail: dict[str, Any]) -> None:
    settings = override(Settings(), tail, where="test")
    under = opened.under(settings)
    table = MeasureTable(under, settings, world[1], MEASURE, k=10)
    plain = MeasureTable(opened, Settings(), world[1], MEASURE, k=10)
    for choice in CHOICES:
        assert table.values(choice) == pytest.approx(measured(under, settings, choice, world[1], k=10), abs=1e-9)
    pipelines = {str(each.pipeline(CHOICES[0])) for each in (table, plain)}
    assert len(pipelines) == 2


def test_a_fusion_without_reranking_is_worth_what_it_is_where_none_runs(world: World, opened: Opened) -> None:
    table = MeasureTable(opened, Settings(), world[1], MEASURE, k=10)
    assert table.now.rerank is not None
    alone = override(Settings(), {"rerank": {"backend": "none"}}, where="test")
    for choice in CHOICES:
        assert str(table.pipeline(choice.fused)).endswith(")")
        ours = table.values(choice.fused)
        assert ours == pytest.approx(measured(opened, alone, choice.fused, world[1], k=10), abs=1e-9)


def test_a_reranked_choice_is_worth_what_an_evaluation_says(world: World, opened: Opened) -> None:
    table = MeasureTable(opened, Settings(), world[1], MEASURE, k=10)
    for choice in (table.now, CHOICES[2]):
        found = evaluate(answering(opened, Settings(), choice), world[1], [MEASURE])
        assert found.pipeline.endswith(f"maxsim@{choice.settings['rerank']['depth']}")
        assert table.values(choice).tolist() == pytest.approx(list(found.per_query["nDCG@10"].values()), abs=1e-9)


def test_the_reranker_is_tuned_with_the_fusion_and_what_it_comes_to_is_measured_as_promised(
    world: World, retrieve: Program, tmp_path: Path
) -> None:
    artifacts, topics = world
    gold = gold_of(topics, tmp_path / "gold.jsonl")
    before = "fusion: {weights: {dense: 1.0, bm25: 0.0}}\nrerank:\n  depth: 12  # few\n  interpolate: 1.0\n"
    Path("config.yaml").write_text(before)
    flags = ["eval", "--artifacts", artifacts, "--gold", gold, "--metrics", "nDCG@10 R@20", "--json"]
    done = retrieve(*flags, "--tune", "--write")
    assert done.code == 0, done.err
    tuning = done.json["tuning"]
    assert tuning["of"] == "the whole pipeline, reranked by maxsim"
    assert tuning["value"] == pytest.approx(done.json["metrics"]["nDCG@10"], abs=1e-9)
    assert tuning["recommended"]
    changes = {f"{name}.{key}": value for name, keys in tuning["changes"].items() for key, value in keys.items()}
    assert {"rerank.depth", "rerank.interpolate"} & set(changes)
    assert "fusion.weights" in changes
    written = yaml.safe_load(Path("config.yaml").read_text())
    assert {name: written[name.partition(".")[0]][name.partition(".")[2]] for name in changes} == changes
    assert "# few" in Path("config.yaml").read_text()
    Path("config.yaml").write_text(before)
    Path("tuned.yaml").write_text(yaml.safe_dump(written))
    arm = retrieve(*flags, "--with", "tuned.yaml").json["arms"][0]
    assert arm["metrics"]["nDCG@10"] == pytest.approx(tuning["value_best_in_sample"], abs=1e-9)
    text = retrieve(*flags[:-1], "--tune").out
    assert "tuned nDCG@10 of the whole pipeline, reranked by maxsim" in text


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


def test_a_server_is_shown_each_hit_once_whatever_is_tried(world: World, opened: Opened, remote: Settings) -> None:
    table = MeasureTable(opened.under(remote), remote, world[1], MEASURE, k=10)
    ours = [table.values(choice) for choice in CHOICES]
    assert set(_Server.asked.values()) == {1}
    asked = len(_Server.asked)
    for choice in CHOICES:
        table.values(replace(choice, rerank=Reranking(10, 0.35)))
    assert len(_Server.asked) == asked
    for choice, values in zip(CHOICES, ours, strict=True):
        assert values == pytest.approx(measured(opened, remote, choice, world[1], k=10), abs=1e-9)
    _Server.asked.clear()
    tuned = tune(opened.under(remote), remote, world[1], MEASURE)
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


def test_what_reads_a_list_as_a_whole_is_shown_each_list_once_and_no_other_depth_is_tried(
    world: World, opened: Opened
) -> None:
    chat = {"backend": "llm", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    listwise = override(Settings(), {"rerank": chat}, where="test")
    table = MeasureTable(opened.under(listwise), listwise, world[1], MEASURE, k=10)
    reader = Listwise()
    table._reader = remembering(reader, together=True)
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

    def values(self, choice: TuningSettings) -> Any:
        return np.full(4, self._values.get((dict(choice.weights)["dense"], choice.rerank), 0.5))

    def alone(self, name: str, formula: Formula) -> Any:
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
    assert dict(search.best(now.fused).weights)["dense"] == 0.8
    assert dict(search.best(now).weights)["dense"] == weight


def test_no_reranker_is_tuned_where_none_runs(world: World, opened: Opened) -> None:
    alone = override(Settings(), {"rerank": {"backend": "none"}}, where="test")
    tuned = tune(opened.under(alone), alone, world[1], MEASURE)
    assert "rerank" not in tuned.best.settings
    assert tuned.what == "the whole pipeline, without reranking"
