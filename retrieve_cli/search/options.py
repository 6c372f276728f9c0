"""Everything that one request may choose, as one value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from retrieve_cli.config.plugins import HYBRID
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Unit
from retrieve_cli.frozen import dataclass


@dataclass(frozen=True)
class SearchOptions:
    """The choices of one request. Settings hold those of an installation."""

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
    min_score: float | None = None
    min_confidence: float | None = None
    deadline_ms: float | None = None
    boosts: tuple[str, ...] = ()
    """Boosts besides those of the configuration: `section=Results:1.2`."""
    dense_only: bool = False
    """The naive engine: the nearest chunks, and no stage besides."""
    offset: int = 0
    """Results before the first one that is shown: those of earlier pages."""
    facets: tuple[str, ...] = ()
    """Fields of which the values of matching records are counted."""
    explain: bool = False
    """Say of each result why it stands where it does."""
    grade: float | None = None
    """Least similarity of a result. None, here and below: as configured."""
    similarity_top_k: int | None = None
    """Results of the naive engine, candidates of the dense retriever in the other."""
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
        """Return what the configuration says, with what is given and is not None in its place."""
        search, context = settings.search, settings.context
        naive = search.engine == "naive"
        chosen = {
            "k": (search.similarity_top_k if naive else None) or search.k,
            "mode": search.mode,
            "retrievers": tuple(dict.fromkeys(search.retrievers)),
            "expand": settings.expansion.enabled,
            "route": settings.gating.enabled,
            "dependencies": settings.expansion.bundle,
            "context": context.window,
            "table_context": context.window if context.table_window is None else context.table_window,
            "max_chunks": settings.budget.max_chunks,
            "max_tokens": settings.budget.max_tokens,
            "min_score": search.min_score,
            "deadline_ms": search.deadline_ms,
            "dense_only": naive,
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
    def hybrid(self) -> bool:
        """True if several retrievers are asked for: reranking and expansion are on by default then."""
        return not self.dense_only and (len(self.retrievers) > 1 or (not self.retrievers and self.mode == HYBRID))

    def settings(self, configured: Settings) -> Settings:
        """Return the configuration with the choices that stages read from it; the same object if none differs."""
        search, rerank = configured.search, configured.rerank
        chosen_search = _changed(search, grade=self.grade, similarity_top_k=self.similarity_top_k)
        names = ("keep", "min_score", "depth", "interpolate")
        chosen_rerank = _changed(rerank, **{name: getattr(self, f"rerank_{name}") for name in names})
        if chosen_search is search and chosen_rerank is rerank:
            return configured
        return replace(configured, search=chosen_search, rerank=chosen_rerank)


def _changed(section: Any, **given: Any) -> Any:
    """A section with the values that are given and are not None; the same object if none differs."""
    values = {key: value for key, value in given.items() if value is not None and value != getattr(section, key)}
    return replace(section, **values) if values else section
