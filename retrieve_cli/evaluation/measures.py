"""Measures by their ir_measures names, computed by that package, per query first.

Every judged query has a value: the measure's default if the query has no results. All measures see
one order: the one of our answers, and for run files trec_eval's. The curves of a run, precision
over recall and nDCG over the cut-off, are means over all queries with grades; a query without
results counts as 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from math import fsum, isnan
from string import whitespace
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.evaluation.judgments import Grades, Run
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from ir_measures import Measure

DEFAULT = ("nDCG@10", "R@100", "RR@10", "AP@100")
_DEEP = 1000
"""Results that a measure without a cutoff gets."""
_DEEPEST = 100_000
_LONGEST_NAME = 200
_EXAMPLE = f"for example: {' '.join(DEFAULT)}"
_BASE = re.compile(r"\w*")
"""The part of a measure's name before its cutoff and parameters."""

Values = Mapping[str, Mapping[str, float]]
"""Values by measure, then by query id."""


def names(texts: Sequence[str]) -> list[str]:
    """Return names that are separated by blanks or commas outside brackets."""
    return [name for text in texts for name in pieces(text, f",{whitespace}") if name]


def pieces(text: str, separators: str) -> Iterator[str]:
    """Yield the parts of a text between separators outside brackets."""
    start, depth = 0, 0
    for place, char in enumerate(text):
        depth = max(0, depth + (char in "([{") - (char in ")]}"))
        if not depth and char in separators:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def parse(names: Sequence[str]) -> list[Measure]:
    """Return the measures of these names in any case, each once.

    Raises:
        UsageError: a name is not a measure, or nothing here computes it; suggests the nearest one.
    """
    measures = {str(measure): measure for measure in map(_measure, names)}
    if not measures:
        raise UsageError("no metric is named", hint=_EXAMPLE)
    Scorer(list(measures.values()), {"1": {"1": 1}})({"1": {"1": 1.0}})
    return list(measures.values())


def _measure(name: str) -> Measure:
    ir_measures = package_of_eval("ir_measures", "ir-measures")
    if len(name) > _LONGEST_NAME:  # the package hands it to Python's parser
        raise UsageError(f"{quoted(name)} is not a metric: it is too long", hint=_EXAMPLE)
    base = _BASE.match(name)[0]  # type: ignore[index]
    spellings = {known.casefold(): known for known in reversed(ir_measures.measures.registry)}  # aliases come last
    if base.casefold() not in spellings:
        near = nearest(base.casefold(), spellings)
        hint = f"did you mean `{spellings[near]}{name[len(base) :] or '@10'}`?" if near else _EXAMPLE
        raise UsageError(f"{quoted(name)} is not a metric", hint=hint)
    try:
        measure = ir_measures.parse_measure(spellings[base.casefold()] + name[len(base) :])
    except (NameError, SyntaxError, ValueError, TypeError, KeyError, AssertionError) as error:
        raise UsageError(f"{quoted(name)} is not a metric: {error}", hint=_EXAMPLE) from error
    if not isinstance(measure, ir_measures.measures.Measure):
        raise UsageError(f"{quoted(name)} is not a metric", hint=_EXAMPLE)
    if not 1 <= depth([measure]) <= _DEEPEST:
        raise UsageError(f"{quoted(name)} looks at no rank", hint=f"a cutoff is a whole number from 1 to {_DEEPEST}")
    return measure  # type: ignore[no-any-return]


def depth(measures: Sequence[Measure]) -> int:
    """Return how many results of each query the measures need."""
    cutoffs = [measure.params.get("cutoff") for measure in measures]
    return max((_DEEP if cutoff is None else int(cutoff) for cutoff in cutoffs), default=0)


class Scorer:
    """Measures of any number of runs on the same judgments."""

    def __init__(self, measures: Sequence[Measure], qrels: Mapping[str, Grades]) -> None:
        self._measures = measures
        # trec_eval hangs on a query whose grades are all below 0: none of them is relevant.
        self._judged = {
            query: dict(grades) if any(grade >= 0 for grade in grades.values()) else dict.fromkeys(grades, 0)
            for query, grades in qrels.items()
        }
        self._evaluator = lru_cache(maxsize=1)(self._of)
        with _as_usage_errors(measures):
            self._evaluator(frozenset(self._judged))

    def _of(self, queries: frozenset[str]) -> Any:
        return package_of_eval("ir_measures", "ir-measures").evaluator(
            self._measures, {name: self._judged[name] for name in self._judged if name in queries}
        )

    def __call__(self, run: Run) -> dict[str, dict[str, float]]:
        """Return the value of each measure for each judged query, in the order of the judgments.

        Raises:
            UsageError: no installed program computes one of the measures.
        """
        found: dict[str, dict[str, float]] = {str(measure): {} for measure in self._measures}
        # Queries without results are skipped: trec_eval reads beyond its memory on an empty one.
        # Scores that fall leave no ties, which the programs behind ir_measures break differently.
        answered = {
            query: {name: float(-place) for place, name in enumerate(run[query])}
            for query in self._judged
            if run.get(query)
        }
        with _as_usage_errors(self._measures):
            for metric in self._evaluator(frozenset(answered)).iter_calc(answered) if answered else ():
                # trec_eval divides by the number of hits: interpolated precision of none is NaN there.
                value = metric.measure.DEFAULT if isnan(metric.value) else metric.value
                found[str(metric.measure)][metric.query_id] = float(value)
        return {
            str(measure): {query: found[str(measure)].get(query, float(measure.DEFAULT)) for query in self._judged}
            for measure in self._measures
        }


@contextmanager
def _as_usage_errors(measures: Sequence[Measure]) -> Iterator[None]:
    """Turn errors of the package about measures that it cannot compute into usage errors."""
    try:
        yield
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, SystemError, TypeError, ValueError) as error:
        names = ", ".join(map(str, measures))
        raise UsageError(f"{names} cannot be computed: {error}", hint=_EXAMPLE) from error


def package_of_eval(module: str, package: str) -> Any:
    """Return a module of a package that only evaluations need.

    Raises:
        Unavailable: the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        hint = "pip install 'retrieve-cli[eval]'"
        raise Unavailable(f"the package {package} is not installed", hint=hint) from error


RECALLS = tuple(step / 10 for step in range(11))
CUTOFFS = (1, 2, 3, 5, 10, 20, 50, 100)

Points = Sequence[tuple[float, float]]
"""Places on the x axis, each with the mean there."""


class Curves(Frozen):
    """Precision by recall and nDCG by rank, as means over queries."""

    queries: int
    """Number of queries with grades."""
    depth: int
    """The largest number of hits of a query."""
    precision: Points
    """Interpolated precision at the recalls 0.0, 0.1 ... 1.0: the highest at this recall or a later one."""
    ndcg: Points
    """nDCG at the cut-offs up to `depth`, the first of them always."""


def curves(qrels: Mapping[str, Grades], run: Run) -> Curves | None:
    """Return the curves of a run over the queries with grades; None if no query has grades.

    Raises:
        Unavailable: the package that computes measures is not installed.
    """
    graded = {query: grades for query, grades in qrels.items() if grades}
    if not graded:
        return None
    depth = max(len(run.get(query, {})) for query in graded)
    cutoffs = [cutoff for cutoff in CUTOFFS if cutoff <= max(depth, 1)]
    measures = parse([*(f"IPrec@{recall}" for recall in RECALLS), *(f"nDCG@{cutoff}" for cutoff in cutoffs)])
    means = [fsum(values.values()) / len(values) for values in Scorer(measures, graded)(run).values()]
    return Curves(
        queries=len(graded),
        depth=depth,
        precision=list(zip(RECALLS, means[: len(RECALLS)], strict=True)),
        ndcg=list(zip(map(float, cutoffs), means[len(RECALLS) :], strict=True)),
    )
