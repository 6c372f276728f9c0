"""The configured language model: retrieval by it over the names and descriptions of records; and the list of all
configured servers of models, for commands that inspect a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.servers import CONCURRENCY, client
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import EncoderSettings, FacetsSettings, LlmSettings, RerankSettings, Settings
from retrieve_cli.contracts import Json, Unit
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.http.addresses import shown
from retrieve_cli.retrieval.retrievers.retriever import TEXT
from retrieve_cli.retrieval.stages.choosing import ChoosingRetrieval
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.models.remote.reading import CatalogReader

DEPTH = 50
"""Most records that a language model may select."""
DESCRIPTION_CHARS = 400
"""Characters of a description that a language model reads."""


class Endpoint(NamedTuple):
    """The server of the language model, with the section of the configuration that names it."""

    settings: LlmSettings
    section: str
    model: str


def endpoint(settings: Settings) -> Endpoint | None:
    """Return the configured server: the server of `llm`, or of a reranker that is a language model.

    Raises:
        UsageError: the server is named, but not its model.
    """
    chosen, section, reranker = settings.llm, LLM, settings.rerank
    if chosen.base_url is None and reranker.backend == LLM:
        section, model = "rerank", chosen.model or reranker.model
        chosen = replace(chosen, base_url=reranker.base_url, model=model, api_key_env=reranker.api_key_env)
    if chosen.base_url is None:
        return None
    if chosen.model is None:
        raise UsageError(f"{section}.base_url names a server, but no model is set", hint=f"set {section}.model")
    return Endpoint(chosen, section, chosen.model)


def require_endpoint(settings: Settings) -> Endpoint:
    """Return the configured server.

    Raises:
        UsageError: no server is configured, or its model is not named.
    """
    settings.skip_untrusted("llm", "rerank")
    if (server := endpoint(settings)) is not None:
        return server
    raise UsageError(f"--mode {LLM} needs a server, but none is configured", hint="set llm.base_url and llm.model")


class LlmCall(Protocol):
    """The call that a model is asked for."""

    @property
    def say(self) -> Callable[[str], None]:
        """Receives what the user should know."""

    def left(self) -> float | None:
        """Return the remaining seconds of a deadline, None without a deadline."""

    def timed(self) -> AbstractContextManager[None]:
        """Measure the time that choosing takes."""


def card(settings: Settings) -> list[Json]:
    """Return the settings that decide which language model reads records, and which parts of them it reads."""
    chosen = settings.llm
    model = chosen.model or settings.rerank.model
    return [model, chosen.context_tokens, chosen.max_records, DESCRIPTION_CHARS, DEPTH]


def retrieval(
    generation: Generation, indexes: Indexes, settings: Settings, *, unit: Unit, depth: int, call: LlmCall
) -> ChoosingRetrieval:
    """Return the retriever for one call.

    Raises:
        UsageError: no server is configured.
    """
    server = require_endpoint(settings)
    layout = ChunkLayout(generation.starts, generation.chunk_id)
    by_words = (name for name in indexes if registry.retriever(name).form is TEXT)
    shortlist = (
        IndexRetrieval(name, indexes[name], list, layout, unit="record", depth=server.settings.max_records)
        for name in by_words
    )
    return ChoosingRetrieval(
        LLM,
        cache(partial(_reader, generation, server, call.left)),
        layout,
        unit=unit,
        depth=min(depth, DEPTH),
        most_read=server.settings.max_records,
        shortlist=next(shortlist, None),
        say=call.say,
        timed=call.timed,
    )


def _reader(generation: Generation, server: Endpoint, left: Callable[[], float | None]) -> CatalogReader:
    """Return the reader that shows records to the model.

    Raises:
        Unavailable: the server's key is not in the environment.
    """
    from retrieve_cli.models.remote.chat import ListwiseSelector
    from retrieve_cli.models.remote.reading import CatalogReader, answer_tokens

    chosen = server.settings
    selector = ListwiseSelector(
        client(chosen, server.section),
        model=server.model,
        max_tokens=answer_tokens(chosen.context_tokens),
        refused="the server must support response_format json_schema, and the model the number of tokens in "
        "llm.context_tokens: lower it, or name another model",
    )
    return CatalogReader(
        selector,
        partial(_line, generation, DESCRIPTION_CHARS),
        context_tokens=chosen.context_tokens,
        concurrency=CONCURRENCY,
        left=left,
        hint=f"name another model: {server.section}.model",
    )


def _line(generation: Generation, most: int, row: int) -> str:
    """Return the text of a record for the model: its name, and the beginning of its description or else its text."""
    record = generation.records[row]
    name = str(record["name"])[:most]
    description = str(record["description"] or "") or str(generation.chunks[int(generation.starts[row])]["text"])
    shown = " ".join(description[: 4 * most].split())[:most].rstrip()
    domain = record["metadata"].get("domain")
    return f"{name}: {shown}" + (f" (domain: {domain[:most]})" if isinstance(domain, str) and domain else "")


class ModelServer(NamedTuple):
    """A configured server of a model."""

    stage: str
    model: str
    address: str
    """Address for display, without parts that may be secret."""
    api_key_env: str | None

    @property
    def lacks_key(self) -> bool:
        """True if the variable that holds its key is not set."""
        return self.api_key_env is not None and not os.environ.get(self.api_key_env)


def model_servers(settings: Settings) -> list[ModelServer]:
    """Return the configured servers that encode, summarise, rerank and choose records, without contacting them.

    Raises:
        UsageError: one is named, but not its model.
    """
    chosen: dict[str, EncoderSettings | FacetsSettings | RerankSettings | LlmSettings] = {}
    if settings.dense.enabled and settings.encoder.kind == "remote":
        chosen["encoder"] = settings.encoder
    if settings.facets.enabled and not settings.facets.extractive:
        chosen["facets"] = settings.facets
    if settings.rerank.backend in ("remote", LLM):
        chosen["rerank"] = settings.rerank
    if (server := endpoint(settings)) is not None:
        chosen[LLM] = server.settings
    return [
        ModelServer(stage, section.model or "no model", shown(section.base_url or "no server"), section.api_key_env)
        for stage, section in chosen.items()
    ]
