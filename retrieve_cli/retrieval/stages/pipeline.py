"""A pipeline: a list of stages that is a stage itself, compares by value, and prints as the expression that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from retrieve_cli.contracts import Kind, Ranking, Stage
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.retrieve import Retrieve

Edit = Callable[["Pipeline"], "Pipeline"]
"""A change to the pipeline of a search."""


@runtime_checkable
class Wrapping(Protocol):
    """A stage that has another one do the retrieving."""

    @property
    def inner(self) -> Stage: ...

    def wrapping(self, edit: Callable[[Stage], Stage]) -> Stage:
        """Return the same stage around what `edit` makes of the inner one."""


class Step(NamedTuple):
    """A stage that ran, and its output."""

    stage: Stage
    rankings: list[Ranking]

    @property
    def name(self) -> str:
        """The expression that made the stage."""
        return str(self.stage)


class Pipeline(Frozen):
    """Stages in the order in which they run: `fuse(bm25@200, dense@200) > maxsim@50`."""

    stages: tuple[Stage, ...]

    @property
    def kind(self) -> Kind:
        return self.stages[-1].kind

    @property
    def rescores(self) -> bool:
        return any(stage.rescores for stage in self.stages)

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [*self.run(rankings)][-1].rankings

    def run(self, rankings: Sequence[Ranking]) -> Iterator[Step]:
        """Run the stages one by one."""
        for stage in self.stages:
            rankings = stage(rankings)
            yield Step(stage, rankings)

    def without(self, kind: Kind) -> Pipeline:
        """Return the pipeline without its stages of a kind."""
        return Pipeline(tuple(stage for stage in self.stages if stage.kind != kind))

    @property
    def retrieves(self) -> Retrieve | Fuse:
        """The stage that asks the retrievers, from within those that wrap it.

        Raises:
            TypeError: no stage asks retrievers.
        """
        return _innermost(self.stages[0])

    def retrieving(self, edit: Callable[[Retrieve | Fuse], Retrieve | Fuse]) -> Pipeline:
        """Return the pipeline with another stage in the place of the one that asks the retrievers, wherever it is."""
        first, *rest = self.stages
        return Pipeline((_edited(first, edit), *rest))

    def __str__(self) -> str:
        return " > ".join(map(str, self.stages))


def _innermost(stage: Stage) -> Retrieve | Fuse:
    if isinstance(stage, Wrapping):
        return _innermost(stage.inner)
    if not isinstance(stage, Retrieve | Fuse):
        raise TypeError(f"{stage} asks no retriever")
    return stage


def _edited(stage: Stage, edit: Callable[[Retrieve | Fuse], Retrieve | Fuse]) -> Stage:
    if isinstance(stage, Wrapping):
        return stage.wrapping(lambda inner: _edited(inner, edit))
    return edit(_innermost(stage))
