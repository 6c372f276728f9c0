"""Section of the configuration that concerns executors: the processes and machines by which texts are embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from retrieve_cli.config.bounds import bounded, reaching
from retrieve_cli.frozen import dataclass


@dataclass(frozen=True)
class ExecutorsSettings:
    """Workers that embed at a build and a sync. They never change an index, unless a server computes other bits."""

    workers: int = bounded(0, 0, 256)
    executor: str | None = reaching("address", default=None)
    devices: Sequence[str] = field(default_factory=list)
    require_bit_equal: bool = False
    unit_tokens: int | None = bounded(None, 64, 10_000_000)
    lease_s: float = bounded(300.0, 1)
    timeout_s: float = bounded(120.0, 0.1)
    api_key_env: str | None = None
