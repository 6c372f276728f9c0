"""Measures are those of ir_measures and trec_eval, for every judged query."""

import ir_measures
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.judgments import Run, read_run
from retrieve_cli.evaluation.measures import DEFAULT, parse, per_query, ranked
from retrieve_cli.evaluation.trial import run_lines

Qrels = dict[str, dict[str, int]]
NAMES = [*DEFAULT, "P@5", "Success@1", "AP", "nDCG", "RR", "P(rel=2)@3"]
ids = st.sampled_from([f"d{number}" for number in range(12)])
qrels = st.dictionaries(
    st.sampled_from("abcdef"), st.dictionaries(ids, st.integers(-1, 3), min_size=1), min_size=1, max_size=5
)
scores = st.floats(-2, 2, width=32) | st.sampled_from([0.0, 0.5, 1.0])
runs = st.dictionaries(st.sampled_from("abcdefg"), st.dictionaries(ids, scores, max_size=12), max_size=6)


@given(qrels=qrels, run=runs)
def test_every_judged_query_has_the_value_that_ir_measures_gives_it(qrels: Qrels, run: Run) -> None:
    measures = parse(NAMES)
    found = per_query(measures, qrels, run)
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


@given(qrels=qrels, run=runs)
def test_a_run_that_is_written_and_read_again_is_measured_the_same(
    qrels: Qrels, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.trec"
    path.write_text(run_lines(run, tag="t"))
    measures = parse(NAMES)
    again = read_run(path) if path.stat().st_size else {}
    assert per_query(measures, qrels, again) == per_query(measures, qrels, run)
    for line in path.read_text().splitlines():
        query, _, _, rank, _, _ = line.split()
        assert 1 <= int(rank) <= len(run[query])


@given(st.dictionaries(st.text("ab#é", min_size=1, max_size=3), st.sampled_from([0.5, 1.0, 1.0 + 1e-12]), min_size=2))
def test_ranks_are_those_of_trec_eval_for_equal_scores_too(scores: dict[str, float]) -> None:
    """The rank of each record is 1 / RR where it alone is relevant."""
    for rank, (name, _) in enumerate(ranked(scores), 1):
        (found,) = ir_measures.calc_aggregate([ir_measures.RR], {"q": {name: 1}}, {"q": scores}).values()
        assert rank == round(1 / found)
    assert [line.split()[2] for line in run_lines({"q": scores}, tag="t").splitlines()] == [
        name for name, _ in ranked(scores)
    ]


@pytest.mark.parametrize(
    ("name", "hint"), [("nDGC@10", "nDCG@10"), ("foo", "R@100"), ("nDCG@x", "nDCG"), ("", "nDCG@10"), ("P@5@3", "P@10")]
)
def test_a_name_that_is_no_measure_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([name])
    assert hint in caught.value.hint
