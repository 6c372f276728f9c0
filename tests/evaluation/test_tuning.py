"""Tuning: settings recombined in memory are those of the pipeline, and what is recommended holds on unseen queries."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st
from profiles import examples
from retrieve_cli.experiments.recombination import Recombination
from samples import Program, write_catalog

from retrieve_cli.assemble import variants
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Query
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import parse
from retrieve_cli.experiments.choices import Choice
from retrieve_cli.experiments.tuning import Tuned, _folds, tune
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

WORDS = [
    f"{first}{second}" for first in ("ka", "lo", "mi", "ne", "pu", "ra") for second in ("tu", "so", "vi", "ze", "bo")
]
MEASURE = parse(["nDCG@10"])[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Topic]]:
    """An index of records of random words, and queries of two words each whose records hold both often."""
    from retrieve_cli.cli.main import main

    folder = tmp_path_factory.mktemp("tune")
    generator = np.random.default_rng(3)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    texts = [generator.choice(WORDS, 12, p=weights / weights.sum()).tolist() for _ in range(120)]
    path = write_catalog(
        folder / "c.jsonl",
        [
            {"id": f"r{at:03}", "name": " ".join(text[:2]), "description": " ".join(text)}
            for at, text in enumerate(texts)
        ],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        assert main(["build", "--catalog", str(path), "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    topics = []
    for number in range(40):
        pair = generator.choice(WORDS, 2, replace=False).tolist()
        counts = {f"r{at:03}": sum(map(text.count, pair)) for at, text in enumerate(texts)}
        best = sorted(counts, key=lambda name: (-counts[name], name))[:3]
        topics.append(Topic(f"q{number}", " ".join(pair), dict.fromkeys(best, 1)))
    return folder / "artifacts", topics


@pytest.fixture
def searcher(world: tuple[Path, list[Topic]]) -> Searcher:
    return Searcher(Store(world[0]), Settings())


choices = st.builds(
    Choice,
    method=st.sampled_from(["weighted", "rrf"]),
    normalization=st.sampled_from(["zscore", "zscore_candidates", "minmax"]),
    dense_weight=st.sampled_from([0.05, 0.35, 0.65, 0.95]),
    bm25_weight=st.sampled_from([0.05, 0.35, 0.65, 0.95]),
    rrf_k=st.sampled_from([10.0, 60.0]),
    depth=st.sampled_from([20, 50, 200]),
    k1=st.sampled_from([0.6, 1.2, 2.0]),
    b=st.sampled_from([0.2, 0.75]),
)


@pytest.mark.slow
@hypothesis_settings(max_examples=examples(1), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=choices)
def test_what_is_recombined_in_memory_is_what_the_pipeline_answers(
    world: tuple[Path, list[Topic]], searcher: Searcher, choice: Choice
) -> None:
    topics = world[1]
    table = Recombination(searcher, Settings(), topics, MEASURE, k=10)
    ours = table.run(choice)
    sections = {name: keys for name, keys in choice.settings.items() if name != "bm25"}
    formula = variants.formula_of(searcher.generation, **choice.settings["bm25"])
    under = searcher.under(override(Settings(), sections, where="test"), variants.reweighted(searcher.indexes, formula))
    ranked = under.rank([Query(topic.text, topic.id) for topic in topics], k=10, mode="hybrid")
    for ranking in ranked.rankings:
        theirs = {searcher.generation.record_id(hit.record): hit.score for hit in ranking.hits}
        assert ours[ranking.query.id] == pytest.approx(theirs, rel=1e-5, abs=1e-6)  # a float32 product by other blocks


def test_folds_part_the_queries_whatever_their_order() -> None:
    names = [f"q{number}" for number in range(23)]
    folds = _folds(names)
    assert sorted(np.concatenate(folds).tolist()) == list(range(23))
    assert {len(fold) for fold in folds} == {4, 5}
    backward = [{names[::-1][at] for at in fold} for fold in _folds(names[::-1])]
    assert backward == [{names[at] for at in fold} for fold in folds]


def test_a_weight_that_helps_everywhere_is_found_and_recommended(
    world: tuple[Path, list[Topic]], searcher: Searcher
) -> None:
    bad = override(Settings(), {"fusion": {"dense_weight": 0.0, "bm25_weight": 1.0}}, where="test")
    tuned = tune(searcher.under(bad), bad, world[1], MEASURE)
    assert tuned.recommended
    assert tuned.held_out.mean > 0.02
    assert tuned.best.dense_weight > 0
    assert tuned.mean_best > tuned.mean + 0.02
    assert tuned.mean == pytest.approx(_value(searcher.under(bad), world[1]))


def _value(searcher: Searcher, topics: list[Topic]) -> float:
    from retrieve_cli.experiments.evaluate import evaluate

    return evaluate(searcher, topics, [MEASURE], mode="hybrid").metrics["nDCG@10"]


@pytest.mark.slow
def test_judgments_by_lot_give_nothing_to_recommend(world: tuple[Path, list[Topic]], searcher: Searcher) -> None:
    """Of eight sets of random judgments, on which any setting is as good as another, hardly one may be taken up."""
    taken = 0
    for seed in range(8):
        generator = np.random.default_rng(seed)
        topics = [
            Topic(topic.id, topic.text, {f"r{at:03}": 1 for at in generator.choice(120, 12, replace=False).tolist()})
            for topic in world[1]
        ]
        tuned = tune(searcher, Settings(), topics, MEASURE)
        taken += tuned.recommended
        assert tuned.mean_best >= tuned.mean
    assert taken <= 1


def test_too_few_queries_or_one_leg_alone_are_refused(world: tuple[Path, list[Topic]], searcher: Searcher) -> None:
    with pytest.raises(UsageError, match="10 queries"):
        tune(searcher, Settings(), world[1][:9], MEASURE)
    alone = override(Settings(), {"search": {"mode": "bm25"}}, where="test")
    with pytest.raises(UsageError, match="hybrid"):
        tune(searcher, alone, world[1], MEASURE)


def test_no_depth_is_tried_that_is_less_than_what_is_asked_for_anyway(
    world: tuple[Path, list[Topic]], searcher: Searcher
) -> None:
    now = Recombination(searcher, Settings(), world[1], MEASURE, k=100).now
    assert [choice.depth for choice in now.depths(100)] == [100, 200, 500]
    shallow = tune(searcher, Settings(), world[1], MEASURE, k=10)
    assert tune(searcher, Settings(), world[1], MEASURE, k=100).tried < shallow.tried


def test_keys_that_say_nothing_under_a_method_are_no_change() -> None:
    now = Choice("weighted", "zscore", 0.65, 0.35, 60.0, 200, 1.2, 0.75)
    ranks = Choice("rrf", "minmax", 0.1, 0.9, 60.0, 200, 0.9, 0.75)
    assert ranks.changes(now) == {"fusion": {"method": "rrf", "rrf_k": 60.0}, "bm25": {"k1": 0.9}}
    assert now.changes(now) == {}


# ----------------------------------------------------------------------------------------- the program


def gold_of(topics: list[Topic], path: Path) -> Path:
    lines = ({"id": topic.id, "query": topic.text, "relevant": dict(topic.grades)} for topic in topics)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_what_is_recommended_is_written_and_measured_as_promised(
    world: tuple[Path, list[Topic]], retrieve: Program, tmp_path: Path
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
    world: tuple[Path, list[Topic]], retrieve: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tuned, "recommended", property(lambda _: False))
    gold = gold_of(world[1], tmp_path / "gold.jsonl")
    done = retrieve("eval", "--artifacts", world[0], "--gold", gold, "--tune", "--write")
    assert done.code == 0
    assert "nothing is written" in done.err
    assert "not recommended" in done.out
    assert not Path("config.yaml").exists()
