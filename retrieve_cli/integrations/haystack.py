"""A retriever for Haystack."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.writable import WritableIndex
from retrieve_cli.errors import UsageError
from retrieve_cli.integrations import IndexOrPath, joined, metadata_of, missing, opened, scores_of
from retrieve_cli.integrations.filters import narrowed

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise missing("haystack-ai", "haystack") from error


@component
class HaystackRetriever:
    """A component that searches an open index, or the one in a folder, which it opens when it is first needed.

    Its documents have the ids and the order of `index.search`. The score of a document is the relevance, from 0 to 1,
    if each result has one, else the score of the ranking.
    """

    def __init__(
        self,
        artifacts: IndexOrPath = "artifacts",
        *,
        config: str | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        choices: dict[str, Any] | None = None,
    ) -> None:
        """`filters` are in the syntax of Haystack, `choices` are further choices of each search: `mode`, `rerank` …"""
        self.artifacts = artifacts if isinstance(artifacts, WritableIndex) else os.fspath(artifacts)
        self.config, self.filters, self.top_k, self.choices = config, filters, top_k, choices

    @cached_property
    def _index(self) -> WritableIndex:
        return opened(self.artifacts, self.config)

    def warm_up(self) -> None:
        """Open the index."""
        _ = self._index

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the documents that match; `filters` and `top_k` replace the ones of the component.

        Raises:
            UsageError: they are not filters, or no record has a field of them.
        """
        return _found(self._index.search(query, **self._chosen(filters, top_k)))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the same as `run`."""
        return _found(await self._index.asearch(query, **self._chosen(filters, top_k)))

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a pipeline stores it: the index by its folder.

        Raises:
            UsageError: it has an open index, whose settings cannot be stored.
        """
        if isinstance(self.artifacts, WritableIndex):
            hint = "name its folder and configuration: HaystackRetriever(PATH, config=FILE)"
            raise UsageError("a pipeline cannot store an open index", hint=hint)
        names = ("artifacts", "config", "filters", "top_k", "choices")
        return default_to_dict(self, **{name: getattr(self, name) for name in names})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HaystackRetriever:
        """Return the component of `to_dict`."""
        return default_from_dict(cls, data)

    def _chosen(self, filters: dict[str, Any] | None, top_k: int | None) -> Any:
        number = self.top_k if top_k is None else top_k
        choices = joined(self.choices or {}, {"top_k": number})
        wanted = filters or self.filters
        return narrowed(self._index, wanted, choices) if wanted else choices


def _found(answer: IndexAnswer) -> dict[str, list[Document]]:
    return {"documents": [Document(id=result.id, content=result.text, meta=metadata_of(result), score=score)
                          for result, score in zip(answer, scores_of(answer), strict=True)]}  # fmt: skip
