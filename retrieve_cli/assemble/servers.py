"""Clients of the configured servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from retrieve_cli.config.settings import EncoderSettings, FacetsSettings, LlmSettings, RerankSettings
from retrieve_cli.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from retrieve_cli.models.remote.client import Client

_MOST_BYTES = {"encoder": 128 << 20}
_FEWER_BYTES = 16 << 20
"""Maximum bytes of one answer: vectors of a batch, or a score for each of some passages."""
FACETS_TIMEOUT_S = 60.0
"""Seconds of a request for facets."""
CONCURRENCY = 4
"""Requests to one server at the same time."""


def client(chosen: EncoderSettings | FacetsSettings | RerankSettings | LlmSettings, section: str) -> Client:
    """Return a client of the server that a section of the configuration names.

    Raises:
        UsageError: it names no server.
        Unavailable: the server's key is not in the environment.
    """
    from retrieve_cli.models.remote.client import Client

    if chosen.base_url is None:
        raise UsageError(f"{section} needs a server, but none is configured", hint=f"set {section}.base_url")
    if chosen.api_key_env is not None and not os.environ.get(chosen.api_key_env):
        hint = f"export {chosen.api_key_env}=..."
        raise Unavailable(f"the key of {chosen.model} is not set ({chosen.api_key_env})", hint=hint)
    return Client(
        chosen.base_url,
        api_key_env=chosen.api_key_env,
        timeout_s=FACETS_TIMEOUT_S if isinstance(chosen, FacetsSettings) else chosen.timeout_s,
        retries=chosen.retries,
        concurrency=CONCURRENCY,
        max_bytes=_MOST_BYTES.get(section, _FEWER_BYTES),
        section=section,
    )
