"""Measures by their ir_measures names, computed by that package, per query first.

Every judged query has a value: one that was not answered has the measure's default. Scores decide the order, and ties
are broken as trec_eval breaks them, so that anybody gets the same numbers from the run as it is written to a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_float
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.evaluation.judgments import Grades, Run
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from ir_measures import Measure

DEFAULT = ("nDCG@10", "R@100", "RR@10", "AP@100")
_DEEP = 1000
"""Results that a measure without a cut-off is given."""
_DEEPEST = 100_000
_LONGEST_NAME = 200

Values = Mapping[str, Mapping[str, float]]
"""By measure, by query id."""


def names(texts: Sequence[str]) -> list[str]:
    """Names that blanks or commas set apart; a comma within brackets belongs to a name."""
    return [name for text in texts for name in _split(text) if name]


def _split(text: str) -> Iterator[str]:
    """The stretches between blanks and commas that stand outside brackets."""
    start, depth = 0, 0
    for at, char in enumerate(text):
        depth = max(0, depth + (char == "(") - (char == ")"))
        if not depth and (char == "," or char.isspace()):
            yield text[start:at]
            start = at + 1
    yield text[start:]


def parse(names: Sequence[str]) -> list[Measure]:
    """The measures of these names, each once.

    Raises:
        UsageError: a name is no measure, or nothing here computes it; names the nearest one.
    """
    ir_measures = _package()
    found: dict[str, Measure] = {}
    for name in names:
        try:
            if len(name) > _LONGEST_NAME:  # the package hands it to Python's parser
                raise ValueError("it is too long")
            measure = ir_measures.parse_measure(name)
        except (NameError, SyntaxError, ValueError, TypeError, KeyError, AssertionError) as error:
            known = {each.casefold(): each for each in reversed(ir_measures.measures.registry)}  # aliases come last
            near = nearest(name.partition("@")[0].casefold(), known)
            hint = f"did you mean `{known[near]}@10`?" if near else f"for example: {' '.join(DEFAULT)}"
            raise UsageError(f"{quoted(name)} is no measure ({error})", hint=hint) from error
        if not isinstance(measure, ir_measures.measures.Measure):
            raise UsageError(f"{quoted(name)} is no measure", hint=f"for example: {' '.join(DEFAULT)}")
        if not 1 <= depth([measure]) <= _DEEPEST:
            raise UsageError(f"{quoted(name)} looks at no rank", hint=f"a cut-off goes from 1 to {_DEEPEST}")
        found[str(measure)] = measure
    if not found:
        raise UsageError("no measure is named", hint=f"for example: {' '.join(DEFAULT)}")
    Scorer(list(found.values()), {"1": {"1": 1}})({"1": {"1": 1.0}})
    return list(found.values())


def depth(measures: Sequence[Measure]) -> int:
    """How many results of each query the measures look at."""
    cutoffs = [measure.params.get("cutoff") for measure in measures]
    return max((_DEEP if cutoff is None else int(cutoff) for cutoff in cutoffs), default=0)


class Scorer:
    """Computes measures of any number of runs on the same judgments."""

    def __init__(self, measures: Sequence[Measure], qrels: Mapping[str, Grades]) -> None:
        self._measures = measures
        self._judged = {query: _bounded(grades) for query, grades in qrels.items()}
        self._evaluator = lru_cache(maxsize=1)(self._of)
        with _refusing(measures):
            self._evaluator(frozenset(self._judged))

    def _of(self, queries: frozenset[str]) -> Any:
        return _package().evaluator(
            self._measures, {name: self._judged[name] for name in self._judged if name in queries}
        )

    def __call__(self, run: Run) -> dict[str, dict[str, float]]:
        """The value of each measure for each judged query, in the order of the judgments.

        Raises:
            UsageError: no program at hand computes one of the measures.
        """
        found: dict[str, dict[str, float]] = {str(measure): {} for measure in self._measures}
        # A query that found nothing is left out: given an empty one, trec_eval reads memory that is not its own.
        answered = {query: dict(run[query]) for query in self._judged if run.get(query)}
        with _refusing(self._measures):
            for metric in self._evaluator(frozenset(answered)).iter_calc(answered) if answered else ():
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


def _bounded(grades: Grades) -> dict[str, int]:
    """Grades that trec_eval comes back from: where all are below 0 it never does, and not one of them is relevant."""
    return dict(grades) if any(grade >= 0 for grade in grades.values()) else dict.fromkeys(grades, 0)


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
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, SystemError, TypeError, ValueError) as error:
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
