"""The rankings of a batch, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Hit, Ranking, Unit
from retrieve_cli.frozen import dataclass
from retrieve_cli.search.deadline import Deadline
from retrieve_cli.stages.pipeline import Pipeline, Step

if TYPE_CHECKING:
    from retrieve_cli.stages.expand import Expand


@dataclass(frozen=True, slots=True)
class Ranked:
    """The rankings of a batch, and how they came about."""

    rankings: Sequence[Ranking]
    steps: Sequence[Step]
    pipeline: Pipeline
    """The stages that ran."""
    unit: Unit
    retrievers: tuple[str, ...]
    """Those that ran."""
    skipped: Mapping[str, str]
    """Why a step that was asked for did not."""
    encode: float
    search: float
    rerank: float
    """Seconds for the whole batch."""
    asked: tuple[str, ...]
    done: tuple[str, ...]
    """Retrievers and reranker: those that were to run, and those that did."""
    deadline: Deadline
    notices: tuple[str, ...]
    """Notices for the user."""
    skip_kinds: Mapping[str, str]
    """Kind of the reason for which a step was skipped: that of an error, `deadline` or `substituted`."""

    @property
    def reranker(self) -> str | None:
        """The reranker, and how many hits it read: `maxsim@50`."""
        return next((step.name for step in self.steps if step.stage.kind == "rerank"), None)

    @property
    def rerank_strategy(self) -> str | None:
        """The backend of the reranker, if it ran: `maxsim`, `cross_encoder`, the name of a plug-in."""
        return next((step for step in self.done if step not in self.retrievers), None)

    @property
    def fusion_method(self) -> str:
        """The fusion formula."""
        return str(getattr(self.pipeline.retrieves, "fusion", "none"))

    @property
    def most_related(self) -> int:
        """The most related records that are listed beside the results of a query; 0 if none are."""
        return 0 if (stage := self._expansion) is None else stage.related

    def related(self, ranking: Ranking) -> tuple[Hit, ...]:
        """Return the records that results link to and that are listed beside them, best first."""
        return () if (stage := self._expansion) is None else stage.linked(ranking)

    @property
    def _expansion(self) -> Expand | None:
        """The stage that follows edges, if there is one."""
        if not any(stage.kind == "expand" for stage in self.pipeline.stages):
            return None
        from retrieve_cli.stages.expand import Expand  # an index without edges does without it

        return next((stage for stage in self.pipeline.stages if isinstance(stage, Expand)), None)


def shown(steps: Sequence[Step], k: int) -> list[Ranking]:
    """Return the first hits of the last step, with what the first one says that retrievers found."""
    ends = zip(steps[0].rankings, steps[-1].rankings, strict=True)
    return [replace(last.first(k), matches=first.matches) for first, last in ends]
