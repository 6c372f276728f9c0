"""Trust: values of a configuration that reach out of its folder, and the user's agreement to them.

A cloned folder may contain a `config.yaml`. Its addresses would receive queries and passages, the variables that it
names would be sent as keys, its paths read, code of its models and of plug-ins run. Such values apply only after the
user agreed to exactly these values in this file and to the places that their paths lead to. Everything else applies at
once.

    $XDG_STATE_HOME/retrieve/trust.json    {version, agreed: {path: digest}, declined: {path: digest}}

The path is the path of a configuration or of an artifacts folder, all links followed; the digest covers the values that
reach out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from retrieve_cli.config.bounds import SettingsKey, keys_of
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings

VARIABLE = "RETRIEVE_TRUST"
"""Set to 1, it is the user's agreement to everything: for containers and continuous integration."""
COMMAND = "retrieve trust"
Kind = Literal["address", "download", "variable", "path", "code", "access", "server"]
KINDS: Mapping[Kind, str] = {
    "address": "sends queries, texts or records over the network",
    "download": "reads from the network",
    "variable": "sends the value of this environment variable as a key",
    "path": "is outside of the folder",
    "code": "may run code",
    "access": "decides who may ask a server",
    "server": "is started or contacted",
}
"""Effect of a value of each kind, in words."""
_ADDRESSES = ("url", "base_url", "endpoints")


class OutsideValue(NamedTuple):
    """A value that reaches out of the folder."""

    key: str
    """`rerank.base_url`, or `sources.list 2` for the second entry."""
    kind: Kind
    value: str
    target: str = ""
    """Path that the value leads to, if it has links."""

    @classmethod
    def at(cls, key: str, kind: Kind, value: str) -> OutsideValue:
        """Return a value, with its target if it is a path with links."""
        target = os.path.realpath(os.path.expanduser(value)) if kind in ("path", "code") else ""  # noqa: PTH111
        lexical = os.path.abspath(os.path.expanduser(value))  # noqa: PTH100, PTH111
        return cls(key, kind, value, "" if target == lexical else target)


class Trust(NamedTuple):
    """A file or folder, and its values that reach out."""

    place: Path
    reaches: tuple[OutsideValue, ...]
    covers: str = ""
    """Values that the user agrees to without seeing them, because they may be secrets."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the values that reach out, 64 hexadecimal digits."""
        import json
        from hashlib import sha256

        text = json.dumps(sorted(self.reaches)) + self.covers
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def agreed(self) -> bool:
        """True if the user agreed to it, or if it reaches nothing."""
        return not self.reaches or os.environ.get(VARIABLE) == "1" or self._is_in("agreed")

    @property
    def declined(self) -> bool:
        """True if the user was asked and did not agree."""
        return self._is_in("declined")

    @property
    def name(self) -> str:
        """The path by which answers are kept."""
        return os.path.realpath(self.place)

    def as_json(self) -> list[Json]:
        """Return the values that reach out, for programs."""
        return [reach._asdict() for reach in self.reaches]

    def _is_in(self, answer: str) -> bool:
        return answers().get(answer, {}).get(self.name) == self.digest


def state_file() -> Path:
    """Return the file in which the user's answers are kept, away from any folder that could be cloned.

    Raises:
        UsageError: the user has no home folder.
    """
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:  # a relative one does not count (XDG Base Directory Specification): it could be in the clone
        folder = folder if folder.is_absolute() else Path("~/.local/state").expanduser()
    except RuntimeError as error:
        hint = "set HOME or XDG_STATE_HOME to a folder"
        raise UsageError("there is no home folder to keep answers in", hint=hint) from error
    return folder / "retrieve" / "trust.json"


def answers() -> Mapping[str, Mapping[str, str]]:
    """Return the answers that are kept; none if the file is damaged: then nothing is trusted."""
    import json

    from retrieve_cli.untrusted.files import CONFIG, read_text

    try:
        state = json.loads(read_text(state_file(), limit=CONFIG))
    except (OSError, ValueError, RecursionError, UsageError):
        return {}
    sound = isinstance(state, dict) and state.get("version") == 1
    return {name: each for name, each in state.items() if isinstance(each, dict)} if sound else {}


def outside(path: Path | str, folder: Path) -> bool:
    """Return True if a path leads out of a folder, all links followed."""
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    return inner != outer and not inner.startswith(os.path.join(outer, ""))  # noqa: PTH118  no Path is needed


def reaches(settings: Settings, names: Iterable[str], folder: Path) -> Iterator[OutsideValue]:
    """Yield the values of some sections that reach out of the folder of their file, and are not the defaults."""
    for name in names:
        section = getattr(settings, name)
        if name == "plugins":
            yield from (OutsideValue(f"plugins.{each}", "code", each) for each in section)
        else:
            yield from _section_reaches(section, type(section)(), name, folder)


def _section_reaches(section: Any, default: Any, name: str, folder: Path) -> Iterator[OutsideValue]:
    for field in keys_of(section):
        value = getattr(section, field.name)
        if value is None or value == getattr(default, field.name) or (way := way_of(field)) is None:
            continue
        for number, each in enumerate(_each(value), 1):
            if way == "sources":
                yield from _section_reaches(each, type(each)("catalog"), f"{name}.{field.name} {number}", folder)
            elif (kind := _kind(way, each, field.metadata, folder)) is not None:
                yield OutsideValue.at(name if " " in name else f"{name}.{field.name}", kind, str(each))


def _each(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [f"{name}: {each}" for name, each in value.items()]
    return value if isinstance(value, list | tuple) else [value]


def way_of(field: SettingsKey) -> str | None:
    """Return the way in which values of a key may reach out; None: they do not.

    It follows from the name of the key and its type, unless its metadata have `reaches`.
    """
    if "reaches" in field.metadata:
        return str(field.metadata["reaches"])
    if field.name.endswith("_env"):
        return "variable"
    if field.name in _ADDRESSES:
        return "address"
    if "SourceSetting" in field.type:
        return "sources"
    if "Path" in field.type:
        return "path"
    return "plug-in" if "choices" in field.metadata else None


def is_model_folder(name: str, folder: Path) -> bool:
    """Return True if the name of a model may be the path of a folder, as seen from a folder or the working folder."""
    named = name.startswith((".", "~", os.sep))
    return named or any(os.path.lexists(place / name) for place in (folder, Path()))


def _kind(way: str, value: Any, metadata: Mapping[str, Any], folder: Path) -> Kind | None:
    match way:
        case "path":
            return "path" if str(value) not in metadata.get("names", ()) and outside(value, folder) else None
        case "model":  # modules in the folder of a model are imported by the libraries that read it
            return "code" if is_model_folder(value, folder) else None
        case "plug-in":
            return None if value in metadata["choices"]() else "code"
        case "path all":
            return "path"
        case "address" | "download" | "variable" | "code" | "access":
            return way
    raise ValueError(f"there is no way of reaching out called {way}")


def without(settings: Settings, found: Sequence[OutsideValue]) -> Settings:
    """Return the settings with defaults instead of the values that reach out; `withheld` lists their keys."""
    keys = {reach.key.partition(" ")[0] for reach in found}
    default = type(settings)()
    changed: dict[str, Any] = {}
    for key in keys:
        section, _, name = key.partition(".")
        if section == "plugins":
            changed[section] = {}
            continue
        before = changed.get(section, getattr(settings, section))
        changed[section] = replace(before, **{name: getattr(getattr(default, section), name)})
    return replace(settings, **changed, withheld=tuple(sorted(keys)))
