"""The servers of models that are configured, for whoever looks at a configuration."""

from __future__ import annotations

import os
from typing import NamedTuple

from retrieve_cli.assemble.llm import endpoint
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import EncoderSettings, LlmSettings, RerankSettings, Settings
from retrieve_cli.web.addresses import shown


class Server(NamedTuple):
    """A server of a model that is configured."""

    stage: str
    model: str
    address: str
    """For people: without what may be a secret."""
    api_key_env: str | None

    @property
    def lacks_key(self) -> bool:
        """True if the variable that holds its key is not set."""
        return self.api_key_env is not None and not os.environ.get(self.api_key_env)


def configured(settings: Settings) -> list[Server]:
    """Return the servers that encode, rerank and choose records, as far as they are configured; none is asked.

    Raises:
        UsageError: one is named, and its model is not.
    """
    chosen: dict[str, EncoderSettings | RerankSettings | LlmSettings] = {}
    if settings.dense.enabled and settings.encoder.kind == "remote":
        chosen["encoder"] = settings.encoder
    if settings.rerank.backend in ("remote", LLM):
        chosen["rerank"] = settings.rerank
    if (found := endpoint(settings)) is not None:
        chosen[LLM] = found.settings
    return [
        Server(stage, each.model or "no model", shown(each.base_url or "no server"), each.api_key_env)
        for stage, each in chosen.items()
    ]
