"""Everything that one request may choose, as one value."""

from __future__ import annotations

from typing import Any

from retrieve_cli.config.plugins import HYBRID
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Unit
from retrieve_cli.frozen import Frozen, replace


class SearchOptions(Frozen):
    """The choices of one request. Settings hold the defaults of an installation."""

    k: int
    """Number of results."""
    mode: str = HYBRID
    """`hybrid`, every retriever of the index, or the name of one."""
    retrievers: tuple[str, ...] = ()
    """The only ones that answer, if any are named; before `mode`."""
    unit: Unit = "record"
    rerank: bool | None = None
    """None: in hybrid mode."""
    expand: bool | None = None
    """Add linked records. None: in hybrid mode."""
    route: bool = False
    """Search only the groups that a first pass chooses."""
    dependencies: bool = False
    """Add the dependencies of each result."""
    context: int = 0
    """Chunks before and after a hit."""
    table_context: int = 0
    """The same of a hit in a table."""
    max_chunks: int | None = None
    max_tokens: int | None = None
    min_score: float | str | None = None
    """Least score of a result, or its share of the first one: `60%`."""
    min_confidence: float | None = None
    deadline_ms: float | None = None
    boosts: tuple[str, ...] = ()
    """Boosts in addition to the configured ones: `section=Results:1.2`."""
    engine: str = "advanced"
    """`advanced`, or `naive`: the nearest chunks, and no other stage."""
    exact_words: bool = False
    """Do not correct words that no record has."""
    offset: int = 0
    """Number of results on earlier pages."""
    sort: str | None = None
    """Field by which matching records are ordered; `year:desc` from the greatest value on."""
    facets: tuple[str, ...] = ()
    """Fields of which the values of matching records are counted."""
    explain: bool = False
    """Explain the rank of each result."""
    related: str = "full"
    """Form of related records in JSON: `full` or `brief`."""
    grade: float | None = None
    """Least similarity of a result. None, here and below: as configured."""
    similarity_top_k: int | None = None
    """Candidates of the dense retriever."""
    rerank_keep: int | None = None
    """Results that the reranker passes on."""
    rerank_min_score: float | None = None
    """Least score of the reranker, on its own scale."""
    rerank_depth: int | None = None
    """Results that the reranker scores."""
    rerank_interpolate: float | None = None
    """Share of the reranker's score in the final one."""

    @classmethod
    def of(cls, settings: Settings, **given: Any) -> SearchOptions:
        """Return the options of the configuration, overridden by the given values that are not None."""
        search, context = settings.search, settings.context
        chosen = {
            "k": search.k,
            "mode": search.mode,
            "retrievers": tuple(dict.fromkeys(search.retrievers)),
            "expand": settings.expansion.enabled,
            "route": settings.gating.enabled,
            "context": context.window,
            "table_context": context.window if context.table_window is None else context.table_window,
            "max_chunks": settings.budget.max_chunks,
            "max_tokens": settings.budget.max_tokens,
            "min_score": search.min_score,
            "deadline_ms": search.deadline_ms,
            "exact_words": search.exact_words,
            **{name: value for name, value in given.items() if value is not None},
        }
        return cls(**chosen)

    @property
    def whole(self) -> SearchOptions:
        """The options of the whole list that a page is cut from: the results of earlier pages and its own."""
        return replace(self, k=self.k + self.offset, offset=0) if self.offset else self

    def by(self, retrievers: tuple[str, ...]) -> SearchOptions:
        """Return the options for a request that names its own retrievers, if it names any."""
        return replace(self, retrievers=retrievers) if retrievers else self

    @property
    def dense_only(self) -> bool:
        """True if the dense retriever answers alone, without any other stage."""
        return self.engine == "naive"

    @property
    def hybrid(self) -> bool:
        """True if several retrievers are asked for: reranking and expansion are on by default then."""
        return not self.dense_only and (len(self.retrievers) > 1 or (not self.retrievers and self.mode == HYBRID))

    def filled(self, configured: Settings) -> SearchOptions:
        """Return the options with the configured value for each choice of a stage that is None."""
        sections = {"search": configured.search, "rerank": configured.rerank}
        missing = {name: key for name, key in _OF_STAGES.items() if getattr(self, name) is None}
        return replace(self, **{name: getattr(sections[section], key) for name, (section, key) in missing.items()})


_OF_STAGES = {
    "grade": ("search", "grade"),
    "similarity_top_k": ("search", "similarity_top_k"),
    "rerank_keep": ("rerank", "keep"),
    "rerank_min_score": ("rerank", "min_score"),
    "rerank_depth": ("rerank", "depth"),
    "rerank_interpolate": ("rerank", "interpolate"),
}
"""Choices that stay None until a stage asks for them, with their section and key."""
