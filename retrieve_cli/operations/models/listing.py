"""Models on this machine: place, size, licence and revision of each model that is needed."""

from __future__ import annotations

from pathlib import Path

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.assemble.llm import ModelServer, model_servers
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.runtimes.digests import Digests
from retrieve_cli.operations.models.needs import Folder, ModelNeed, export_of, find, needs
from retrieve_cli.untrusted import files

UNKNOWN = "unknown"
_FRONT = 65536
"""Bytes of a README in which its front matter must end."""
_MOST_VALUES = 10_000
"""Values that its front matter may have."""


def listing(settings: Settings) -> dict[str, Json]:
    """Return every model that is needed, and whether it is here."""
    folder = settings.models.dir
    return {
        "schema_version": 1,
        "models": [_entry(need, settings) for need in needs(settings)],
        "servers": [_server(server) for server in model_servers(settings)],
        "models_dir": None if folder is None else str(folder),
        "cache_dir": str(cache_dir(settings)),
    }


def _entry(need: ModelNeed, settings: Settings) -> dict[str, Json]:
    entry: dict[str, Json] = {"stage": need.stage, "model": need.model, "state": "here", "problem": None, "hint": None}
    nothing = {"path": None, "bytes": None, "license": None, "revision": None, "export": None}
    try:
        model = find(need, settings)
        return {**entry, **described(model, Digests(cache_dir(settings))), "export": _export(model, settings)}
    except Unavailable as error:
        return {**entry, **nothing, "state": "missing", "problem": error.message, "hint": pull_hint(need)}
    except (UsageError, OSError) as error:
        hint = error.hint if isinstance(error, UsageError) else "fix its permissions, or fetch it again"
        return {**entry, **nothing, "state": "unreadable", "problem": str(error), "hint": hint}


def _server(server: ModelServer) -> dict[str, Json]:
    """A model that is not on this machine."""
    return {
        "stage": server.stage,
        "model": server.model,
        "base_url": server.address,
        "api_key_env": server.api_key_env,
        "hint": f"export {server.api_key_env}=..." if server.lacks_key else None,
    }


def described(model: Folder, digests: Digests) -> dict[str, Json]:
    """Return the place of a model, its size, licence and revision."""
    return {
        "path": str(model.path),
        "bytes": size(model.path),
        "license": licence(model.path),
        "revision": model.revision(digests),
    }


def pull_hint(need: ModelNeed) -> str:
    """The command that brings a model here."""
    return f"retrieve models pull {need.stage or need.model}"


def _export(model: Folder, settings: Settings) -> dict[str, Json]:
    export = export_of(model, cache_dir(settings), Digests(cache_dir(settings)))
    if isinstance(export, str):
        return {"path": None, "why_not": export}
    return {"path": str(export.path) if export.path.is_dir() else None, "why_not": None}


def size(path: Path) -> int:
    """Bytes of all files of a folder; what a link leads to counts."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def licence(path: Path) -> str:
    """Return the licence in the front matter of README.md, else the first line of a LICENSE file, else "unknown"."""
    stated = _front_matter(path / "README.md").get("license")
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    if names := [str(name) for name in names if name]:
        return ", ".join(names)
    for file in sorted(path.glob("LICEN[SC]E*")):
        text = _beginning(file)
        if line := next((line.strip() for line in text.splitlines() if line.strip()), ""):
            return line[:80]
    return UNKNOWN


def _beginning(path: Path) -> str:
    try:
        with files.open_regular(path) as file:
            return file.read(_FRONT).decode("utf-8", "replace")
    except OSError:
        return ""


def _front_matter(path: Path) -> dict[str, Json]:
    from retrieve_cli.untrusted import yaml_text

    head, separator, _ = _beginning(path).removeprefix("\ufeff").partition("\n---")
    if not separator or not head.startswith("---"):
        return {}
    try:
        value = yaml_text.load(head.removeprefix("---"), values=_MOST_VALUES)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
