"""LLM retrieval: a language model selects from the names and descriptions of records. It has no artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from retrieve_cli.contracts import Card
from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.retrievers.retriever import TEXT, Building, Retriever

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.storage.generation import Generation


class Llm(Retriever[str]):
    """LLM retriever: ranks by the selection of a language model; a score is 1 / rank."""

    name = "llm"
    file = ""
    form = TEXT
    relaxes = False

    def card(self, building: Building) -> Card | None:
        return None

    def writer(self, building: Building) -> NoReturn:
        raise self._no_index()

    def open(self, generation: Generation, settings: Settings) -> NoReturn:
        raise self._no_index()

    def configured(self, settings: Settings) -> bool:
        return False

    def _no_index(self) -> UsageError:
        return UsageError(f"{self.name} has no index", hint="it reads the records themselves: --mode llm")


RETRIEVER = Llm()
