"""Environment variables that set keys of the configuration: `RETRIEVE_<SECTION>__<KEY>`, and aliases that some
deployments already use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

PREFIX = "RETRIEVE_"


class Variable(NamedTuple):
    """A variable, the key that it sets, and its value as YAML."""

    name: str
    section: str
    key: str
    text: str


def _catalog(path: str) -> str:
    return json.dumps([{"kind": "catalog", "path": path}])


def _switch(text: str) -> str:
    return {"0": "false", "1": "true"}.get(text.strip(), text)


ALIASES: Mapping[str, tuple[str, str, Callable[[str], str]]] = {
    "SOFTWARE_CATALOG": ("sources", "list", _catalog),
    "SYNC_EVERY_HOURS": ("sync", "every_hours", str),
    "EMBED_CATALOG_ON_START": ("sources", "auto_sync", _switch),
}
"""Variables without our prefix, by name: section, key, and the YAML of a value."""


def variables(environment: Mapping[str, str]) -> Iterator[Variable]:
    """Yield the variables that set keys, the aliases first: a later one wins. An empty alias sets nothing."""
    for name, (section, key, written) in ALIASES.items():
        if text := environment.get(name, "").strip():
            yield Variable(name, section, key, written(text))
    for name in sorted(name for name in environment if name.startswith(PREFIX) and "__" in name):
        section, _, key = name.removeprefix(PREFIX).lower().partition("__")
        yield Variable(name, section, key, environment[name])


def variable_of(key: str) -> str:
    """Return the environment variable that sets a key, written as `section.key`."""
    return PREFIX + key.upper().replace(".", "__")
