"""Subject of the checks, findings, and the commands that fix them, for this folder and this configuration."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple

from retrieve_cli.assemble.sources import entries_of, sources_of
from retrieve_cli.assemble.trusted import own_store
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import Source
from retrieve_cli.errors import RetrieveError
from retrieve_cli.ingest import sync
from retrieve_cli.storage.generations import MANIFEST
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store

Status = Literal["ok", "warn", "fail"]
_FLAGS = {"catalog": "--catalog", "docs": "--docs-dir"}
"""Flags of `retrieve build` by kind of source."""


class Finding(NamedTuple):
    """Result of a check; if something is wrong, with a command or an edit that fixes it."""

    status: Status
    message: str
    fix: str = ""


Found = Finding | Sequence[Finding] | None
ok, warn, fail = (partial(Finding, status) for status in ("ok", "warn", "fail"))


class Check(NamedTuple):
    """The finding of a check, by the name of the check."""

    name: str
    status: Status
    message: str
    fix: str = ""


class Subject:
    """An artifacts folder under a configuration. Everything is read on demand."""

    def __init__(
        self, artifacts: Path, config: Path | None, settings: Settings, *, given: Mapping[str, str] | None = None
    ) -> None:
        """`config` is the file that was named on the command line, so that the commands name it too; `given` are the
        keys that the configuration sets, and where; None if it is invalid."""
        self.artifacts, self.settings, self.given = artifacts, settings, given
        self._config = config

    @cached_property
    def store(self) -> Store:
        """Raises: UsageError: the path cannot be a folder of artifacts, or has links that the user did not agree to."""
        return own_store(self.artifacts)

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest of the current generation; None if it is missing or cannot be read."""
        with suppress(RetrieveError, OSError):
            if current := self.store.live():
                return Manifest.read(self.store.generations / current / MANIFEST)
        return None

    @cached_property
    def entries(self) -> Sequence[SourceSetting]:
        """The sources that a sync would read; empty if none is named anywhere."""
        with suppress(RetrieveError, OSError):
            return sync.entries(self.settings, self.store, lambda _: None)
        return self.settings.sources.list

    def source(self, entry: SourceSetting) -> Source:
        """Return the source of an entry. Raises: UsageError: it is not here, or not what its kind takes."""
        return sources_of([entry], self.settings, fetched=self.artifacts / "sources")[0]

    def command(self, *words: str) -> str:
        """Return a command of this program for this folder and this configuration."""
        given = ["retrieve", *words]
        if self.artifacts != Path("artifacts"):
            given += ["--artifacts", _word(self.artifacts)]
        if self._config is not None:
            given += ["--config", _word(self._config)]
        return shlex.join(given)

    def build(self) -> str:
        """Return the command that builds from the known sources; empty if none is known or one is missing."""
        if self.settings.sources.list and self._here(self.entries):
            return self.command("build")
        for entries in self._named():
            flag = _FLAGS.get(entries[0].kind)
            if len(entries) == 1 and flag and not (entries[0].id_prefix or entries[0].exclude) and self._here(entries):
                return self.command("build", flag, _word(entries[0].path or Path()))
        return ""

    def rebuild(self) -> str:
        """Return the command that rebuilds a damaged index: sync, or build; empty if no source is known."""
        return self.command("sync") if self._here(self.entries) else self.build()

    def build_from(self) -> str:
        """Return the build command with a placeholder for its source."""
        return self.command("build", "--catalog", "FILE")

    def _here(self, entries: Sequence[SourceSetting]) -> bool:
        try:
            return bool([self.source(entry) for entry in entries])
        except (RetrieveError, OSError):
            return False

    def _named(self) -> Iterator[Sequence[SourceSetting]]:
        """Yield the sources of each generation whose manifest can be read, newest first."""
        with suppress(RetrieveError, OSError):
            for kept in reversed(self.store.kept()):
                with suppress(RetrieveError):
                    yield entries_of(kept.manifest)


def shell(command: Sequence[str], paths: Sequence[Path]) -> str:
    """Return a shell command on paths."""
    return shlex.join([*command, *map(_word, paths)])


def some(count: int, what: str) -> str:
    """Return a number and its noun."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    power = max(0, min(4, (max(1, count).bit_length() - 1) // 10))
    return f"{count / 1024**power:.{min(1, power)}f} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def _word(path: Path) -> str:
    """Return a path that no command takes for a flag."""
    return f"./{path}" if str(path).startswith("-") else str(path)
