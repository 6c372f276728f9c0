"""The keys of metadata that say whose a record is."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.errors import quoted

TENANT = "tenant"
"""The field that a request's tenant is compared with."""
KEYS = (TENANT, "tenant_id")
"""The keys that name a record's tenants."""


def conflict(said: Mapping[str, Json]) -> str:
    """Return why a record cannot be given to anyone: its keys name different tenants. Empty if they do not."""
    named = {key: tenants for key, value in said.items() if (tenants := _tenants(value))}
    first = next(iter(named), "")
    for key, tenants in named.items():
        if tenants != named[first]:
            one, other = f"`{first}` is {quoted(said[first])}", f"`{key}` is {quoted(said[key])}"
            return f"its tenant is not clear: {one}, {other}"
    return ""


def conflict_in(metadata: Mapping[str, Json]) -> str:
    """Return the same of a record by its metadata."""
    return conflict({key: metadata.get(key) for key in KEYS})


def _tenants(value: Json) -> frozenset[str]:
    """The tenants that a value names, as text."""
    parts = value if isinstance(value, list | tuple) else [value]
    return frozenset(text for part in parts if part is not None and (text := str(part).strip()))
