"""Rules in the language of gitignore: of `.gitignore` files in a folder of documents, and of the configuration.

The files are text from anywhere: only regular ones are read, and of a bounded number of short rules, each of which is
matched in linear time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import Notice
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.records.globs import ignore_glob
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.texts import user_text

FILE = ".gitignore"
_MOST_RULES = 1000
_LONGEST_RULE = 200
_MOST_BYTES = 256 << 10


class Selection(Frozen):
    """Files of a folder that are read."""

    include: Sequence[str] = ()
    """Only files that match one of these patterns, or are in a folder that does; empty: all."""
    exclude: Sequence[str] = ()
    gitignore: bool = True
    """Obey the `.gitignore` files in the folder."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    negated: bool
    only_folders: bool
    anchored: bool
    """The pattern is of the path from the folder of the rule; otherwise of the last name."""


class IgnoreRules:
    """The rules in effect in a folder of documents and in those below it, which are read when they are needed."""

    def __init__(self, top: Path, selection: Selection) -> None:
        self._top = top
        self._selection = selection
        self.notices: list[Notice] = []
        """Rules that are not obeyed."""
        self._include = self._rules(selection.include, "docs.include")
        self._exclude = self._rules(selection.exclude, "docs.exclude")
        self._by_folder: dict[str, Sequence[_Rule]] = {}

    def skips(self, path: str, *, folder: bool) -> str:
        """Return the name of the setting or file that excludes a path, in a folder that is not excluded; or nothing.

        The last rule that matches decides: first of the configuration, then of the nearest `.gitignore`.
        """
        if (excluded := _verdict(self._exclude, path, folder=folder)) is not None:
            by = "docs.exclude" if excluded else ""
        else:
            by = FILE if self._selection.gitignore and self._ignored(path, folder=folder) else ""
        if not by and not folder and self._selection.include and not self._included(path):
            return "docs.include"
        return by

    def content(self, folder: str) -> bytes:
        """Return the bytes of the `.gitignore` of a folder; empty without one to obey."""
        if self._selection.gitignore:
            with suppress(OSError):
                return _content(self._top / folder / FILE)
        return b""

    def _ignored(self, path: str, *, folder: bool) -> bool:
        parent = path
        while parent:
            parent = parent.rpartition("/")[0]
            rules = self._of(parent)
            if rules and (ignored := _verdict(rules, path[len(parent) :].lstrip("/"), folder=folder)) is not None:
                return ignored
        return False

    def _included(self, path: str) -> bool:
        folder, part = False, path
        while part:
            if (included := _verdict(self._include, part, folder=folder)) is not None:
                return included
            folder, part = True, part.rpartition("/")[0]
        return False

    def _of(self, folder: str) -> Sequence[_Rule]:
        """Return the rules of the `.gitignore` of a folder."""
        if folder not in self._by_folder:
            name, lines = f"{folder}/{FILE}" if folder else FILE, list[str]()
            try:
                decoded = user_text(_content(self._top / name))
                if decoded is None:
                    raise files.UnreadableFile(name, "it is not a text")
                lines = decoded[0].split("\n")
            except FileNotFoundError:
                pass
            except OSError as error:
                self.notices.append(Notice(name, f"its rules are not obeyed: {error.strerror}"))
            self._by_folder[folder] = self._rules(lines, name)
        return self._by_folder[folder]

    def _rules(self, lines: Iterable[str], source: str) -> Sequence[_Rule]:
        """Return the rules, the last one first, and note those that are not obeyed."""
        rules: list[_Rule] = []
        for line in lines:
            text = line.rstrip("\r")
            while text.endswith(" ") and not text.endswith("\\ "):
                text = text[:-1]
            if not text or text.startswith("#"):
                continue
            try:
                if len(text) > _LONGEST_RULE or len(rules) >= _MOST_RULES:
                    raise ValueError(f"a file may have {_MOST_RULES:,} rules of {_LONGEST_RULE} characters")
                negated, only_folders = text.startswith("!"), text.endswith("/")
                pattern = text.removeprefix("!").removesuffix("/")
                rules.append(_Rule(ignore_glob(pattern.removeprefix("/")), negated, only_folders, "/" in pattern))
            except ValueError as error:
                self.notices.append(Notice(source, f"a rule is not obeyed: {error}"))
        return rules[::-1]


def _content(file: Path) -> bytes:
    """Return the bytes of a `.gitignore`. Raises: OSError: it is a link, not a regular file, or too large."""
    descriptor = files.regular_descriptor(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as opened:
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise files.UnreadableFile(file, f"it has more than {_MOST_BYTES >> 10} KB")
    return content


def _verdict(rules: Sequence[_Rule], path: str, *, folder: bool) -> bool | None:
    """Return True if the rules exclude a path, False if they include it again, None if no rule matches."""
    name = path.rpartition("/")[2]
    for rule in rules:
        if (folder or not rule.only_folders) and rule.pattern.fullmatch(path if rule.anchored else name):
            return not rule.negated
    return None
