"""Sections of the configuration that concern servers: who may ask, and the files that agents may name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from retrieve_cli.config.bounds import bounded
from retrieve_cli.frozen import dataclass


@dataclass(frozen=True)
class ServeSettings:
    """Names and web pages that the server answers."""

    allowed_hosts: Sequence[str] = field(default_factory=list, metadata={"reaches": "access"})
    allowed_origins: Sequence[str] = field(default_factory=list, metadata={"reaches": "access"})


@dataclass(frozen=True)
class McpSettings:
    """Folders of the files that an MCP client of this user may name; none: the working folder of the process."""

    files: Sequence[Path] = field(default_factory=list)


@dataclass(frozen=True)
class JwtSettings:
    """The issuer of signed tokens, and what their claims mean."""

    issuer: str | None = None
    audience: str | None = None
    jwks_url: str | None = None
    jwks_file: Path | None = None
    secret_env: str | None = None
    algorithms: Sequence[str] = field(default_factory=lambda: ["RS256", "PS256", "ES256", "EdDSA"])
    leeway_s: float = bounded(30.0, 0, 300)
    tenant_claim: str | None = None
    scope_claim: str = "scope"
    rate: str | None = None
