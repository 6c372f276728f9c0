"""Tuning: each setting is a plain evaluation, and what is recommended holds on unseen queries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from samples import Program, write_catalog

from retrieve_cli.cli.main import main
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.evaluate import evaluate
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import parse
from retrieve_cli.evaluation.runs import Answers
from retrieve_cli.evaluation.tuning import MOST, _fusions, folds, grid, nested, tune
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
def index(world: World) -> Answers:
    return Answers.of("as configured", Store(world[0]), Settings())


def under(index: Answers, **sections: dict[str, Any]) -> Answers:
    return index.under(index.name, override(index.settings, sections, where="test"))


def test_the_grid_has_at_most_60_settings_the_configured_one_first(index: Answers) -> None:
    for settings in (index, under(index, fusion={"method": "rrf"})):
        found = list(grid(settings))
        assert found[0] == {}
        assert len({repr(setting) for setting in found}) == len(found) <= MOST
        assert {"bm25.k1", "fusion.weights", "fusion.rrf_k"} <= {name for setting in found for name in setting}


def test_a_setting_is_worth_what_an_evaluation_under_it_says(world: World, index: Answers) -> None:
    bad = under(index, fusion={"weights": {"dense": 0.0, "bm25": 1.0}})
    tuned = tune(bad, world[1], MEASURE, k=10)
    best = override(bad.settings, nested(tuned.best), where="test")
    opened = bad.with_changes("best", tuned.best, best).opened
    assert tuned.mean == pytest.approx(evaluate(bad.opened, world[1], [MEASURE]).metrics["nDCG@10"])
    assert tuned.mean_best == pytest.approx(evaluate(opened, world[1], [MEASURE]).metrics["nDCG@10"])


def test_a_weight_that_helps_everywhere_is_found_and_recommended(world: World, index: Answers) -> None:
    tuned = tune(under(index, fusion={"weights": {"dense": 0.0, "bm25": 1.0}}), world[1], MEASURE, k=10)
    assert tuned.recommended
    assert tuned.gain.mean > 0.02
    assert tuned.held_out.mean == pytest.approx(tuned.mean + tuned.gain.mean)
    assert tuned.mean_best > tuned.mean + 0.02


def test_judgments_by_lot_give_nothing_to_recommend(world: World, index: Answers) -> None:
    """Of four sets of random judgments, on which any setting is as good as another, hardly one may be taken up."""
    taken = 0
    for seed in range(4):
        generator = np.random.default_rng(seed)
        topics = [
            Topic(topic.id, topic.text, {f"r{at:03}": 1 for at in generator.choice(120, 12, replace=False).tolist()})
            for topic in world[1]
        ]
        tuned = tune(index, topics, MEASURE, k=10)
        taken += tuned.recommended
        assert tuned.mean_best >= tuned.mean
    assert taken <= 1


def test_folds_part_the_queries_whatever_their_order() -> None:
    names = [f"q{number}" for number in range(23)]
    parts = folds(names)
    assert sorted(np.concatenate(parts).tolist()) == list(range(23))
    assert {len(fold) for fold in parts} == {4, 5}
    backward = [{names[::-1][at] for at in fold} for fold in folds(names[::-1])]
    assert backward == [{names[at] for at in fold} for fold in parts]


def test_too_few_queries_or_one_retriever_alone_are_refused(world: World, index: Answers) -> None:
    with pytest.raises(UsageError, match="10 queries"):
        tune(index, world[1][:9], MEASURE, k=10)
    with pytest.raises(UsageError, match="hybrid"):
        tune(under(index, search={"mode": "bm25"}), world[1], MEASURE, k=10)


def weighed(weights: dict[str, float]) -> list[Any]:
    return list(_fusions("weighted", "zscore", weights))


def test_of_three_retrievers_each_is_weighed_in_turn_and_the_others_keep_their_proportion() -> None:
    found = [setting.get("fusion.weights") for setting in weighed({"bm25": 0.2, "dense": 0.6, "splade": 0.2})]
    assert {"bm25": 0.05, "dense": 0.15, "splade": 0.8} in found
    assert {"bm25": 0.25, "dense": 0.5, "splade": 0.25} in found
    assert {"bm25": 0.1, "dense": 0.8, "splade": 0.1} in found
    assert {"bm25": 0.5, "dense": 0.375, "splade": 0.125} in found


# ----------------------------------------------------------------------------------------- the program


def test_the_best_setting_is_printed_as_lines_for_the_configuration(
    world: World, retrieve: Program, tmp_path: Path
) -> None:
    artifacts, topics = world
    lines = [{"id": topic.id, "query": topic.text, "relevant": dict(topic.grades)} for topic in topics]
    gold = write_catalog(tmp_path / "gold.jsonl", lines)
    config = Path("config.yaml")
    config.write_text("fusion: {weights: {dense: 0.0, bm25: 1.0}}\n")
    flags = ["eval", "--artifacts", artifacts, "--gold", gold, "--metrics", "nDCG@10"]
    tuning = retrieve(*flags, "--tune", "--json").json["tuning"]
    assert tuning["recommended"]
    assert tuning["settings_tried"] <= MOST
    done = retrieve(*flags, "--tune")
    assert f"tried {tuning['settings_tried']} settings, checked on 5 held-out folds" in done.out
    printed = done.out.split("recommended: put these lines into config.yaml", 1)[1].split("\n", 1)[1]
    assert yaml.safe_load(printed) == tuning["changes"]
