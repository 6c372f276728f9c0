"""Retrieval by a language model over the names and descriptions of records, as it is configured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.pipelines import layout_of
from retrieve_cli.assemble.servers import client
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import LlmSettings, Settings
from retrieve_cli.contracts import Unit
from retrieve_cli.errors import UsageError
from retrieve_cli.retrievers.retriever import TEXT
from retrieve_cli.stages.choosing import ChoosingRetrieval
from retrieve_cli.stages.retrieve import IndexRetrieval
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.encoders.remote.reading import CatalogReader
    from retrieve_cli.stages.retrieve import Retrieval


class Endpoint(NamedTuple):
    """The server of the language model, and the section of the configuration that names it."""

    settings: LlmSettings
    section: str
    model: str


def endpoint(settings: Settings) -> Endpoint | None:
    """Return the server that is configured: that of `llm`, or that of a reranker which is a language model.

    Raises:
        UsageError: the server is named, and no model.
    """
    chosen, section, reranker = settings.llm, LLM, settings.rerank
    if chosen.base_url is None and reranker.backend == LLM:
        section, model = "rerank", chosen.model or reranker.model
        chosen = replace(chosen, base_url=reranker.base_url, model=model, api_key_env=reranker.api_key_env)
    if chosen.base_url is None:
        return None
    if chosen.model is None:
        raise UsageError(f"{section}.base_url names a server, and no model", hint=f"name it: {section}.model")
    return Endpoint(chosen, section, chosen.model)


def needed_endpoint(settings: Settings) -> Endpoint:
    """Return the server that is configured.

    Raises:
        UsageError: there is none, or its model is not named.
    """
    if (found := endpoint(settings)) is not None:
        return found
    raise UsageError(f"--mode {LLM} needs a server, and none is named", hint="name it: llm.base_url and llm.model")


def retrieval(
    generation: Generation,
    indexes: Indexes,
    settings: Settings,
    *,
    unit: Unit,
    depth: int,
    left: Callable[[], float | None],
    say: Callable[[str], None],
    timed: Callable[[], AbstractContextManager[None]],
) -> ChoosingRetrieval:
    """Return the retriever; `left` are the seconds that a deadline has left, None if there is none.

    Raises:
        UsageError: no server is configured.
    """
    server = needed_endpoint(settings)
    return ChoosingRetrieval(
        LLM,
        cache(partial(_reader, generation, server, left)),
        layout_of(generation),
        unit=unit,
        depth=min(depth, server.settings.depth),
        most_read=server.settings.max_records,
        shortlist=_by_words(generation, indexes, server.settings.max_records),
        say=say,
        timed=timed,
    )


def _reader(generation: Generation, server: Endpoint, left: Callable[[], float | None]) -> CatalogReader:
    """Retriever that has the model read records.

    Raises:
        Unavailable: the key that the server wants is not in the environment.
    """
    from retrieve_cli.encoders.remote.chat import ListwiseSelector
    from retrieve_cli.encoders.remote.reading import CatalogReader, answer_tokens

    chosen = server.settings
    selector = ListwiseSelector(
        client(chosen, server.section),
        model=server.model,
        max_tokens=answer_tokens(chosen.context_tokens),
        refused="the server has to take response_format json_schema, and the model as many tokens as "
        "llm.context_tokens says: lower it, or name another model",
    )
    return CatalogReader(
        selector,
        partial(_line, generation, chosen.description_chars),
        context_tokens=chosen.context_tokens,
        concurrency=chosen.concurrency,
        left=left,
        hint=f"name another model: {server.section}.model",
    )


def _line(generation: Generation, most: int, row: int) -> str:
    """Text of a record that the model is shown: its name, and the beginning of its description, or else of its text."""
    record = generation.records[row]
    name = str(record["name"])[:most]
    description = str(record["description"] or "") or str(generation.chunks[int(generation.starts[row])]["text"])
    shown = " ".join(description[: 4 * most].split())[:most].rstrip()
    domain = record["metadata"].get("domain")
    return f"{name}: {shown}" + (f" (domain: {domain[:most]})" if isinstance(domain, str) and domain else "")


def _by_words(generation: Generation, indexes: Indexes, depth: int) -> Retrieval | None:
    """Retriever that ranks records by their words, if the index has one."""
    for name in indexes:
        if registry.retriever(name).form is TEXT:
            return IndexRetrieval(name, indexes[name], list, layout_of(generation), unit="record", depth=depth)
    return None
