"""Configured servers of models, for commands that inspect a configuration."""

from __future__ import annotations

import os
from typing import NamedTuple

from retrieve_cli.assemble.llm import endpoint
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import EncoderSettings, FacetsSettings, LlmSettings, RerankSettings, Settings
from retrieve_cli.http.addresses import shown


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


def configured(settings: Settings) -> list[ModelServer]:
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
