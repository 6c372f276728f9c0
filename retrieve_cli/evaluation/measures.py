"""Measures by their ir_measures names, computed by that package, per query first.

Every judged query has a value: one that was not answered has the measure's default. Scores decide the order, and ties
are broken as trec_eval breaks them, so that anybody gets the same numbers from the run as it is written to a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_float
from difflib import get_close_matches
from math import isnan
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.evaluation.judgments import Grades, Run

if TYPE_CHECKING:
    from ir_measures import Measure

DEFAULT = ("nDCG@10", "R@100", "RR@10", "AP@100")
_DEEP = 1000
"""Results that a measure without a cut-off is given."""

Values = Mapping[str, Mapping[str, float]]
"""By measure, by query id."""


def parse(names: Sequence[str]) -> list[Measure]:
    """The measures of these names, each once.

    Raises:
        UsageError: a name is no measure; names the nearest one.
    """
    ir_measures = _package()
    found: dict[str, Measure] = {}
    for name in names:
        try:
            measure = ir_measures.parse_measure(name)
        except (NameError, SyntaxError, ValueError, TypeError, KeyError, AssertionError) as error:
            near = get_close_matches(name.partition("@")[0], list(ir_measures.measures.registry), n=1, cutoff=0.5)
            hint = f"did you mean `{near[0]}@10`?" if near else f"for example: {' '.join(DEFAULT)}"
            raise UsageError(f"{name!r} is no measure ({error})", hint=hint) from error
        if not isinstance(measure, ir_measures.measures.Measure):
            raise UsageError(f"{name!r} is no measure", hint=f"for example: {' '.join(DEFAULT)}")
        found[str(measure)] = measure
    return list(found.values())


def depth(measures: Sequence[Measure]) -> int:
    """How many results of each query the measures look at."""
    cutoffs = [measure.params.get("cutoff") for measure in measures]
    return max((_DEEP if cutoff is None else int(cutoff) for cutoff in cutoffs), default=0)


class Scorer:
    """Computes measures of any number of runs on the same judgments."""

    def __init__(self, measures: Sequence[Measure], qrels: Mapping[str, Grades]) -> None:
        self._measures = measures
        # A grade below 0 counts as 0 in every measure; given as it is, trec_eval never ends where a query has no other.
        self._judged = {
            query: {name: max(grade, 0) for name, grade in grades.items()} for query, grades in qrels.items()
        }
        with _refusing(measures):
            self._evaluator = _package().evaluator(measures, self._judged)

    def __call__(self, run: Run) -> dict[str, dict[str, float]]:
        """The value of each measure for each judged query, in the order of the judgments.

        Raises:
            UsageError: no program at hand computes one of the measures.
        """
        found: dict[str, dict[str, float]] = {str(measure): {} for measure in self._measures}
        with _refusing(self._measures):
            for metric in self._evaluator.iter_calc({query: dict(run.get(query, {})) for query in self._judged}):
                # trec_eval divides by the number of hits: interpolated precision of none is not a number there.
                value = metric.measure.DEFAULT if isnan(metric.value) else metric.value
                found[str(metric.measure)][metric.query_id] = float(value)
        return {
            str(measure): {query: found[str(measure)].get(query, float(measure.DEFAULT)) for query in self._judged}
            for measure in self._measures
        }


def per_query(measures: Sequence[Measure], qrels: Mapping[str, Grades], run: Run) -> dict[str, dict[str, float]]:
    """The value of each measure for each judged query, in the order of the judgments.

    Raises:
        UsageError: no program at hand computes one of the measures.
    """
    return Scorer(measures, qrels)(run)


def ranked(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """The records of a query in the order in which they are measured, which is trec_eval's.

    It keeps scores in single precision, and of equal ones puts the id first that sorts last.
    """
    by_id = sorted(scores.items(), key=lambda entry: entry[0].encode(errors="surrogatepass"), reverse=True)
    return sorted(by_id, key=lambda entry: -c_float(entry[1]).value)


@contextmanager
def _refusing(measures: Sequence[Measure]) -> Iterator[None]:
    """What the package says of measures that it cannot compute, as an error of the user's."""
    try:
        yield
    except (ValueError, RuntimeError, AssertionError) as error:
        names = ", ".join(map(str, measures))
        hint = f"for example: {' '.join(DEFAULT)}"
        raise UsageError(f"{names} cannot be computed: {error}", hint=hint) from error


def _package() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        hint = "pip install 'retrieve-cli[eval]'"
        raise Unavailable("the package ir-measures is not installed", hint=hint) from error
    return ir_measures
