"""A retriever for LangChain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.writable import WritableIndex
from retrieve_cli.integrations import joined, metadata_of, missing, opened

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import BeforeValidator, ConfigDict
except ImportError as error:
    raise missing("langchain-core", "langchain") from error


class LangChainRetriever(BaseRetriever):
    """A retriever that searches an open index, or the one in a folder.

    Its documents have the ids and the order of `index.search`. Arguments of `invoke` and `ainvoke` beside the query are
    choices of this search: `retriever.invoke("…", k=3, filters={"license": "MIT"})`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    index: Annotated[WritableIndex, BeforeValidator(opened)]
    k: int | None = None
    filters: Any = None
    """Conditions on records, as `index.search` takes them; or `filter`."""
    filter: Any = None
    choices: dict[str, Any] = {}  # noqa: RUF012  Pydantic copies it
    """Further choices of each search: `mode`, `rerank`, `tenant` …; or `search_kwargs`."""
    search_kwargs: dict[str, Any] = {}  # noqa: RUF012  Pydantic copies it

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
        choices.pop("verbose", None)  # the callback manager has it
        named = {"k": self.k, "filters": self.filters, "filter": self.filter}
        inner = choices.get("search_kwargs")
        inner = choices.pop("search_kwargs") if isinstance(inner, Mapping) else {}
        return {**joined(named, self.choices, self.search_kwargs), **joined(inner, choices)}


def _documents(answer: IndexAnswer) -> list[Document]:
    return [Document(result.text, id=result.id, metadata=metadata_of(result)) for result in answer]
