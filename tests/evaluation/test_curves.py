"""The points of a run's curves are those of ir_measures."""

from math import isnan
from statistics import fmean

import ir_measures
import pytest
from evaluation.test_measures import Qrels, qrels, runs
from hypothesis import given

from retrieve_cli.evaluation.judgments import Run, in_trec_order
from retrieve_cli.evaluation.measures import CUTOFFS, RECALLS, curves


@given(qrels=qrels, run=runs)
def test_every_point_is_the_mean_that_ir_measures_has(qrels: Qrels, run: Run) -> None:
    found = curves(qrels, {query: in_trec_order(scores) for query, scores in run.items()})
    assert found is not None
    theirs = {
        **{("precision", recall): ir_measures.IPrec @ recall for recall in RECALLS},
        **{("ndcg", float(cutoff)): ir_measures.nDCG @ cutoff for cutoff in CUTOFFS},
    }
    judged = {query: {name: max(grade, 0) for name, grade in grades.items()} for query, grades in qrels.items()}
    answered = {query: hits for query, hits in run.items() if query in judged and hits}
    values: dict[str, list[float]] = {str(measure): [] for measure in theirs.values()}
    for metric in ir_measures.iter_calc(list(theirs.values()), judged, answered):
        values[str(metric.measure)].append(metric.value)
    for kind, points in (("precision", found.precision), ("ndcg", found.ndcg)):
        for x, mean in points:
            each = values[str(theirs[kind, x])]
            assert not any(map(isnan, each))
            assert mean == pytest.approx(fmean([*each, *[0.0] * (len(judged) - len(each))]))


def test_a_query_without_an_answer_counts_0_at_every_recall() -> None:
    found = curves({"a": {"x": 1}, "b": {"x": 1}}, {"a": {"x": 1.0}, "b": {}})
    assert found is not None
    assert [mean for _, mean in found.precision] == [0.5] * len(RECALLS)
