"""Keys of the configuration that differ from what an index was built with: the next sync applies them.

Keys that leave the value to the program (`auto`, null) are not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from retrieve_cli.config.saved import index_keys, plain
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import shortened
from retrieve_cli.storage.manifest import Manifest

_NAMED = 3
"""Keys that a sentence names."""


class Unapplied(NamedTuple):
    """A key, its value in the configuration, and what the index was built with."""

    key: str
    configured: Json
    indexed: Json

    def sentence(self, where: str) -> str:
        """Return both values as a sentence; `where` names the place that sets the key: `in config.yaml`, `by
        default`."""
        if isinstance(self.configured, Mapping | list | tuple):
            return f"{self.key} {where} differs from the index"
        return f"{self.key} is {_shown(self.configured)} {where} and {_shown(self.indexed)} in the index"

    def __str__(self) -> str:
        """The key and both values: `chunking.size (400, 256 in the index)`."""
        if isinstance(self.configured, Mapping | list | tuple):
            return self.key
        return f"{self.key} ({_shown(self.configured)}, {_shown(self.indexed)} in the index)"


def summary(differing: Sequence[Unapplied], given: Mapping[str, str]) -> str:
    """Return the first keys that differ as one sentence; `given` maps each key to the place that sets it."""
    places = dict.fromkeys(f"in {given[one.key]}" if one.key in given else "by default" for one in differing)
    place = next(iter(places))
    if len(differing) == 1:
        return differing[0].sentence(place)
    where = place.removeprefix("in ") if len(places) == 1 and place != "by default" else "the configuration"
    more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return f"{where} differs from the index in {', '.join(map(str, differing[:_NAMED]))}{more}"


def _shown(value: Json) -> str:
    """A value as the configuration writes it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else shortened(str(value))


def unapplied(settings: Settings, manifest: Manifest, *, keys: Collection[str] | None = None) -> list[Unapplied]:
    """Return the keys that a sync would apply, of those given (`section.key`; None: all), in order of sections."""
    indexed, defaults = manifest.built.get("settings", {}), Settings()
    differing: list[Unapplied] = []
    for key in (f"{section}.{name}" for section, names in index_keys().items() for name in names):
        if keys is None or key in keys:
            configured, default = (plain(attrgetter(key)(values)) for values in (settings, defaults))
            if configured not in ("auto", None, indexed.get(key, default)):
                differing.append(Unapplied(key, configured, indexed.get(key, default)))
    return differing
