"""Tuning: what is remembered answers as the pipeline does, and what is recommended holds on unseen queries."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st
from samples import Program, write_catalog

from retrieve_cli.assemble import registry
from retrieve_cli.cli.main import main
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.evaluate import evaluate, queries_of
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import Scorer, parse
from retrieve_cli.evaluation.tuning import Tuned, _folds, tune
from retrieve_cli.evaluation.tuning_measures import Formula, MeasureTable, TuningSettings
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.retrieve import IndexRetrieval
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

WORDS = [
    f"{first}{second}" for first in ("ka", "lo", "mi", "ne", "pu", "ra") for second in ("tu", "so", "vi", "ze", "bo")
]
MEASURE = parse(["nDCG@10"])[0]
World = tuple[Path, list[Topic]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An index of records of random words, and queries of two words each whose records hold both often."""
    folder = tmp_path_factory.mktemp("tune")
    generator = np.random.default_rng(3)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    texts = [generator.choice(WORDS, 12, p=weights / weights.sum()).tolist() for _ in range(120)]
    records = [{"name": " ".join(text[:2]), "description": " ".join(text), "group": text[0]} for text in texts]
    asked = [generator.choice(WORDS, 2, replace=False).tolist() for _ in range(40)]
    return built(folder, records, encoder="hashed"), topics_of(texts, asked, best=3)


def built(folder: Path, records: list[dict[str, Any]], *, encoder: str) -> Path:
    """The artifacts of an index of these records, which are called r000, r001, … in their order."""
    path = write_catalog(folder / "c.jsonl", [{"id": f"r{at:03}", **record} for at, record in enumerate(records)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", encoder)
        assert main(["build", "--catalog", str(path), "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    return folder / "artifacts"


def topics_of(texts: list[list[str]], asked: list[list[str]], *, best: int) -> list[Topic]:
    """Queries of these words; relevant are the records whose texts have the largest share of them."""
    topics = []
    for number, words in enumerate(asked):
        shares = {f"r{at:03}": sum(map(text.count, words)) / len(text) for at, text in enumerate(texts)}
        names = sorted(shares, key=lambda name: (-shares[name], name))[:best]
        topics.append(Topic(f"q{number}", " ".join(words), dict.fromkeys(names, 1)))
    return topics


@pytest.fixture
def opened(world: World) -> Opened:
    return Opened.of(Store(world[0]), Settings())


def answering(opened: Opened, settings: Settings, choice: TuningSettings) -> Opened:
    """The index under a choice: its settings as a user would write them, and its formula of BM25."""
    sections = {name: keys for name, keys in choice.settings.items() if name != "bm25"}
    off: dict[str, Any] = {} if choice.rerank else {"rerank": {"backend": "none"}}
    card = opened.generation.manifest.recipe.retrievers["bm25"]
    bm25 = registry.retriever("bm25").varied(opened.indexes["bm25"], card, dict(dict(choice.formulas)["bm25"]))
    return opened.under(override(settings, {**sections, **off}, where="test"), {"bm25": bm25})


def run_of(opened: Opened, rankings: Iterable[Any]) -> Run:
    """The records of each ranking, with their scores."""
    return {
        ranking.query.id: {opened.generation.record_id(hit.record): hit.score for hit in ranking.hits}
        for ranking in rankings
    }


def values_of(run: Run, topics: list[Topic]) -> list[float]:
    """The measure of each query."""
    (by_query,) = Scorer([MEASURE], {topic.id: topic.grades for topic in topics})(run).values()
    return [by_query[topic.id] for topic in topics]


def weights_of(bm25: float, dense: float) -> tuple[tuple[str, float], ...]:
    return (("bm25", bm25), ("dense", dense))


def formula_of(k1: float, b: float) -> tuple[tuple[str, Formula], ...]:
    return (("bm25", (("k1", k1), ("b", b))),)


shares = st.sampled_from([0.05, 0.35, 0.65, 0.95])
choices = st.builds(
    TuningSettings,
    method=st.sampled_from(["weighted", "rrf"]),
    normalization=st.sampled_from(["zscore", "zscore_candidates", "minmax"]),
    weights=st.builds(weights_of, shares, shares),
    rrf_k=st.sampled_from([10.0, 60.0]),
    depth=st.sampled_from([20, 50, 200]),
    formulas=st.builds(formula_of, st.sampled_from([0.6, 1.2, 2.0]), st.sampled_from([0.2, 0.75])),
)
CONFIGURED: list[dict[str, Any]] = [
    {},
    {"diversity": {"mmr": 0.6, "per_group": 4}},
    {"gating": {"enabled": True, "top_groups": 2, "global_candidates": 40, "per_group": 3, "min_results": 8}},
    {"search": {"min_score": 0.4, "max_distance": 0.9, "depth": 30}, "gating": {"enabled": True, "top_groups": 3}},
    {"expansion": {"enabled": True, "seeds": 4}, "diversity": {"per_source": 1}},
]
"""Stages before and behind the fusion, which tuning does not change and measures with it."""


@pytest.mark.parametrize("configured", CONFIGURED, ids=["fusion", "diversity", "gate", "threshold", "expansion"])
@hypothesis_settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tried=st.lists(choices, min_size=1, max_size=3), k=st.sampled_from([10, 12, 40]))
def test_each_query_is_worth_under_a_choice_what_an_evaluation_under_these_settings_says(
    world: World, opened: Opened, configured: dict[str, Any], tried: list[TuningSettings], k: int
) -> None:
    topics = world[1][:12]
    settings = override(Settings(), configured, where="test")
    table = MeasureTable(opened.under(settings), settings, topics, MEASURE, k=k)
    for choice in [*tried, table.now]:
        under = answering(opened, settings, choice)
        ranked = Searcher(under, under.options(k=k)).rank(queries_of(under, topics, []))
        run = run_of(opened, ranked.rankings)
        assert str(table.pipeline(choice)) == str(ranked.pipeline)
        assert table.run(choice) == {name: pytest.approx(scores, rel=1e-5, abs=1e-6) for name, scores in run.items()}
        assert table.values(choice).tolist() == pytest.approx(values_of(run, topics), abs=1e-9)


def test_what_a_table_says_is_what_evaluate_measures(world: World, opened: Opened) -> None:
    table = MeasureTable(opened, Settings(), world[1], MEASURE, k=10)
    ranks = replace(table.now, method="rrf", rrf_k=10.0, depth=50)
    for choice in (table.now, ranks, replace(table.now, weights=weights_of(0.9, 0.1))):
        found = evaluate(answering(opened, Settings(), choice), world[1], [MEASURE])
        assert table.values(choice).tolist() == pytest.approx(list(found.per_query["nDCG@10"].values()))


def test_a_retriever_alone_is_worth_what_it_is_as_a_mode(world: World, opened: Opened) -> None:
    table = MeasureTable(opened, Settings(), world[1], MEASURE, k=10)
    for k1, b in ((1.2, 0.75), (0.6, 0.2)):
        ((name, formula),) = formula_of(k1, b)
        choice = replace(table.now, formulas=formula_of(k1, b))
        settings = override(Settings(), {"search": {"mode": "bm25"}}, where="test")
        found = evaluate(answering(opened, settings, choice), world[1], [MEASURE])
        assert found.pipeline == "bm25@200"
        assert table.alone(name, formula).tolist() == pytest.approx(list(found.per_query["nDCG@10"].values()))


def test_equal_scores_on_both_sides_of_the_cut_off_are_ordered_as_the_measure_does(opened: Opened) -> None:
    """Under the first five of 120 equal hits, all of them count: the measure puts the last id first."""
    topics = [Topic("q", "katu", {"r119": 1})]
    flat = override(Settings(), {"fusion": {"weights": {"bm25": 0.0, "dense": 0.0}}}, where="test")
    table = MeasureTable(opened.under(flat), flat, topics, parse(["nDCG@5"])[0], k=100)
    found = evaluate(opened.under(flat), topics, [*parse(["nDCG@5"]), *parse(["R@100"])])
    assert table.values(table.now).tolist() == list(found.per_query["nDCG@5"].values())
    assert len(next(iter(table.run(table.now).values()))) == 100


def test_each_text_is_searched_once_for_each_formula_whatever_else_is_tried(
    world: World, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    ask = IndexRetrieval.ask

    def counted(self: IndexRetrieval[Any], queries: Any) -> Any:
        asked.extend((self.name, query.text) for query in queries)
        return ask(self, queries)

    monkeypatch.setattr(IndexRetrieval, "ask", counted)
    table = MeasureTable(opened, Settings(), world[1], MEASURE, k=10)
    for choice in [*table.now.fusions(), *table.now.depths(10)]:
        table.values(choice)
    assert table.tried > 50
    assert len(asked) == len(set(asked)) == 2 * len({topic.text for topic in world[1]})


def test_folds_part_the_queries_whatever_their_order() -> None:
    names = [f"q{number}" for number in range(23)]
    folds = _folds(names)
    assert sorted(np.concatenate(folds).tolist()) == list(range(23))
    assert {len(fold) for fold in folds} == {4, 5}
    backward = [{names[::-1][at] for at in fold} for fold in _folds(names[::-1])]
    assert backward == [{names[at] for at in fold} for fold in folds]


def test_a_weight_that_helps_everywhere_is_found_and_recommended(world: World, opened: Opened) -> None:
    bad = override(Settings(), {"fusion": {"weights": {"dense": 0.0, "bm25": 1.0}}}, where="test")
    tuned = tune(opened.under(bad), bad, world[1], MEASURE)
    assert tuned.recommended
    assert tuned.held_out.mean > 0.02
    assert dict(tuned.best.weights)["dense"] > 0
    assert tuned.mean_best > tuned.mean + 0.02
    assert tuned.mean == pytest.approx(_value(opened.under(bad), world[1]))


def _value(opened: Opened, topics: list[Topic]) -> float:
    return evaluate(opened, topics, [MEASURE]).metrics["nDCG@10"]


def test_judgments_by_lot_give_nothing_to_recommend(world: World, opened: Opened) -> None:
    """Of eight sets of random judgments, on which any setting is as good as another, hardly one may be taken up."""
    taken = 0
    for seed in range(8):
        generator = np.random.default_rng(seed)
        topics = [
            Topic(topic.id, topic.text, {f"r{at:03}": 1 for at in generator.choice(120, 12, replace=False).tolist()})
            for topic in world[1]
        ]
        tuned = tune(opened, Settings(), topics, MEASURE)
        taken += tuned.recommended
        assert tuned.mean_best >= tuned.mean
    assert taken <= 1


def test_too_few_queries_or_one_leg_alone_are_refused(world: World, opened: Opened) -> None:
    with pytest.raises(UsageError, match="10 queries"):
        tune(opened, Settings(), world[1][:9], MEASURE)
    alone = override(Settings(), {"search": {"mode": "bm25"}}, where="test")
    with pytest.raises(UsageError, match="hybrid"):
        tune(opened.under(alone), alone, world[1], MEASURE)


def test_no_depth_is_tried_that_is_less_than_what_is_asked_for_anyway(world: World, opened: Opened) -> None:
    now = MeasureTable(opened, Settings(), world[1], MEASURE, k=100).now
    assert [choice.depth for choice in now.depths(100)] == [100, 200, 500]
    shallow = tune(opened, Settings(), world[1], MEASURE, k=10)
    assert tune(opened, Settings(), world[1], MEASURE, k=100).tried < shallow.tried


def test_a_retriever_that_weighs_nothing_gets_the_weight_that_another_loses() -> None:
    for bm25, dense in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.35, 0.65)):
        now = TuningSettings("weighted", "zscore", weights_of(bm25, dense), 60.0, 200)
        found = {choice.weights for choice in now.fusions() if choice.method == "weighted"}
        assert weights_of(0.35, 0.65) in found
        assert {round(sum(dict(weights).values()), 2) for weights in found} == {1.0}


def test_of_three_retrievers_each_is_weighed_in_turn_and_the_others_keep_their_proportion() -> None:
    now = TuningSettings("weighted", "zscore", (("bm25", 0.2), ("dense", 0.6), ("splade", 0.2)), 60.0, 200)
    found = [dict(choice.weights) for choice in now.fusions() if choice.method == "weighted"]
    assert {"bm25": 0.1, "dense": 0.3, "splade": 0.6} in found
    assert {"bm25": 0.25, "dense": 0.5, "splade": 0.25} in found
    assert {"bm25": 0.6, "dense": 0.3, "splade": 0.1} in found


def test_keys_that_say_nothing_under_a_method_are_no_change() -> None:
    now = TuningSettings("weighted", "zscore", weights_of(0.35, 0.65), 60.0, 200, formula_of(1.2, 0.75))
    ranks = TuningSettings("rrf", "minmax", weights_of(0.9, 0.1), 60.0, 200, formula_of(0.9, 0.75))
    assert ranks.changes(now) == {"fusion": {"method": "rrf", "rrf_k": 60.0}, "bm25": {"k1": 0.9}}
    assert now.changes(now) == {}


# ----------------------------------------------------------------------------------------- the program


def gold_of(topics: list[Topic], path: Path) -> Path:
    """A file of these topics."""
    lines = [{"id": topic.id, "query": topic.text, "relevant": dict(topic.grades)} for topic in topics]
    return write_catalog(path, lines)


def test_what_is_recommended_is_written_and_measured_as_promised(
    world: World, retrieve: Program, tmp_path: Path
) -> None:
    artifacts, topics = world
    gold = gold_of(topics, tmp_path / "gold.jsonl")
    config = Path("config.yaml")
    before = "# mine\nfusion:\n  dense_weight: 0.0  # nothing\n  bm25_weight: 1.0\n"
    config.write_text(before)
    flags = ["eval", "--artifacts", artifacts, "--gold", gold, "--metrics", "nDCG@10", "--json"]
    done = retrieve(*flags, "--tune")
    assert config.read_text() == before
    done = retrieve(*flags, "--tune", "--write")
    assert done.code == 0, done.err
    tuning = done.json["tuning"]
    assert tuning["recommended"]
    assert "# mine" in config.read_text()
    assert "# nothing" in config.read_text()
    written = yaml.safe_load(config.read_text())
    assert {name: written[name] | keys for name, keys in tuning["changes"].items()} == {
        name: written[name] for name in tuning["changes"]
    }
    formula = tuning["changes"].get("bm25", {})
    change = ",".join(f"bm25.{key}={value}" for key, value in formula.items())
    after = retrieve(*flags, *(["--with", change] if change else [])).json
    reached = after["arms"][0] if change else after
    assert reached["metrics"]["nDCG@10"] == pytest.approx(tuning["value_best_in_sample"])


def test_what_is_within_noise_is_not_written(
    world: World, retrieve: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tuned, "recommended", property(lambda _: False))
    gold = gold_of(world[1], tmp_path / "gold.jsonl")
    done = retrieve("eval", "--artifacts", world[0], "--gold", gold, "--tune", "--write")
    assert done.code == 0
    assert "nothing written" in done.err
    assert "not recommended" in done.out
    assert not Path("config.yaml").exists()
