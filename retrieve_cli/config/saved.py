"""Settings saved with a run and restored from it: keys that decide answers are the run's, the others are current.

Sections are read from their declarations, so that a new one is saved and restored without a change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieve_cli.config.bounds import SettingsKey, keys_of
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.config.values import unknown
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.frozen import asdict, replace

_APART = frozenset({"models", "log", "plugins"})
"""Sections of places, of logs, and those that only a plug-in understands."""
_TODAY = frozenset(
    {"base_url", "api_key_env", "timeout_s", "retries", "concurrency"}
    | {"device", "batch_size", "require_tenant", "max_also", "file"}
)
"""Keys of servers, of this machine, and of the limits of a request, in any section."""


_BEFORE: Mapping[str, Mapping[str, Json]] = {"expansion": {"placement": "blend"}, "search": {"exact_words": True}}
"""By section, values of keys whose default is not what runs did that were kept before there were these keys."""


def decisive() -> tuple[str, ...]:
    """Return the sections that affect answers, in order of their names."""
    return tuple(sorted((sections("answers") | sections("index")) - _APART))


def kept(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the settings that a run keeps, by section."""
    return {name: asdict(getattr(settings, name)) for name in decisive()}


def restored(saved: Json, today: Settings, *, where: str) -> Settings:
    """Return the settings of a run as far as they decide answers, and the current ones otherwise.

    Servers, credentials, folders and limits are current, and nothing is downloaded. A key that the run does not have is
    at its default, or at the value that describes the behaviour before the key existed. `saved` comes from an untrusted
    file.

    Raises:
        UsageError: a section, key or value is unknown; names it.
        Unavailable: a model is a folder that the current settings do not name.
    """
    if not isinstance(saved, dict) or not all(isinstance(keys, dict) for keys in saved.values()):
        raise UsageError(f"`configuration` of {where} is not a mapping of sections", hint="save the run again")
    given = {}
    defaults: dict[str, Any] = {}
    for name in decisive():
        now = getattr(today, name)
        keys = {**_BEFORE.get(name, {}), **saved[name]} if name in saved else {}
        own = {key.name: key for key in keys_of(now)}
        defaults[name] = replace(
            getattr(Settings(), name), **{key: getattr(now, key) for key in own if not _is_of_run(name, own[key])}
        )
        given[name] = {key: value for key, value in keys.items() if key not in own or _is_of_run(name, own[key])}
        for key in own.keys() & keys.keys():
            if _is_of_run(name, own[key]):
                _check_place(f"{name}.{key}", own[key], keys[key], now=getattr(now, key))
    if strange := [name for name in saved if name not in (*given, *_APART)]:
        raise unknown(f"section `{strange[0]}` in {where}", str(strange[0]), given)
    base = replace(today, **defaults, models=replace(today.models, auto_download=False))
    return override(base, given, where=where)


def _is_of_run(section: str, key: SettingsKey) -> bool:
    """Return True if a key decides answers. The model and the files of an index are in its recipe."""
    of_index = section in sections("index")
    return key.name not in _TODAY and not (of_index and (key.name == "model" or "Path" in key.type))


def _check_place(name: str, key: SettingsKey, value: Json, *, now: object) -> None:
    """Raises: Unavailable if a value names a folder or file that the current settings do not name."""
    if not isinstance(value, str) or value in key.metadata.get("names", ()) or value == str(now):
        return
    if "Path" in key.type or (key.name == "model" and is_path(value)):
        raise Unavailable(
            f"the run was answered with {name} {quoted(value)}, which the configuration does not name",
            hint=f"if it is on this machine, set {name} to it",
        )


def is_path(model: str) -> bool:
    """Return True if a model is named by its folder, which a run does not choose: neither `name` nor `owner/name`."""
    parts = model.replace("\\", "/").split("/")
    return len(parts) > 2 or any(part in ("", ".", "..", "~") for part in parts)


def shown_addresses(section: Mapping[str, Any], show: Any) -> dict[str, Any]:
    """Return a section with its addresses as `show` prints them, without possible secrets."""
    return {
        key: show(value) if key.endswith(("url", "endpoint")) and isinstance(value, str) else value
        for key, value in section.items()
    }
