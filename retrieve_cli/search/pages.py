"""Pages: a part of a longer list of results, which is ranked as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from retrieve_cli.config.settings import Settings
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.generation import Generation


def most_results(generation: Generation, settings: Settings, options: SearchOptions) -> int:
    """Return the most results that a page can have."""
    rows = generation.records if options.unit == "record" else generation.chunks
    naive = settings.search.similarity_top_k if options.dense_only else None
    return min(options.k, len(rows), naive or options.k)


def beyond_depth(generation: Generation, settings: Settings, options: SearchOptions) -> Iterator[str]:
    """Yield a notice on a page for which the retrievers are asked for more candidates than for the pages before."""
    depth, last = settings.search.depth, options.whole.k
    if options.offset and depth < min(last, len(generation.records)):
        yield f"results {depth + 1} to {last} are of a deeper search: a result of an earlier page may come again"
