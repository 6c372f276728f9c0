"""config.yaml and the environment to frozen Settings.

Unknown keys are rejected; the error names the nearest valid one. Precedence: flag, then environment
(`RETRIEVE_<SECTION>__<KEY>`), then file, then default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from retrieve_cli.config.index_settings import ROLES, SERVERS
from retrieve_cli.config.plugins import installed
from retrieve_cli.config.settings import NOT_AGREED, TRUST_HINT, Settings, section_names
from retrieve_cli.config.trust import Trust, outside, reaches, without
from retrieve_cli.config.values import unknown, variables, with_keys
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.texts import read_user_text

DEFAULT_FILE = Path("config.yaml")
_ENGINE_KEYS = dict(zip(("vector_index", "lexical_index"), ROLES, strict=False))
_MOST_VALUES = 10_000
"""Values that a configuration may have, its aliases unfolded."""


def load(
    path: Path | None,
    environment: Mapping[str, str] = os.environ,
    *,
    say: Callable[[str], None] = lambda _: None,
    given: dict[str, str] | None = None,
    ask: Callable[[Trust], bool] = lambda _: False,
) -> Settings:
    """Return the settings of a file (`./config.yaml` by default, if there is one), the environment and the defaults.

    Values of the file that reach out of its folder apply only if the user trusts them, or agrees when `ask` asks.

    Keys that do not apply are reported; `given` receives every key that is set (`section.key`) and its place.

    Raises:
        UsageError: the file cannot be read, or a key or value is unknown; names the key and the nearest valid one.
    """
    settings = Settings()
    for layer in layers(path, environment):
        settings = _overlay(settings, layer.value, where=layer.where, folder=layer.folder, given=given)
        if layer.kind == "file" and (trust := trust_of(settings, layer)) is not None:
            named = path is not None and outside(path, Path())  # whoever names it knows it
            if not (named or trust.agreed or ask(trust)):
                settings = without(settings, trust.reaches)
                say(f"note: {layer.where} {NOT_AGREED.format(', '.join(settings.withheld))}; {TRUST_HINT}")
    return settings


def trust_of(settings: Settings, layer: Layer) -> Trust | None:
    """Return what a file reaches out of its folder, if anything; `settings` are those with its values."""
    sections = [name for name in section_names() if name in _current_sections(layer.value)]
    found = tuple(reaches(settings, sections, layer.folder))
    return Trust(Path(layer.where), found) if found else None


def trust_of_file(path: Path | None) -> Trust | None:
    """Return what the configuration file reaches out of its folder, if anything. Raises: UsageError: as `load` does."""
    for layer in layers(path, {}):
        return trust_of(_overlay(Settings(), layer.value, where=layer.where, folder=layer.folder), layer)
    return None


class Layer(NamedTuple):
    """Sections and keys that lie over those before."""

    kind: Literal["file", "environment"]
    where: str
    """The file or the variable, as messages name it."""
    folder: Path
    """The folder that paths are relative to."""
    value: Mapping[str, Json]


def file_of(path: Path | None) -> Path | None:
    """Return the configuration file that is read: the one named, else `./config.yaml` if there is one."""
    return DEFAULT_FILE if path is None and os.path.lexists(DEFAULT_FILE) else path


def layers(path: Path | None, environment: Mapping[str, str] = os.environ) -> Iterator[Layer]:
    """Yield what lies over the defaults, in order: the file, then each variable of the environment.

    Raises:
        UsageError: the file or a variable cannot be read.
    """
    if (file := file_of(path)) is not None:
        yield Layer("file", str(file), file.parent, _read(file))
    for name, section, key, text in variables(environment):
        yield Layer("environment", f"environment variable {name}", Path(), {section: {key: read_yaml(text, name)}})


def load_with_origins(
    path: Path | None, environment: Mapping[str, str] = os.environ
) -> tuple[Settings, dict[str, Layer]]:
    """Return the settings, and by key (`search.k`) the layer that a value other than the default comes from.

    Raises:
        UsageError: as `load` does.
    """
    settings, origins = Settings(), {}
    for layer in layers(path, environment):
        before, settings = settings, _overlay(settings, layer.value, where=layer.where, folder=layer.folder)
        origins.update(dict.fromkeys(changed_keys(before, settings), layer))
    return settings, {key: origins[key] for key in changed_keys(Settings(), settings)}


def changed_keys(before: Settings, after: Settings) -> list[str]:
    """Return the keys (`search.k`) whose values differ, in the order of the settings."""
    names: list[str] = []
    for section in section_names():
        old, new = getattr(before, section), getattr(after, section)
        if section == "plugins":
            names += [f"plugins.{name}" for name in new if old.get(name) != new[name]]
        else:
            names += [f"{section}.{key}" for key in new.__struct_fields__ if getattr(old, key) != getattr(new, key)]
    return names


def override(settings: Settings, value: Mapping[str, Json], *, where: str) -> Settings:
    """Return the settings with the sections and keys of `value` in their place.

    Raises:
        UsageError: a key or value is unknown; `where` is named in the message.
    """
    return _overlay(settings, value, where=where, folder=Path())


def _read(path: Path) -> Mapping[str, Json]:
    try:
        text = read_user_text(path, limit=files.CONFIG)
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}", hint="check --config") from error
    value = read_yaml(text, str(path))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(
            f"{path} is not a mapping of sections", hint="see the commented config.yaml: retrieve config defaults"
        )
    return value


def read_yaml(text: str, where: str) -> Json:
    """Return the value of a piece of YAML.

    Raises:
        UsageError: it is not YAML; names its place, `where`.
    """
    from retrieve_cli.untrusted import yaml_text  # yaml only if there is some

    try:
        value = yaml_text.load(text, values=_MOST_VALUES)
        _check_texts(value)
        return value
    except ValueError as error:
        raise UsageError(f"{where} is not valid YAML: {error}", hint="fix it there") from error


def _check_texts(value: Json) -> None:
    """Raises: ValueError if a text holds characters that no path, name or address can hold."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str) and ("\0" in part or any("\ud800" <= char <= "\udfff" for char in part)):
            raise ValueError(f"the value {quoted(part)} holds a NUL or half of a character")


def _overlay(
    settings: Settings,
    value: Mapping[str, Json],
    *,
    where: str,
    folder: Path,
    given: dict[str, str] | None = None,
) -> Settings:
    sections = {name: getattr(settings, name) for name in section_names()}
    withheld = settings.withheld
    for name, keys in _current_sections(value).items():
        if name not in sections:
            raise unknown(f"section `{name}` in {where}", str(name), sections)
        if keys is None:
            continue
        named = {"list": keys} if name == "sources" and isinstance(keys, list) else keys
        if not isinstance(named, dict):
            raise UsageError(
                f"section `{name}` in {where} is not a mapping of keys to values",
                hint=f"write `{name}:` and keys below",
            )
        if name == "plugins":
            sections[name] = {**sections[name], **_plugins(named, where)}
            continue
        if name == "boost" and not _is_whole_boost(named):
            named = {"factors": named}
        if name == "search" and "mode" in named and "retrievers" not in named:
            named = {**named, "retrievers": []}  # a later mode overrides earlier retrievers
        sections[name] = with_keys(sections[name], named, f"{name}.", where, folder)
        changed = [f"{name}.{key}" for key in named]
        withheld = [key for key in withheld if key not in changed]
        if given is not None:
            given.update(dict.fromkeys(changed, where))
    return replace(settings, **sections, withheld=tuple(withheld))


def _current_sections(value: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the sections: sections of servers may also be written within `engines`, and `vector_index` and
    `lexical_index` are keys of `engines`."""
    sections = {name: keys for name, keys in value.items() if name not in _ENGINE_KEYS}
    engines = {key: value[name] for name, key in _ENGINE_KEYS.items() if name in value}
    if isinstance(own := value.get("engines", {}), dict):
        for name, keys in own.items():
            if name in SERVERS and isinstance(keys, dict):
                sections[name] = {**keys, **(sections.get(name) or {})}
            else:
                engines[_ENGINE_KEYS.get(name) or name] = keys
        return {**sections, "engines": engines} if engines or "engines" in value else sections
    return sections


def _plugins(value: Mapping[str, Json], where: str) -> dict[str, Mapping[str, Json]]:
    """Return `plugins`: the configuration of each plug-in by its name, which only the plug-in understands."""
    for name, keys in value.items():
        if name not in installed():
            raise unknown(f"plug-in `{name}` in {where}", str(name), installed())
        if not isinstance(keys, dict):
            raise UsageError(
                f"`plugins.{name}` in {where} must be a mapping", hint=f"for example: {name}: {{enabled: false}}"
            )
    return {str(name): keys for name, keys in value.items()}


def _is_whole_boost(keys: Mapping[str, Json]) -> bool:
    """Return True for `boost: {factors: {section: {Results: 1.2}}}`, of which `boost: {section: …}` is short."""
    inner = keys.get("factors")
    return (
        keys.keys() == {"factors"}
        and isinstance(inner, dict)
        and all(isinstance(each, dict) for each in inner.values())
    )
