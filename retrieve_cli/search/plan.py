"""The plan of a batch: the retrievers and the reranker that run, less those there is no time for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble import pipelines, registry
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Query
from retrieve_cli.errors import Unavailable, quoted
from retrieve_cli.search.access import columns_seen, seen_by_any
from retrieve_cli.search.deadline import Deadline
from retrieve_cli.search.encoding import QueryForms
from retrieve_cli.search.omissions import Omissions, needed, sacrifice
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.generation import TOKENS, Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask


class RankPlan(NamedTuple):
    """The parts that rank a batch."""

    options: SearchOptions
    retrievers: tuple[str, ...]
    reranker: str | None
    omitted: Omissions
    deadline: Deadline
    forms: QueryForms
    """The texts as the retrievers are asked with them."""
    texts: int
    """Texts that are ranked: those of the queries and their variants."""
    queries: int
    visible: Mask | None = None
    """(records,) bool: the records that are visible to any of the queries; None: all."""

    @property
    def running(self) -> tuple[str, ...]:
        """The retrievers that are not skipped."""
        return tuple(name for name in self.retrievers if name not in self.omitted)


def plan(
    generation: Generation,
    settings: Settings,
    options: SearchOptions,
    *,
    texts: int,
    queries: Sequence[Query],
    forms: QueryForms,
    say: Callable[[str], None],
) -> RankPlan:
    """Return what is to run for some queries with so many texts.

    Raises:
        Unavailable: the index has none of the retrievers that are asked for, or no reranker is configured.
    """
    chosen = _retrievers(generation, settings, options)
    rerank = False if options.dense_only else options.rerank
    reranker = _reranker(generation, settings) if (options.hybrid if rerank is None else rerank) else None
    if rerank and reranker is None:
        raise Unavailable("no reranker is configured", hint="set rerank.backend")
    omitted = Omissions(chosen, needed(settings, chosen, reranker, asked=bool(rerank)), say)
    may_go = sacrifice(settings, chosen, reranker)
    free = {name for name in chosen if registry.retriever(name).cost[0] == 0}
    stays = [step for step in steps_of(chosen, reranker) if step not in {*may_go, *free}]
    deadline = forms.deadline
    for step, why in deadline.skipped(may_go, needed=stays).items():
        omitted.give_up(step, why)
    visible = seen_by_any(queries)
    if visible is not None and (options.route or settings.diversity.per_group is not None):
        field = settings.gating.field
        if columns_seen(generation, visible).column(field) is None:
            say(f"no record has a field {quoted(field)}: gating.field groups nothing")
    return RankPlan(options, chosen, reranker, omitted, deadline, forms, texts, len(queries), visible)


def _retrievers(generation: Generation, settings: Settings, options: SearchOptions) -> tuple[str, ...]:
    """Those that are asked for; of the naive engine the one that compares vectors."""
    present = registry.ordered(generation.manifest.recipe.retrievers)
    if options.hybrid and not options.retrievers:
        registry.check_required(present, settings)
    if not options.dense_only:
        return registry.chosen(options.mode, options.retrievers, present)
    if not (found := pipelines.similar_names(generation)):
        hint = "set dense.enabled: true and build again: retrieve build; or leave --engine out"
        raise Unavailable("the naive engine needs vectors, and the index has none", hint=hint)
    return found[:1]


def _reranker(generation: Generation, settings: Settings) -> str | None:
    """The reranker, by its backend; None if there is none."""
    backend = settings.rerank.backend
    if backend == "auto":
        return "maxsim" if TOKENS in generation.manifest.files else None
    return None if backend == "none" else backend


def steps_of(retrievers: Sequence[str], reranker: str | None) -> tuple[str, ...]:
    """Return retrievers and reranker as the steps of an answer."""
    return (*retrievers, *([reranker] if reranker else ()))
