"""A retriever for LlamaIndex."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.errors import UsageError
from retrieve_cli.integrations import IndexOrPath, joined, metadata_of, missing, opened, scores_of
from retrieve_cli.integrations.filters import TEXT_MATCH, narrowed

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
except ImportError as error:
    raise missing("llama-index-core", "llamaindex") from error

_TOLD = ("name", "url")
"""Metadata that a language model reads with a text."""


class LlamaIndexRetriever(BaseRetriever):
    """A retriever that searches an open index, or the one in a folder.

    Its nodes have the ids and the order of `index.search`.
    The score of a node is the relevance, from 0 to 1, if each result has one, else the score of the ranking.
    """

    def __init__(
        self, index: IndexOrPath, *, callback_manager: CallbackManager | None = None, verbose: bool = False,
        **choices: Any,
    ) -> None:  # fmt: skip
        """`choices` are choices of each search: `k` or `similarity_top_k`, `filters`, `mode`, `rerank`, `tenant` …

        Raises:
            UsageError: one of them is unknown, or takes another value.
        """
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        # In LlamaIndex this is the number of results.
        choices = joined({"top_k": choices.pop("similarity_top_k", None)}, choices)
        self._index, self._choices = opened(index), choices
        self._index.options(**self._chosen())

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._index.search(_text_of(query_bundle), **self._chosen()))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._index.asearch(_text_of(query_bundle), **self._chosen()))

    def _chosen(self) -> Any:
        filters = self._choices.get("filters")
        if not isinstance(filters, MetadataFilters):
            return self._choices
        others = {**self._choices, "filters": None}
        return narrowed(self._index, _filter(filters), others) if filters.filters else others


def _text_of(query: QueryBundle) -> str:
    """Return the text of a query. Raises: UsageError: it has further parts, such as an embedding."""
    for part in fields(query):
        if part.name != "query_str" and getattr(query, part.name) is not None:
            raise UsageError(f"a query cannot have `{part.name}`", hint="give its text: retriever.retrieve(TEXT)")
    return query.query_str


_OPERATORS = {"nin": "not in", "any": "in", "contains": "==", "is_empty": "==", "text_match_insensitive": TEXT_MATCH}


def _filter(given: MetadataFilters | MetadataFilter) -> dict[str, Any]:
    """Return filters in the syntax of Haystack; NOT is true if none of its filters hold."""
    if isinstance(given, MetadataFilters):
        name, parts = given.condition.name if given.condition else "AND", [_filter(part) for part in given.filters]
        return {"operator": name, "conditions": [{"operator": "OR", "conditions": parts}] if name == "NOT" else parts}
    operator, value = given.operator.value, given.value
    if operator == "all" and isinstance(value, list):
        every = [{"field": given.key, "operator": "==", "value": each} for each in value]
        return {"operator": "AND", "conditions": every}
    return {"field": given.key, "operator": _OPERATORS.get(operator, operator), "value": value}


def _nodes(answer: IndexAnswer) -> list[NodeWithScore]:
    nodes = []
    for result, score in zip(answer, scores_of(answer), strict=True):
        metadata = metadata_of(result)
        node = TextNode(
            id_=result.id,
            text=result.text,
            metadata=metadata,
            excluded_llm_metadata_keys=[key for key in metadata if key not in _TOLD],
            excluded_embed_metadata_keys=list(metadata),
        )
        nodes.append(NodeWithScore(node=node, score=score))
    return nodes
