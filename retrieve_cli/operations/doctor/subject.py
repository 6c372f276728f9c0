"""The folder and configuration that are checked, findings, and commands that fix them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple

from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.assemble.trusted import own_store
from retrieve_cli.config import loading
from retrieve_cli.config.settings import Settings, SourceSetting
from retrieve_cli.contracts import ModelCard
from retrieve_cli.errors import RetrieveError
from retrieve_cli.ingest import sync
from retrieve_cli.ingest.source_checks import current_manifest
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store


class Check(NamedTuple):
    """A finding. The table of checks adds its name, and a fix if it has none."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    fix: str = ""


ok, warn, fail = (partial(Check, "", status) for status in ("ok", "warn", "fail"))


class Subject:
    """An artifacts folder under a configuration. Everything is read on demand."""

    def __init__(self, artifacts: Path, config: Path | None, settings: Settings | None = None):
        """`config` is the file that the command line names. It is read if there are no settings;
        if it is invalid, `fault` is the reason, and the defaults apply."""
        self.artifacts, self.config = artifacts, config
        self.given: dict[str, str] = {}
        """Keys that the configuration sets, and where."""
        self.fault: Exception | None = None
        try:
            self.settings = settings or loading.load(config, given=self.given)
        except Exception as error:  # noqa: BLE001  the check of the configuration reports it
            self.settings, self.fault = Settings(), error

    @cached_property
    def store(self) -> Store:
        """Raises: UsageError: the path is not a folder, or has links without your agreement."""
        return own_store(self.artifacts)

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest of the current generation; None if it is missing or cannot be read."""
        with suppress(RetrieveError, OSError):
            return current_manifest(self.store)
        return None

    @cached_property
    def encoder_card(self) -> ModelCard | None:
        """The card of the encoder of the index; None if it has no vectors, or cannot be read."""
        recipe = self.manifest.recipe if self.manifest else None
        return recipe.encoder_card if recipe and recipe.encoder is not None else None

    @cached_property
    def entries(self) -> Sequence[SourceSetting]:
        """The sources that a sync would read; empty if none is named anywhere."""
        with suppress(RetrieveError, OSError):
            return sync.entries(self.settings, self.store, lambda _: None)
        return self.settings.sources.list

    @cached_property
    def has_sources(self) -> bool:
        """True if a source is known, and all that are known are here."""
        with suppress(RetrieveError, OSError):
            return bool(sources_of(self.entries, self.settings, fetched=self.artifacts / "sources"))
        return False

    def command(self, *words: str | Path) -> str:
        """Return a command of this program for this folder and this configuration."""
        given: list[str | Path] = ["retrieve", *words]
        if self.artifacts != Path("artifacts"):
            given += ["--artifacts", self.artifacts]
        if self.config is not None:
            given += ["--config", self.config]
        return shell(*given)

    def build(self) -> str:
        """Return the command that builds from the listed sources, or from a source to be named."""
        listed = self.settings.sources.list and self.has_sources
        return self.command("build", *(() if listed else ("--catalog", "FILE")))

    def fix(self) -> str:
        """Return the command that writes damaged files again."""
        return self.command("sync", "--verify") if self.has_sources else self.build()

    def rebuild(self) -> str:
        """Return the command that replaces the index: sync, or build without its sources."""
        return self.command("sync") if self.has_sources else self.build()


def shell(*words: str | Path) -> str:
    """Return a shell command, in which no path is taken for a flag."""
    return shlex.join(map(_word, words))


def _word(word: str | Path) -> str:
    dashed = isinstance(word, Path) and str(word).startswith("-")
    return f"./{word}" if dashed else str(word)
