"""Folders as somebody may publish them: their configuration and their index reach out, and a watch that sees it."""

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from samples import TOOLS, write_catalog

from retrieve_cli.cli.main import main
from retrieve_cli.config import loading, plugins, values
from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.settings import Settings, SourceSetting, section_names
from retrieve_cli.config.trust import way_of

VARIABLE = "CANARY_OF_A_SECRET"
PLUGIN = "evil"
SECRET = "canary"
"""Name of a folder beside every clone, which nothing may open."""
SOURCES: Sequence[Mapping[str, Any]] = (
    {"kind": "catalog", "path": f"../{SECRET}/file"},
    {"kind": "catalog", "path": "link/file"},
    {"kind": "docs", "path": f"../{SECRET}"},
    {"kind": "docs", "path": "link"},
    {"kind": "http", "url": "http://127.0.0.1:9/x.jsonl", "token_env": VARIABLE},
    {"kind": "sparql", "endpoint": "http://127.0.0.1:9/sparql", "query": f"../{SECRET}/file"},
    {"kind": "mcp", "path": ".mcp.json"},
    {"kind": "mcp", "url": "http://127.0.0.1:9/mcp", "token_env": VARIABLE},
    {"kind": "mcp", "command": f"cat ../{SECRET}/file"},
    {"kind": PLUGIN, "name": "x"},
)
COMMANDS: Sequence[Sequence[str]] = (
    ("query", "brain"),
    ("query", "brain", "--explain", "--json"),
    ("query", "brain", "--mode", "bm25", "--rerank"),
    ("query", "brain", "--max-tokens", "50"),
    ("query", "-"),
    ("build",),
    ("sync",),
    ("sync", "--dry-run"),
    ("sync", "--verify"),
    ("doctor",),
    ("doctor", "--json"),
    ("inspect", "status"),
    ("inspect", "files"),
    ("inspect", "why", "brain", "brain"),
    ("eval", "--gold", "gold.jsonl"),
    ("models", "list"),
    ("engines", "status"),
    ("engines", "push"),
    ("web", "crispr"),
    ("config", "show"),
    ("snapshot", "create", "x.tar.zst"),
)


class Key(NamedTuple):
    """A key of the configuration that may reach out, and the ways of its values."""

    section: str
    name: str
    way: str
    several: bool


def reaching_keys() -> Iterator[Key]:
    """Yield every key that may reach out, but for the sources."""
    for name in section_names():
        if name not in ("plugins", "sources"):
            for field in keys_of(getattr(Settings(), name)):
                if (way := way_of(field)) is not None:
                    yield Key(name, field.name, way, "Sequence" in field.type or "Mapping" in field.type)


def values_of(key: Key) -> Sequence[Any]:
    """Return values of a key that reach out."""
    flat: Mapping[str, Sequence[Any]] = {
        **dict.fromkeys(("address", "download"), ("http://127.0.0.1:9/v1",)),
        "variable": (VARIABLE,),
        "path": (f"../{SECRET}/file", "link/file"),
        "path all": (True,),
        "code": ("./models", PLUGIN),
        "model": ("./models/evil", "models/evil"),
        "plug-in": (PLUGIN,),
        "server": ("http://127.0.0.1:9",),
        "access": ("evil.example",),
    }
    special: Mapping[tuple[str, str], Sequence[Any]] = {
        **{("engines", role): ("qdrant", "opensearch") for role in ("dense", "lexical", "sparse")},
        ("web", "enabled"): (True,),
        ("web", "endpoints"): ({"https://api.tavily.com": "http://127.0.0.1:9"},),
        ("models", "auto_download"): (True,),
        ("executors", "executor"): ("ray:127.0.0.1:9",),
        ("fusion", "weights"): ({PLUGIN: 1.0},),
    }
    values = special.get((key.section, key.name), flat[key.way])
    return [[value] for value in values] if key.several and not isinstance(values[0], dict) else values


def configuration(random: Random, keys: Sequence[Key]) -> dict[str, Any]:
    """Return a configuration with some of the keys, and with sources in every third."""
    found: dict[str, Any] = {}
    for key in random.sample(keys, random.randint(1, 4)):
        found.setdefault(key.section, {})[key.name] = random.choice(values_of(key))
    for section, name, kind in (("rerank", "backend", "remote"), ("encoder", "kind", "remote")):
        if "base_url" in found.get(section, {}):
            found[section].setdefault(name, kind)
    if random.random() < 0.3:
        found["sources"] = {"list": random.sample(SOURCES, random.randint(1, 2)), "auto_sync": random.random() < 0.5}
    if random.random() < 0.2:
        found["plugins"] = {PLUGIN: {"enabled": True}}
    return found


class Finding(NamedTuple):
    """Something that an untrusted folder brought about."""

    event: str
    what: str


class Watch:
    """Deeds of a process: connections, files of the canary, imports of the plug-in. For a forked child."""

    def __init__(self, secret: Path) -> None:
        self.found: list[Finding] = []
        self._secret = os.path.realpath(secret)
        sys.addaudithook(self._see)
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
            self.found.append(Finding(event, str(arguments[1])))
        elif event == "subprocess.Popen" and list(arguments[1])[:3] == [sys.executable, "-P", "-c"]:
            pass  # the program asks itself whether this system lets a process leave the network
        elif event in ("socket.getaddrinfo", "subprocess.Popen", "os.exec"):
            self.found.append(Finding(event, str(arguments[0])))
        elif event in ("open", "os.listdir", "os.scandir") and self._is_secret(arguments[0]):
            self.found.append(Finding(event, os.fsdecode(arguments[0])))

    def _is_secret(self, path: str | bytes | int | None) -> bool:
        return not isinstance(path, int | None) and os.fsdecode(os.path.realpath(path)).startswith(self._secret)

    def find_spec(self, name: str, *_: object) -> None:
        """Be asked for a module, as a finder of `sys.meta_path`: `importlib.import_module` raises no event."""
        if name.startswith("evil_"):
            self.found.append(Finding("import", name))


def template(folder: Path) -> Path:
    """Make a clone without a configuration, and the canary beside it."""
    clone, secret = folder / "clone", folder / SECRET
    clone.mkdir(parents=True)
    secret.mkdir()
    (secret / "file").write_text("secret\n")
    (clone / "link").symlink_to(secret)
    write_catalog(clone / "tools.jsonl", TOOLS)
    servers = {"a": {"command": "cat", "args": [str(secret / "file")]}, "b": {"url": "http://127.0.0.1:9/mcp"}}
    (clone / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (clone / "gold.jsonl").write_text('{"query": "brain", "relevant": ["brain"]}\n')
    (clone / "models" / "evil").mkdir(parents=True)
    (clone / "models" / "evil" / "config.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(clone)
        assert main(["build", "--catalog", "tools.jsonl", "--quiet"]) == 0
    return clone


def run(clone: Path, settings: Mapping[str, Any], *words: str) -> tuple[int, str, str]:
    """Run a command of the folder with this configuration, in this process."""
    (clone / "config.yaml").write_text(json.dumps({"encoder": {"kind": "hashed"}, **settings}))
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = int(main(list(words)))
    return code, out.getvalue(), err.getvalue()


class ByName(dict[str, EntryPoint]):
    """Plug-ins that only a configuration that names them can bring in: what every build loads, the user installed."""

    def __iter__(self) -> Iterator[str]:
        return iter(())


def untrusted(patch: pytest.MonkeyPatch, clone: Path) -> None:
    """Stand in the clone, without any agreement of the user, and with a plug-in installed that must not be imported."""
    patch.chdir(clone)
    for name in ("RETRIEVE_TRUST", "RETRIEVE_ENCODER__KIND"):  # the configuration chooses
        patch.delenv(name, raising=False)
    patch.setenv("XDG_STATE_HOME", str(clone.parent / "state"))
    patch.setenv(VARIABLE, "secret")
    found = ByName({PLUGIN: EntryPoint(PLUGIN, "evil_plugin:PLUGIN", plugins.GROUP)})
    for module in (plugins, loading, values):
        patch.setattr(module, "installed", lambda: found)


def source_fields() -> Iterator[str]:
    """Yield the keys of a source that may reach out."""
    yield from (field.name for field in keys_of(SourceSetting) if way_of(field) is not None)
