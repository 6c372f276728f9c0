"""A step that was asked for and cannot run is an error if it is needed; otherwise it is skipped with a notice.

A retriever that is the only one is needed, and so is a reranker that the command asks for by name; the configuration
says of some whether they are `required` or `optional`. A deadline drops what is optional, in the order of `sacrifice`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from retrieve_cli.assemble.registry import retriever
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import RetrieveError

_RERANKS = " reranker"


def reranking(reranker: str, retrievers: Collection[str]) -> str:
    """Return the name of a reranker as a step, which is not that of a retriever."""
    return reranker + _RERANKS if reranker in retrievers else reranker


def published(steps: Iterable[str]) -> dict[str, str]:
    """Return the name of each step in an answer: a reranker's own, unless a retriever is called so, too."""
    found: dict[str, str] = {}
    for step in steps:
        short = step.removesuffix(_RERANKS)
        found[step] = step if short in found else short
    return found


class Omissions:
    """Steps of one batch that are skipped, and why."""

    def __init__(self, retrievers: Sequence[str], needed: set[str], say: Callable[[str], None]) -> None:
        self._retrievers = retrievers
        self._needed = needed
        self._say = say
        self._errors: dict[str, RetrieveError] = {}

    def add(self, step: str, error: RetrieveError) -> None:
        """Skip a step.

        Raises:
            RetrieveError: the error itself; the step is needed, or the last retriever.
        """
        if step in self._needed or set(self._retrievers) <= {*self._errors, step}:
            raise error
        self.give_up(step, error)

    def give_up(self, step: str, error: RetrieveError) -> None:
        """Skip a step, as a deadline does, needed or not."""
        self._errors[step] = error
        what = f"the {step} retriever" if step in self._retrievers else step
        self._say(f"{what} is skipped: {error.message}" + (f" ({error.hint})" if error.hint else ""))

    def __contains__(self, step: str) -> bool:
        return step in self._errors

    @property
    def reasons(self) -> Mapping[str, str]:
        """By step, why it is skipped and what fixes it; retrievers first, in their order."""
        ordered = dict.fromkeys([*(name for name in self._retrievers if name in self), *self._errors])
        return {name: _reason(self._errors[step]) for step, name in published(ordered).items()}

    @property
    def kinds(self) -> Mapping[str, str]:
        """By step, the kind of the failure for which it is skipped."""
        return {name: self._errors[step].kind for step, name in published(self._errors).items()}


def _reason(error: RetrieveError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message


def needed(settings: Settings, retrievers: Sequence[str], reranker: str | None, *, asked: bool) -> set[str]:
    """Return the steps without which there is no answer; `asked` says that the command names reranking."""
    steps = set(retrievers) if len(retrievers) == 1 else set()
    steps |= {name for name in retrievers if retriever(name).required(settings)}
    if reranker is not None and (asked or settings.rerank.policy == "required"):
        steps.add(reranker)
    return steps


def sacrifice(settings: Settings, retrievers: Sequence[str], reranker: str | None) -> list[str]:
    """Return the steps that a deadline may drop, in the order in which they go; what is `required` stays."""
    order = [reranker] if reranker is not None and settings.rerank.policy == "optional" else []
    costs = {name: retriever(name).cost[0] for name in retrievers if retriever(name).cost[0] > 0}
    costly = sorted(costs, key=lambda name: -costs[name])
    if len(costly) == len(retrievers):
        costly = costly[:-1]  # somebody has to answer
    return order + [name for name in costly if not retriever(name).required(settings)]
