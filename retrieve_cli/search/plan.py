"""The plan of a batch: the retrievers and the reranker that run, without steps that fail or do not fit the deadline.

A requested step that cannot run is an error if it is needed; otherwise it is skipped with a notice. The only retriever
is needed, and so is a reranker that the command names; the configuration marks some steps as `required` or `optional`.
A deadline drops optional retrievers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.indexes import similar_names
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Examples, Query
from retrieve_cli.errors import NotConfigured, RetrieveError, UsageError, quoted
from retrieve_cli.retrieval.stages.retrieve import NotAsked
from retrieve_cli.search.access import seen_by_any
from retrieve_cli.search.deadline import Deadline
from retrieve_cli.search.encoding import QueryForms
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.segment import TOKENS

if TYPE_CHECKING:
    from retrieve_cli.storage.records.view import RecordView


class RankPlan(NamedTuple):
    """The plan of a batch as a value: stages are made of it, and of nothing else."""

    opened: Opened
    options: SearchOptions
    """Complete: each choice that a request leaves open has the configured value."""
    retrievers: tuple[str, ...]
    reranker: str | None
    omitted: Omissions
    deadline: Deadline
    forms: QueryForms
    """The texts as the retrievers are asked with them."""
    texts: int
    """Number of texts that are ranked: the queries and their variants."""
    queries: int
    say: Callable[[str], None]
    """Receives what the user should know."""
    view: RecordView
    """The records that are visible to any of the queries."""
    remote: frozenset[str] = frozenset()
    """Retrievers that wait for a server."""
    substitute: str | None = None
    """The retriever that answers alone where vectors cannot be compared, if one is configured."""
    substituted: bool = False
    keep: int | None = None
    """Hits that the reranker passes on, if it is to pass on nothing that it has not judged."""
    names: bool = False
    """True if the queries are lists of names."""
    expands: bool = False
    """True if records linked to the first hits are added."""
    idle: frozenset[str] = frozenset()
    """Retrievers of weight 0. Beside one that compares vectors, which ranks every record, they add no candidate."""

    @property
    def running(self) -> tuple[str, ...]:
        """The retrievers that are not skipped; or what answers in their place."""
        if self._substituting:
            return self._substituting
        able = tuple(name for name in self.retrievers if name not in self.omitted)
        useful = tuple(name for name in able if name not in self.idle)
        return useful if any(map(registry.compares_vectors, useful)) else able

    @property
    def asked(self) -> tuple[str, ...]:
        """The retrievers that run, or that should have run."""
        return tuple(name for name in self.retrievers if name not in self.idle or name in self.running)

    @property
    def skipped(self) -> Mapping[str, str]:
        """By step that does not run, why; retrievers first."""
        reasons = self.omitted.reasons
        instead = [name for name in self.retrievers if self._substituting and name not in reasons]
        return {**dict.fromkeys(instead, f"{self.substitute} answers in its place"), **reasons}

    @property
    def skip_kinds(self) -> Mapping[str, str]:
        """By step that does not run, the kind of the reason."""
        return {**dict.fromkeys(self.skipped, "substituted"), **self.omitted.kinds}

    @property
    def _substituting(self) -> tuple[str, ...]:
        alone = self.substitute is not None and self.substituted and self.substitute not in self.omitted
        return (self.substitute,) if alone and self.substitute is not None else ()

    def without(self, failure: NotAsked) -> RankPlan:
        """Return the plan without a retriever that failed; if it compares vectors, the plan of the substitute.

        Raises:
            RetrieveError: the retriever is needed.
        """
        self.omitted.add(failure.retriever, failure.why)
        if self.substitute is None or not registry.compares_vectors(failure.retriever):
            return self
        if why := self.deadline.no_room_for(self.substitute):
            self.omitted.give_up(self.substitute, why)
            return self
        self.say(f"{self.substitute} answers in place of the index: it chooses by names and descriptions")
        return self._replace(substituted=True)

    def most(self, *, reranked: bool) -> int:
        """Return the greatest number of hits of a ranking, with a notice if they replace reranked ones."""
        if self.keep is None or not (reranked or str(self.reranker) in self.omitted):
            return self.options.k
        if not reranked:
            self.say(f"the first {self.keep} by retrieval score replace the reranked ones (rerank.keep)")
        return min(self.options.k, self.keep)


def plan(opened: Opened, options: SearchOptions, *, queries: Sequence[Query], say: Callable[[str], None]) -> RankPlan:
    """Return the plan for some queries.

    Raises:
        Unavailable: the index lacks the requested retrievers, or no reranker is configured.
    """
    generation, settings = opened.generation, opened.settings
    texts = sum(1 + len(query.also) for query in queries)
    deadline = Deadline(options.deadline_ms, queries=texts, spent=opened.seconds, durations=opened.durations)
    settings.expect_trusted("search", "plugins")
    chosen = _retrievers(generation, settings, options)
    substitute = _substitute(settings, options, chosen)
    rerank = False if options.dense_only else options.rerank
    retrievers = chosen if substitute is None else (*chosen, substitute)
    by_default = options.hybrid and options.sort is None
    reranker = _reranker(generation, settings, retrievers) if (by_default if rerank is None else rerank) else None
    if rerank and reranker is None:
        raise NotConfigured("no reranker is configured", hint="set rerank.backend")
    omitted = Omissions(chosen, needed(settings, chosen, reranker, asked=bool(rerank)), say)
    remote = _remote(opened, retrievers)
    for name in optional(chosen, remote, settings):
        if why := deadline.no_room_for(name):
            omitted.give_up(name, why)
    view = seen_by_any(generation, queries)
    _expect_groups(view, settings, options, say)
    keep = options.rerank_keep if reranker is not None else None
    forms = QueryForms(opened.models, deadline, say)
    for query in queries:
        if query.examples is not None:
            forms.give(query.text, partial(_resembling, opened, forms, query.examples))
    return RankPlan(
        opened,
        options,
        chosen,
        reranker,
        omitted,
        deadline,
        forms,
        texts,
        len(queries),
        say,
        view,
        remote=remote,
        substitute=substitute,
        keep=keep,
        names=any(query.named for query in queries) and not options.dense_only,
        expands=_expands(settings, options, keep, say),
        idle=_idle(settings, options, chosen),
    )


def _remote(opened: Opened, retrievers: Sequence[str]) -> frozenset[str]:
    """Return the retrievers that wait for a server: of an engine, of an encoder, or of a language model."""
    on_engines: Collection[str] = ()
    if opened.settings.engines.in_use:
        from retrieve_cli.assemble.engines import places

        on_engines = places(opened.settings, retrievers)
    return frozenset(
        name
        for name in retrievers
        if name in on_engines or name not in opened.indexes or (registry.compares_vectors(name) and opened.models.waits)
    )


def _expect_groups(view: RecordView, settings: Settings, options: SearchOptions, say: Callable[[str], None]) -> None:
    """Add a notice if no record that a query may see has the field by which records are grouped."""
    if view.is_restricted and (options.route or settings.diversity.per_group is not None):
        field = settings.gating.field
        if view.columns.column(field) is None:
            say(f"no record has a field {quoted(field)}: gating.field groups nothing")


def _expands(settings: Settings, options: SearchOptions, keep: int | None, say: Callable[[str], None]) -> bool:
    if keep is not None and not settings.expansion.before_rerank:
        if options.expand:
            say("no linked records: rerank.keep passes on only what the reranker judged (expansion.before_rerank)")
        return False
    if options.sort is not None:
        if options.expand:
            say("no linked records: `sort` orders the results")
        return False
    return not options.dense_only and (options.hybrid if options.expand is None else options.expand)


def _idle(settings: Settings, options: SearchOptions, chosen: Sequence[str]) -> frozenset[str]:
    """Return the retrievers that add nothing to a fused score, and that the request does not name."""
    if len(chosen) == 1 or options.retrievers:
        return frozenset()
    fusion = registry.fusion_of(settings, chosen)
    return frozenset(name for name in chosen if fusion.weight(name) == 0)


def _retrievers(generation: Generation, settings: Settings, options: SearchOptions) -> tuple[str, ...]:
    """Those that are asked for; of the naive engine the one that compares vectors."""
    if LLM in (options.retrievers or (options.mode,)) and not options.dense_only:
        from retrieve_cli.assemble.llm import require_endpoint

        require_endpoint(settings)
    present = registry.ordered(generation.manifest.recipe.retrievers)
    if options.hybrid and not options.retrievers:
        registry.check_required(present, settings)
    sorts = options.sort is not None and options.hybrid and not options.retrievers
    # Words match or do not; vectors are near to every record.
    by_words = tuple(one.name for one in registry.loadable(present if sorts else ()) if one.role == "lexical")
    if by_words:
        return by_words
    if not options.dense_only:
        return registry.chosen(options.mode, options.retrievers, present)
    if not (found := similar_names(generation)):
        hint = "set dense.enabled: true and build again: retrieve build; or omit the engine"
        raise NotConfigured("the naive engine needs vectors, and the index has none", hint=hint)
    return found[:1]


def _substitute(settings: Settings, options: SearchOptions, chosen: Sequence[str]) -> str | None:
    """The retriever that answers alone where vectors cannot be compared: a language model, if one is configured.
    Raises: UsageError: its server is configured, and no model."""
    configured = settings.llm.base_url is not None or settings.rerank.backend == LLM
    if not (configured and options.hybrid and not options.retrievers):
        return None
    from retrieve_cli.assemble.llm import endpoint

    has_vectors = any(map(registry.compares_vectors, chosen))
    return LLM if has_vectors and endpoint(settings) is not None else None


def _reranker(generation: Generation, settings: Settings, retrievers: Collection[str]) -> str | None:
    """Return the configured reranker as a step; None without one."""
    backend = settings.rerank.backend
    if backend == "auto":
        backend = "maxsim" if generation.has(TOKENS) else "none"
    return None if backend == "none" else reranking(backend, retrievers)


def _resembling(opened: Opened, forms: QueryForms, examples: Examples, name: str) -> Any:
    """Return the vector of examples, (dim,) float32 of L2 norm 1, for the retriever of a name: Rocchio's, the mean
    of the records that the results are to resemble, and of the words of the request if it has any, less half the mean
    of those that they are not to resemble. None if the index has no vectors."""
    import numpy as np

    from retrieve_cli.assemble.indexes import vectors_of

    if name not in similar_names(opened.generation):
        return None
    vectors, starts = vectors_of(opened.generation, opened.indexes), opened.generation.starts

    def mean(records: Sequence[int]) -> Any:
        """The mean of the records, each of them the mean of its first chunks."""
        spans = ((int(starts[row]), int(starts[row + 1])) for row in records)
        return np.mean([_unit(vectors(np.arange(*span)[:_CHUNKS]).mean(axis=0)) for span in spans], axis=0)

    wanted = _unit(mean(examples.like)) if examples.like else np.zeros(1, np.float32)
    if examples.text:
        wanted = wanted + forms.known("vector", name, [examples.text])[0]
    if examples.not_like:
        wanted = _unit(wanted) - 0.5 * _unit(mean(examples.not_like))
    return _unit(wanted).astype(np.float32)


_CHUNKS = 64
"""Chunks of a record that its vector is made of."""


def _unit(vector: Any) -> Any:
    return vector / (float((vector * vector).sum()) ** 0.5 or 1.0)


def steps_of(retrievers: Sequence[str], reranker: str | None) -> tuple[str, ...]:
    """Return retrievers and reranker as the steps of an answer."""
    return tuple(published((*retrievers, *([reranker] if reranker else ()))).values())


def check(queries: Sequence[Query], options: SearchOptions) -> None:
    """Hold queries to what can be ranked. Raises: UsageError if one is empty, `k` is below 1, or scores have another
    scale than their lowest one."""
    k = options.k
    for query in queries:
        if not (query.lists or all(each.text.strip() for each in (query, *query.also))):
            name = "the query" if len(queries) == 1 else f"the text of query {quoted(query.id)}"
            raise UsageError(f"{name} is empty", hint="for example: segment lungs in CT")
    if k < 1:
        raise UsageError(f"-k is {k}; it takes a whole number from 1", hint="retrieve query -k 10 TEXT")
    if options.sort is not None and options.rerank:
        raise UsageError("a reranker orders by score, and `sort` by a field", hint="remove one of them")
    if options.min_score is not None and any(query.also for query in queries):
        least = options.min_score if isinstance(options.min_score, str) else f"{options.min_score:g}"
        message = f"min_score {least} does not apply to query variants: their scores are reciprocal ranks"
        raise UsageError(message, hint="remove min_score, or the variants (--also)")


_RERANKS = " reranker"


def reranking(reranker: str, retrievers: Collection[str]) -> str:
    """Return the name of a reranker as a step, different from the names of retrievers."""
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
        """Skip a step. Raises: RetrieveError: the error itself; the step is needed, or the last retriever."""
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
        errors = {name: self._errors[step] for step, name in published(ordered).items()}
        return {
            name: f"{error.message}: {error.hint}" if error.hint else error.message for name, error in errors.items()
        }

    @property
    def kinds(self) -> Mapping[str, str]:
        """By step, the kind of the failure for which it is skipped."""
        return {name: self._errors[step].kind for step, name in published(self._errors).items()}


def needed(settings: Settings, retrievers: Sequence[str], reranker: str | None, *, asked: bool) -> set[str]:
    """Return the steps without which no answer is possible; `asked` is True if the command names reranking."""
    steps = set(retrievers) if len(retrievers) == 1 else set()
    steps |= {name for name in retrievers if retriever(name).required(settings)}
    if reranker is not None and (asked or settings.rerank.policy == "required"):
        steps.add(reranker)
    return steps


def optional(retrievers: Sequence[str], remote: Collection[str], settings: Settings) -> list[str]:
    """Return the retrievers on a server that a deadline may skip; one that answers always stays."""
    may_go = [name for name in retrievers if name in remote and not retriever(name).required(settings)]
    return may_go if len(may_go) < len(retrievers) else may_go[1:]
