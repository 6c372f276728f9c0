"""A retriever for LlamaIndex."""

from __future__ import annotations

from typing import Any

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.writable import WritableIndex
from retrieve_cli.integrations import metadata_of, missing, scores_of

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise missing("llama-index-core", "llamaindex") from error

_TOLD = ("name", "url")
"""Metadata that a language model reads with a text."""


class LlamaIndexRetriever(BaseRetriever):
    """A retriever that searches an open index; its nodes have the ids and the order of `index.search`.

    The score of a node is the relevance, from 0 to 1, if each result has one, else the score of the ranking.
    """

    def __init__(
        self, index: WritableIndex, *, callback_manager: CallbackManager | None = None, verbose: bool = False,
        **choices: Any,
    ) -> None:  # fmt: skip
        """`choices` are choices of each search: `k`, `filters`, `mode`, `rerank`, `tenant` …"""
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._index, self._choices = index, choices

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._index.search(query_bundle.query_str, **self._choices))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._index.asearch(query_bundle.query_str, **self._choices))


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
