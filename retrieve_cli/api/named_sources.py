"""Sources named on a command line: files are catalogs, folders hold documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from shlex import join, quote
from typing import NamedTuple

from retrieve_cli.assemble.documents import suffixes
from retrieve_cli.assemble.sources import TABLES, describes_api, names_servers
from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.config.trust import outside
from retrieve_cli.config.values import place_name
from retrieve_cli.errors import UsageError, quoted, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.nearest import nearest

_CATALOGS = (".jsonl", ".ndjson", ".jsonld", ".json")
_DOCUMENTS = tuple(suffix for suffix in suffixes() if suffix not in (*_CATALOGS, *TABLES))
_ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".zst", ".xz", ".bz2", ".7z")
_LOOKED_AT = 500
"""Names of a folder that are looked at for a suggestion."""
_SUGGESTED = 3
_ALIKE = 0.75
"""Share of a name that must be the same: more than an extension."""


class Named(NamedTuple):
    """One source, as the command line has it."""

    kind: str
    path: Path

    @property
    def place(self) -> str:
        """The absolute path; links stay links, as sources name themselves."""
        return os.path.abspath(self.path)  # noqa: PTH100


def named_sources(words: Sequence[str], catalogs: Sequence[Path], folders: Sequence[Path]) -> list[SourceSetting]:
    """Return the sources of a command line in order: arguments, then --catalog, then --docs-dir.

    Raises:
        UsageError: a source is neither a catalog nor a folder, or two have the same name.
    """
    named = [_of_word(word) for word in words]
    named += [_there(Named("catalog", path)) for path in catalogs]
    named += [_there(Named("docs", path)) for path in folders]
    distinct = list({(source.kind, source.place): source for source in named}.values())
    names: dict[str, Named] = {}
    for source in distinct:
        name = os.path.basename(source.place)  # noqa: PTH119
        if (other := names.setdefault(name, source)) is not source:
            raise UsageError(
                f"two sources are called {quoted(name)}: {other.path} and {source.path}",
                hint="list both under `sources:` in config.yaml, each with its own `name:`, and run: retrieve build",
            )
    return [SourceSetting(source.kind, path=source.path) for source in distinct]


def servers_of(words: Sequence[str]) -> list[SourceSetting]:
    """Return the sources of servers of tools, each given by its command or address.

    Raises:
        UsageError: one is empty.
    """
    entries: list[SourceSetting] = []
    for word in words:
        if not word.strip():
            raise UsageError("--mcp has no command and no address", hint='for example: --mcp "uvx mcp-server-git"')
        is_address = word.startswith(("http://", "https://"))
        entry = SourceSetting("mcp", **({"url": word} if is_address else {"command": word, "path": Path.cwd()}))
        name, others = place_name(entry), [other.name for other in entries]
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        entries.append(replace(entry, name=next(each for each in names if each not in others)))
    return entries


def excluding(entries: Sequence[SourceSetting], patterns: Sequence[str]) -> Sequence[SourceSetting]:
    """Return the sources, whose folders exclude what matches the patterns.

    Raises:
        UsageError: no folder is among them, or one is of the configuration, which the next sync follows.
    """
    folders = [entry for entry in entries if entry.kind == "docs"]
    if patterns and (not folders or any(entry.name for entry in folders)):
        message = "--exclude applies to folders that the command names"
        hint = f"in config.yaml: docs.exclude: {json.dumps(list(patterns))}"
        raise UsageError(message, hint=f"name one: retrieve build DIR --exclude {quote(patterns[0])}; {hint}")
    return [replace(entry, exclude=patterns) if entry.kind == "docs" and patterns else entry for entry in entries]


def _of_word(word: str) -> Named:
    """Return the source that an argument names. Raises: UsageError: the argument is not a source; the hint names the
    right way."""
    if "://" in word:
        from retrieve_cli.http.addresses import shown

        entry = f"sources: [{{kind: http, url: {quoted(shown(word))}}}]"
        hint = f"list it in config.yaml and run `retrieve build` without arguments: {entry}"
        hint += f"; a server of tools: retrieve build --mcp {quote(shown(word))}"
        raise UsageError(f"build reads files and folders, not addresses: {shown(word)}", hint=hint)
    named = _there(Named("docs", Path(word)))
    if named.path.is_file() and names_servers(named.path):
        return Named("mcp", named.path)
    if named.path.is_dir():
        corpus = named.path / "corpus.jsonl"
        if corpus.is_file() and not _has_documents(named.path):
            hint = f"its records are in the corpus: retrieve build {quote(str(corpus))}"
            raise UsageError(f"{word} is a folder of a BEIR collection, not of documents", hint=hint)
        return named
    suffix = named.path.suffix.lower()
    if suffix in _DOCUMENTS and not _begins_like_json(named.path):
        hint = f"name its folder: retrieve build {quote(str(named.path.parent))}"
        raise UsageError(f"{word} is a single document; documents are read by the folder", hint=hint)
    is_catalog = suffix in (*_ARCHIVES, *_CATALOGS, *TABLES) or not named.path.is_file()
    if is_catalog or _begins_like_json(named.path) or describes_api(named.path):
        return Named("catalog", named.path)  # what is wrong with it is said by the catalog itself
    raise UsageError(
        f"{word} is neither a catalog (JSON Lines, JSON-LD or a table) nor a folder of documents",
        hint="for a catalog, save it as CSV or as one JSON object a line; for documents, name their folder",
    )


def _there(named: Named) -> Named:
    """Return the source if something is there. Raises: UsageError otherwise."""
    try:
        named.path.stat()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        near = _nearest_path(named.path)
        hint = f"did you mean {near}?" if near else _for_example(Path())
        raise UsageError(f"cannot read {shortened(str(named.path))}: {why}", hint=hint) from error
    return named


def _nearest_path(path: Path) -> str | None:
    try:
        rest = [path.name]
        parent = path.parent
        while not parent.is_dir() and parent != parent.parent:
            rest.append(parent.name)
            parent = parent.parent
        near = nearest(rest.pop(), _names(parent), cutoff=_ALIKE)
        if near is None:
            return None
        found = (parent / near).joinpath(*reversed(rest))
        return quote(str(found if found.exists() else parent / near))
    except (OSError, ValueError):
        return None


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in islice(entries, _LOOKED_AT))
    except OSError:
        return


def _begins_like_json(path: Path) -> bool:
    try:
        with files.open_regular(path) as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    except OSError:
        return False


# ------------------------------------------------------------------------------------------ no source at all


def no_source(folder: Path = Path()) -> UsageError:
    """Return the error for a build without sources, which suggests sources in the folder."""
    message = "name what to index: a catalog (JSON Lines, CSV, …), a folder of documents, or both"
    return UsageError(message, hint=f"{_for_example(folder)}; or list them under `sources:` in config.yaml")


def _for_example(folder: Path) -> str:
    """Return commands that index the contents of a folder."""
    sources = sources_in(folder)
    catalogs = [str(source.path) for source in sources if source.kind == "catalog"]
    folders = [f"{source.path}/".removeprefix("./") or "." for source in sources if source.kind == "docs"]
    commands = [join(["retrieve", "build", name]) for name in (*catalogs[:_SUGGESTED], *folders[:_SUGGESTED])]
    return "for example: " + " or ".join(commands or ["retrieve build tools.jsonl", "retrieve build docs/"])


def sources_in(folder: Path) -> list[SourceSetting]:
    """Return the catalogs and the folders of documents in a folder, looking at most one folder deep."""
    names = sorted(name for name in _names(folder) if not name.startswith(".") and not outside(folder / name, folder))
    catalogs = [name for name in names if name.endswith(_CATALOGS) and _is_catalog(folder / name)]
    catalogs += [name for name in names if name.lower().endswith(TABLES)]
    folders = [name for name in names if name != "artifacts" and _has_documents(folder / name)]
    if not (catalogs or folders) and _has_documents(folder):
        folders = ["."]
    kinds = {"catalog": catalogs, "docs": folders}
    return [SourceSetting(kind, path=Path(name)) for kind, named in kinds.items() for name in named]


def _is_catalog(path: Path) -> bool:
    """Return True if the first line of a file is a JSON object, and not a judged query; or if it begins an array."""
    try:
        with files.open_regular(path) as file:
            first = file.readline(files.MB)
        if path.suffix == ".json":
            return first.lstrip().startswith(b"[")
        record = json.loads(first)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "query" not in record


def _has_documents(folder: Path) -> bool:
    return any(name.lower().endswith(_DOCUMENTS) and not name.startswith(".") for name in _names(folder))
