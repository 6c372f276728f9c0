"""Measures are those of ir_measures and trec_eval, for every judged query and of one order."""

from pathlib import Path

import ir_measures
import pytest
from hypothesis import given, strategies as st
from samples import Program, collection, write_catalog

from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.judgments import Run, in_trec_order
from retrieve_cli.evaluation.measures import Scorer, parse

Qrels = dict[str, dict[str, int]]
NAMES = ["nDCG@10", "R@100", "AP@100", "P@5", "Success@1", "AP", "nDCG", "RR", "P(rel=2)@3"]
FURTHER = ["RR@10", "RR@1", "P@1", "AP@10", "Judged@3", "Rprec", "Bpref", "IPrec@0.1", "R@1"]
ids = st.sampled_from([f"d{number}" for number in range(12)])
qrels = st.dictionaries(
    st.sampled_from("abcdef"), st.dictionaries(ids, st.integers(-1, 3), min_size=1), min_size=1, max_size=5
)
scores = st.floats(-2, 2, width=32) | st.sampled_from([0.0, 0.5, 1.0])
runs = st.dictionaries(st.sampled_from("abcdefg"), st.dictionaries(ids, scores, max_size=12), max_size=6)


@given(qrels=qrels, run=runs)
def test_every_judged_query_has_the_value_that_ir_measures_gives_it(qrels: Qrels, run: Run) -> None:
    """A run file with ties has the values of trec_eval; RR@10 is computed by another program, and follows from RR."""
    measures = parse(NAMES)
    ordered = {query: in_trec_order(scores) for query, scores in run.items()}
    found = Scorer([*measures, *parse(["RR@10"])], qrels)(ordered)
    assert found.pop("RR@10") == {query: value if value >= 0.1 else 0 for query, value in found["RR"].items()}
    qrels = {query: {name: max(grade, 0) for name, grade in grades.items()} for query, grades in qrels.items()}
    theirs = {
        (str(metric.measure), metric.query_id): metric.value
        for metric in ir_measures.iter_calc(measures, qrels, {q: r for q, r in run.items() if q in qrels})
    }
    means = ir_measures.calc_aggregate(measures, qrels, {q: r for q, r in run.items() if q in qrels})
    for measure in measures:
        values = found[str(measure)]
        assert list(values) == list(qrels)
        for query, value in values.items():
            assert value == theirs.get((str(measure), query), measure.DEFAULT)
        assert sum(values.values()) / len(values) == pytest.approx(means[measure])


@given(grades=st.dictionaries(ids, st.integers(0, 1), min_size=1), shown=st.permutations([f"d{n}" for n in range(12)]))
def test_every_measure_sees_the_order_of_the_run_also_among_equal_scores(
    grades: dict[str, int], shown: list[str]
) -> None:
    measures = parse([*NAMES, *FURTHER])
    tied = Scorer(measures, {"q": grades})({"q": dict.fromkeys(shown, 0.5)})
    falling = {"q": {name: 12.0 - place for place, name in enumerate(shown)}}
    assert tied == Scorer(measures, {"q": grades})(falling)
    first = next((rank for rank, name in enumerate(shown, 1) if grades.get(name)), None)
    assert tied["RR"]["q"] == (1 / first if first else 0.0)
    assert tied["RR@10"]["q"] == (1 / first if first and first <= 10 else 0.0)
    assert tied["P@1"] == tied["Success@1"] == tied["RR@1"] == {"q": float(first == 1)}


MEASURED = "RR,RR@10,AP@10,nDCG@10,P@1"


def test_records_with_equal_texts_are_measured_as_they_are_shown(retrieve: Program, tmp_path: Path) -> None:
    twins = [{"id": name, "name": "Kettle", "description": "boils water"} for name in ("a", "b", "c")]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "twins.jsonl", twins)).code == 0
    gold = write_catalog(tmp_path / "gold.jsonl", [{"id": "1", "query": "boils water", "relevant": ["a"]}])
    shown = retrieve("query", "boils water", "--format", "trec").out.splitlines()
    assert [line.split()[2] for line in shown] == ["a", "b", "c"]
    assert len({line.split()[4] for line in shown}) == 3
    done = retrieve("eval", "--gold", gold, "--measure", MEASURED, "--run-out", "run", "--json")
    assert set(done.json["metrics"].values()) == {1.0}, done.json
    again = retrieve("eval", "--gold", gold, "--metrics", MEASURED, "--run", "run", "--json")
    assert again.json["metrics"] == done.json["metrics"]
    Path("ties").write_text("".join(f"1 Q0 {name} 1 9.0 x\n" for name in "abc"))
    foreign = retrieve("eval", "--gold", gold, "--metrics", MEASURED, "--run", "ties", "--json").json["metrics"]
    assert foreign == pytest.approx({"RR": 1 / 3, "RR@10": 1 / 3, "AP@10": 1 / 3, "nDCG@10": 0.5, "P@1": 0})


def test_help_and_output_of_eval_say_metric(retrieve: Program, index: Path) -> None:
    gold = write_catalog(Path("gold.jsonl"), [{"query": "lungs", "relevant": ["lungs"]}])
    assert retrieve("eval", "--gold", gold).out.startswith("metric ")
    assert " measures" not in retrieve("eval", "--help").out.replace("--measures", "")


def test_the_cases_of_ties_have_one_order(retrieve: Program) -> None:
    case = collection("../cases/eval-ties")
    assert retrieve("build", "--catalog", case / "twins.jsonl").code == 0
    done = retrieve("eval", "--gold", case / "twins.gold.jsonl", "--metrics", MEASURED, "--json")
    assert set(done.json["metrics"].values()) == {1.0}, done.json
    flags = ("--queries", case / "q.tsv", "--qrels", case / "qrels.one", "--run", case / "run.one")
    found = retrieve("eval", *flags, "--metrics", MEASURED, "--json").json["metrics"]
    assert found["RR"] == found["RR@10"]


@pytest.mark.parametrize(
    ("name", "hint"), [("nDGC@10", "nDCG@10"), ("foo", "R@100"), ("nDCG@x", "nDCG"), ("", "nDCG@10"), ("P@5@3", "P@10")]
)
def test_a_name_that_is_no_measure_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([name])
    assert hint in caught.value.hint
