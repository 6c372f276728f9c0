"""`retrieve config`: the settings that hold, where each comes from, and the lines that set one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.cli.options import Shared, argument, option, shared
from retrieve_cli.errors import UsageError, printable, quoted
from retrieve_cli.frozen import asdict

if TYPE_CHECKING:
    from retrieve_cli.config.loading import Layer
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Json

ACTIONS = ("show", "defaults", "set")
_COLUMN = 34
"""Column at which the origin of a value is written."""
_EXAMPLE = "for example: retrieve config set search.k 20"


@shared("text", "json")
def config(
    action: Annotated[str, argument("[" + "|".join(ACTIONS) + "]", "What to do.")] = "show",
    key: Annotated[str | None, argument("[KEY]", "A key (search.k) or a section (search).")] = None,
    value: Annotated[str | None, argument("[VALUE]", "With set: the new value, as YAML.")] = None,
    changed: Annotated[bool, option("--changed", "With show: only keys that are not at their default.")] = False,
    *,
    shared: Shared,
) -> None:
    """Show the configuration, or the lines that change it.

    show [KEY] prints the settings that hold and where each that is not a default comes from; defaults prints the
    commented file with every key; set KEY VALUE checks the value and prints the lines to put into the file.
    """
    if action not in ACTIONS:
        from retrieve_cli.config.values import unknown

        raise unknown(f"action {quoted(action)} of config", action, ACTIONS)
    if value is not None and action != "set":
        raise UsageError(f"`retrieve config {action}` takes no value", hint=_EXAMPLE)
    if action == "show":
        _show(key, shared, changed_only=changed)
    elif action == "set":
        _set(key, value, shared)
    elif key is not None:
        raise UsageError("`retrieve config defaults` takes no key", hint=f"retrieve config show {key}")
    else:
        from retrieve_cli.config.settings import Settings
        from retrieve_cli.config.starters import defaults

        shared.show(values_of(Settings()), defaults().splitlines())


def _show(key: str | None, shared: Shared, *, changed_only: bool) -> None:
    from retrieve_cli.config.loading import file_of, load_with_origins
    from retrieve_cli.config.settings import Settings

    settings, origins = load_with_origins(shared.config)
    shown = [name for name in _keys(settings, key) if not changed_only or name in origins]
    values, defaults = values_of(settings), values_of(Settings())
    file = file_of(shared.config)
    if shared.format == "json":
        from retrieve_cli.output.formats import document

        sections: dict[str, dict[str, Json]] = {}
        for name in shown:
            section, _, inner = name.partition(".")
            sections.setdefault(section, {})[inner] = values[name]
        shown_origins = {
            name: {"kind": layer.kind, "where": layer.where, "default": defaults.get(name)}
            for name, layer in origins.items()
            if name in shown
        }
        print(document({"file": None if file is None else str(file), "settings": sections, "origins": shown_origins}))
        return
    print(*_lines(shown, values, defaults, origins), sep="\n")
    if changed_only and not shown:
        shared.talk.say("every key is at its default")


def _lines(
    shown: Sequence[str], values: Mapping[str, Json], defaults: Mapping[str, Json], origins: Mapping[str, Layer]
) -> Iterator[str]:
    last = ""
    for name in shown:
        section, _, key = name.partition(".")
        if section != last:
            yield f"{section}:"
            last = section
        line = f"  {key}: {as_yaml(values[name])}"
        if (layer := origins.get(name)) is not None:
            line = f"{line:{_COLUMN}}  # {layer.where} (default: {as_yaml(defaults.get(name))})"
        yield printable(line)


def values_of(settings: Settings) -> dict[str, Json]:
    """The value of every key, as JSON and YAML write it; addresses without secrets."""
    from retrieve_cli.config.saved import shown_addresses
    from retrieve_cli.config.settings import SourceSetting, section_names
    from retrieve_cli.http.addresses import shown

    values: dict[str, Json] = {}
    for section in section_names():
        keys = getattr(settings, section)
        plain = dict(keys) if section == "plugins" else asdict(keys)
        if section == "sources":
            entries = []
            for entry in plain["list"]:
                default = {**asdict(SourceSetting(entry["kind"])), "kind": None}
                own = {key: given for key, given in entry.items() if given != default.get(key)}
                entries.append(shown_addresses(own, shown))
            plain["list"] = entries
        for key, value in shown_addresses(plain, shown).items():
            values[f"{section}.{key}"] = _plain(value)
    return values


def _plain(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def as_yaml(value: Json) -> str:
    """Return a value as YAML on one line."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _keys(settings: Settings, wanted: str | None) -> list[str]:
    """The keys of a section, the one key of that name, or all. Raises: UsageError: the key does not exist; the hint
    names the nearest."""
    from retrieve_cli.config.settings import section_names

    keys = list(values_of(settings))
    if wanted is None:
        return keys
    chosen = [key for key in keys if key == wanted or key.startswith(f"{wanted}.")]
    sections = section_names()
    if not chosen and wanted not in sections:
        raise _unknown(wanted, [*sections, *keys])
    return chosen


def _unknown(key: str, known: Sequence[str]) -> UsageError:
    """The error for a key that does not exist: keys of that name in another section, or the nearest."""
    from retrieve_cli.untrusted.nearest import nearest

    name = key.rpartition(".")[2]
    alike = [full for full in known if full.partition(".")[2] == name] if name else []
    near = alike or [full for full in [nearest(key, known)] if full is not None]
    hint = f"did you mean {' or '.join(f'`{full}`' for full in near)}?" if near else "list them: retrieve config"
    return UsageError(f"there is no key {quoted(key)}", hint=hint)


def _set(key: str | None, text: str | None, shared: Shared) -> None:
    """Print the lines to put into the configuration file. Raises: UsageError: the key or its value is invalid."""
    from retrieve_cli.config import loading
    from retrieve_cli.config.settings import Settings, sections

    if key is None or text is None:
        raise UsageError("`retrieve config set` takes a key and a value", hint=_EXAMPLE)
    section, _, name = key.partition(".")
    settings = loading.load(shared.config)
    if section != "plugins" and key not in (known := list(values_of(settings))):
        raise _unknown(key, known)
    value = loading.read_yaml(text, "the value")
    new = values_of(loading.override(Settings(), {section: {name: value}}, where="the command line")).get(key)
    path, before = shared.config or loading.DEFAULT_FILE, values_of(settings).get(key)
    lines = [f"{section}:", f"  {name}: {as_yaml(value)}"]
    shared.show({"path": str(path), "key": key, "value": new, "before": before, "lines": lines}, lines)
    shared.talk.say(f"note: put these lines into {path}; {key} is {as_yaml(before)} now")
    for layer in loading.layers(shared.config):
        if layer.kind == "environment" and name in layer.value.get(section, ()):
            shared.talk.say(f"note: {layer.where} wins over the file")
    if section in sections("index"):
        shared.talk.say("note: if this changes the index, it takes effect at the next build: retrieve build")
