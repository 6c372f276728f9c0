"""Metadata keys that name the tenants of a record."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.errors import quoted

TENANT = "tenant"
"""Field that is compared with a request's tenant."""
KEYS = (TENANT, "tenant_id")
"""Keys that name a record's tenants."""


def conflict(values: Mapping[str, Json]) -> str:
    """Return the reason to reject a record whose keys name different tenants; empty if they agree."""
    named = {key: tenants for key, value in values.items() if (tenants := _tenants(value))}
    first = next(iter(named), "")
    for key, tenants in named.items():
        if tenants != named[first]:
            one, other = f"`{first}` is {quoted(values[first])}", f"`{key}` is {quoted(values[key])}"
            return f"its tenant is not clear: {one}, {other}"
    return ""


def conflict_in(metadata: Mapping[str, Json]) -> str:
    """Return the reason to reject a record with this metadata; empty if it is valid."""
    named = {key: metadata[key] for key in KEYS if key in metadata}
    return conflict(named) if len(named) > 1 else ""


def _tenants(value: Json) -> frozenset[str]:
    parts = value if isinstance(value, list | tuple) else [value]
    return frozenset(text for part in parts if part is not None and (text := str(part).strip()))


def of(metadata: Mapping[str, Json]) -> frozenset[str]:
    """Return the tenants that the metadata of a record names."""
    return frozenset(name for key in KEYS for name in _tenants(metadata.get(key)))
