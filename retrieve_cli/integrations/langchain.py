"""A retriever for LangChain."""

from __future__ import annotations

from typing import Any

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.writable import WritableIndex
from retrieve_cli.integrations import metadata_of, missing

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError as error:
    raise missing("langchain-core", "langchain") from error


class LangChainRetriever(BaseRetriever):
    """A retriever that searches an open index.

    Its documents have the ids and the order of `index.search`. Arguments of `invoke` and `ainvoke` beside the query are
    choices of this search: `retriever.invoke("…", k=3, filters={"license": "MIT"})`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    index: WritableIndex
    k: int | None = None
    filters: Any = None
    """Conditions on records, as `index.search` takes them."""
    choices: dict[str, Any] = {}  # noqa: RUF012  Pydantic copies it
    """Further choices of each search: `mode`, `rerank`, `tenant` …"""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002  part of the interface
        **choices: Any,
    ) -> list[Document]:
        return _documents(self.index.search(query, **self._chosen(choices)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002  part of the interface
        **choices: Any,
    ) -> list[Document]:
        return _documents(await self.index.asearch(query, **self._chosen(choices)))

    def _chosen(self, choices: dict[str, Any]) -> Any:
        return {"k": self.k, "filters": self.filters, **self.choices, **choices}


def _documents(answer: IndexAnswer) -> list[Document]:
    return [Document(result.text, id=result.id, metadata=metadata_of(result)) for result in answer]
