"""Sources of records, from entries in the configuration, on the command line, or in a manifest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import documents, extensions
from retrieve_cli.assemble.trusted import agreed_servers, strange_sources
from retrieve_cli.config.settings import DocsSettings, Settings, SourceSetting
from retrieve_cli.config.values import place_name, source_setting
from retrieve_cli.contracts import Json, Source
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted
from retrieve_cli.frozen import asdict, replace
from retrieve_cli.http.addresses import shown
from retrieve_cli.storage.inbox import KIND, Inbox
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.contracts import Record, Watched
    from retrieve_cli.sources.catalogs.catalog import CatalogReading
    from retrieve_cli.sources.catalogs.tables import TableLayout
    from retrieve_cli.sources.fields import FieldMap
    from retrieve_cli.sources.folders.ignore_rules import IgnoreRules, Selection
    from retrieve_cli.sources.formats.formats import ParsingLimits
    from retrieve_cli.sources.remote.client_files import ConfiguredServers
    from retrieve_cli.sources.remote.mcp import ToolFetchers


CREDENTIALS = ("token_env", "user_env", "password_env")
"""Keys that name environment variables. They are read only from the user's configuration: an index is data from
anywhere, and must not decide which variable is sent to which server."""
TABLES = (".csv", ".tsv", ".tab", ".parquet", ".arrow", ".arrows", ".feather", ".xlsx", ".xls", ".xlsb", ".ods")
"""Suffixes of tables."""
_OF_LINES = ("catalog", "http", "sparql", "mcp")
"""Kinds whose records are in a file of JSON Lines."""


def sources_of(entries: Sequence[SourceSetting], settings: Settings, *, fetched: Path) -> list[Source]:
    """Return the sources, in order. Remote catalogs are stored in the folder `fetched`; the entry of an inbox has its
    artifacts folder as `path`, see `with_inbox`.

    Raises:
        UsageError: an entry is not valid for its kind.
    """
    settings = replace(settings, sources=replace(settings.sources, list=entries))
    if all(entry.kind != "mcp" for entry in entries):
        return [_source(entry, settings, fetched) for entry in entries]
    from retrieve_cli.sources.remote.mcp import ToolFetchers

    run = ToolFetchers()
    return [
        _tools(entry, settings, fetched, run) if entry.kind == "mcp" else _source(entry, settings, fetched)
        for entry in entries
    ]


def entries_of(manifest: Manifest) -> list[SourceSetting]:
    """Return the sources of a generation, without names of credentials, which a forged manifest may contain.

    Raises:
        UsageError: the manifest does not name them.
        IndexCorrupt: the manifest names an invalid source.
    """
    try:
        origins = [source["origin"] for source in manifest.built["sources"]]
    except (KeyError, TypeError):
        origins = []
    if not origins:
        hint = "name it: retrieve build --catalog FILE (or --docs-dir DIR), or list it under `sources:` in config.yaml"
        raise UsageError(f"generation {manifest.id} does not name its sources", hint=hint)
    try:
        return [source_setting(_public(origin), f"generation {manifest.id}", Path()) for origin in origins]
    except (UsageError, TypeError, ValueError) as error:
        hint = "name the sources: retrieve build --catalog FILE, or `sources:` in config.yaml"
        raise IndexCorrupt(f"generation {manifest.id} names an invalid source: {error}", hint=hint) from error


def with_inbox(entries: Sequence[SourceSetting], artifacts: Path) -> list[SourceSetting]:
    """Return the sources with the inbox of an artifacts folder: in its place if it is listed, else last as soon as a
    document was added to it."""
    place = artifacts.absolute()
    placed = [replace(entry, path=place) if entry.kind == KIND else entry for entry in entries]
    if all(entry.kind != KIND for entry in entries) and Inbox(place).sequence:
        names = {entry.name for entry in entries}
        numbered = (f"{KIND}-{number}" for number in count(2))
        name = KIND if KIND not in names else next(name for name in numbered if name not in names)
        placed.append(SourceSetting(KIND, name=name, path=place))
    return placed


def inbox_entry(settings: Settings, manifest: Manifest | None) -> SourceSetting:
    """Return the entry of the inbox that the configuration lists, or that a generation includes, or the default."""
    entries = list(settings.sources.list)
    if not entries and manifest is not None:
        with suppress(UsageError, IndexCorrupt):
            entries = entries_of(manifest)
    return next((entry for entry in entries if entry.kind == KIND), SourceSetting(KIND, name=KIND))


def read_document(document: bytes, settings: Settings, *, tenant: str | None) -> Record | str:
    """Return the record of a document for the inbox, given as JSON, or the reason why it is rejected."""
    from retrieve_cli.sources.inbox import document_record

    return document_record(document, field_map(settings), tenant=tenant)


def with_known_keys(
    rows: Iterator[dict[str, Json] | str],
    settings: Settings,
    say: Callable[[str], object],
    *,
    known: Collection[str] = (),
) -> Iterator[dict[str, Json] | str]:
    """Yield records of a program under the keys of a catalog: without `catalog.fields`, the keys are inferred from the
    first records, as for a file, and the key of records without an id from all; both are reported. Texts are reasons
    why a record is rejected. `known` are ids of records that these may replace."""
    from retrieve_cli.sources.catalogs.catalog import CatalogReading
    from retrieve_cli.sources.fields import renamed

    given = list(rows)
    items = [row for row in given if isinstance(row, dict)]
    reading = CatalogReading.of(items, field_map(settings), known=known)
    renames = reading.fields.renames if reading.inferred else {}
    if renames:
        say(f"guessed the fields of these keys: {renames}")
    for sentence in reading.sentences:
        say(sentence)
    for row in given:
        yield dict(renamed(reading.keyed(row), renames)) if isinstance(row, dict) else row


def describes_api(path: Path) -> bool:
    """Return True for a file of YAML that describes an API, whose operations are the records of a catalog."""
    from retrieve_cli.sources.catalogs.tables import table_of

    if path.suffix.lower() not in (".yaml", ".yml"):
        return False
    with suppress(OSError):
        return table_of(path) is not None
    return False


def table_rows(path: Path) -> Iterator[tuple[int, bytes, str]]:
    """Yield the rows of a table: number, JSON, and the reason if it cannot be read.

    Raises:
        UsageError: it cannot be read, or is not a table.
        Unavailable: a package is missing.
    """
    from retrieve_cli.sources.catalogs.tables import table_of

    try:
        if (table := table_of(path, layout_of(Settings()))) is None:
            raise UsageError(f"{path} is not a table", hint="its first row names the columns")
        yield from (row for row in table.rows() if not isinstance(row, str))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path") from error


def notes_on(entries: Sequence[SourceSetting]) -> Iterator[str]:
    """Yield a note on each server that only the index names, and not the configuration."""
    for entry in entries:
        if address := entry.url or entry.endpoint:
            yield f"note: {entry.name} ({shown(address)}) is read without credentials: config.yaml does not list it"


def watched_of(
    manifest: Manifest,
    *,
    fetched: Path,
    settings: Settings = Settings(),
    inbox: Inbox | None = None,
) -> dict[str, Watched]:
    """Return the watched sources of a generation by their names; none if the manifest names none."""
    from retrieve_cli.sources.freshness import Unwatched, WatchedCatalog, WatchedFolder

    strange, docs = strange_sources(fetched.parent, manifest), settings.docs
    try:
        spellings = {"id": [], **manifest.recipe.sources.get("catalog", {}).get("spellings", {})}
        found: dict[str, Watched] = {}
        for entry, built in zip(manifest.sources, manifest.built["sources"], strict=True):
            origin = built["origin"]
            is_local = "path" in origin and entry.kind != "mcp"
            path = Path(origin["path"]) if is_local else fetched / f"{entry.name}.jsonl"
            prefix = origin.get("id_prefix", "")
            if not isinstance(prefix, str) or "\0" in str(path) or not _are_texts(spellings):
                raise TypeError(prefix)
            watched: Watched = Unwatched()
            if str(path) in strange:
                pass
            elif entry.kind == "docs":
                most, cards = max(docs.max_mb, settings.parsing.max_mb), manifest.recipe.documents or {}
                rules, marks = partial(_rules, path, docs, origin.get("exclude")), built.get("folders", {})
                watched = WatchedFolder(path, prefix, most, documents.suffixes, rules, cards, marks)
            elif entry.kind == KIND and inbox is not None:
                from retrieve_cli.sources.inbox import WatchedInbox

                watched = WatchedInbox(inbox)
            elif entry.kind in _OF_LINES:
                read_by = str(built.get("rules", ""))
                reading = partial(_reading, spellings, built, forced=bool(origin.get("id")))
                layout = partial(layout_of, settings)
                watched = WatchedCatalog(path, entry.name, prefix, built["stamp"], read_by, reading, layout)
            found[entry.name] = watched
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
    return found


def _reading(spellings: Mapping[str, Sequence[str]], built: Mapping[str, Json], *, forced: bool) -> CatalogReading:
    """Return the rules with which a build read a catalog, as a manifest has them."""
    from retrieve_cli.sources.catalogs.catalog import CatalogReading
    from retrieve_cli.sources.catalogs.keys import CatalogKey
    from retrieve_cli.sources.fields import FieldMap

    renames = {str(key): str(name) for key, name in built.get("fields", ())}
    fields = FieldMap({name: tuple(paths) for name, paths in spellings.items()}, {}, renames=renames)
    return CatalogReading(fields, CatalogKey(str(built["key"]), forced=forced) if "key" in built else None)


def _are_texts(spellings: Mapping[str, Json]) -> bool:
    return all(isinstance(paths, list) and all(isinstance(path, str) for path in paths) for paths in spellings.values())


def _source(entry: SourceSetting, settings: Settings, fetched: Path) -> Source:
    if entry.kind in _SOURCES:
        return _SOURCES[entry.kind](entry, settings, fetched, name=entry.name, id_prefix=entry.id_prefix)
    added: Source = extensions.make("source", entry.kind, entry, settings)
    return added


def _folder(entry: SourceSetting, settings: Settings, _: Path, **names: Any) -> Source:
    from retrieve_cli.sources.folders.docs_folder import FolderSource

    settings.expect_trusted("docs")
    docs, reader = settings.docs, documents.reader_of(settings)
    return FolderSource(
        _path(entry),
        reader,
        name_weight=docs.name_weight,
        follow_links=docs.follow_links,
        selection=_selection(docs),
        exclude=entry.exclude,
        **names,
    )


def _selection(docs: DocsSettings) -> Selection:
    """Return which files of a folder are read."""
    from retrieve_cli.sources.folders.ignore_rules import Selection

    return Selection(docs.include, docs.exclude, docs.gitignore)


def _rules(path: Path, docs: DocsSettings, exclude: Json) -> IgnoreRules:
    """Return the rules of a folder, of which a manifest names some."""
    from retrieve_cli.sources.folders.ignore_rules import IgnoreRules

    named = [pattern for pattern in exclude if isinstance(pattern, str)] if isinstance(exclude, list) else []
    chosen = _selection(docs)
    return IgnoreRules(path, replace(chosen, exclude=[*chosen.exclude, *named]))


def _inbox(entry: SourceSetting, settings: Settings, _: Path, **names: Any) -> Source:
    from retrieve_cli.sources.inbox import InboxSource, Parsing

    parsing = Parsing(documents.reader_of(settings), settings.docs.name_weight)
    return InboxSource(Inbox(_path(entry)), field_map(settings), parsing=parsing, **names)


def _catalog(entry: SourceSetting, settings: Settings, _: Path, **names: Any) -> Source:
    from retrieve_cli.sources.catalogs.catalog import CatalogSource

    fields, layout = field_map(settings, entry), layout_of(settings)
    return CatalogSource(_path(entry), fields, layout=layout, own=_own(entry), **names)


def _remote(entry: SourceSetting, settings: Settings, fetched: Path, **names: Any) -> Source:
    from retrieve_cli.sources.remote.source import RemoteSource

    try:
        fetcher = _fetcher(entry)
    except UsageError as error:
        raise UsageError(f"{entry.name}: {error.message}", hint=error.hint) from error
    target, fields = fetched / f"{entry.name}.jsonl", field_map(settings, entry)
    return RemoteSource(fetcher, target, fields, origin=_origin(entry), own=_own(entry), **names)


def _tools(entry: SourceSetting, settings: Settings, fetched: Path, run: ToolFetchers) -> Source:
    """Return the source of some servers of tools. Raises: UsageError: the user did not agree to them."""
    from retrieve_cli.assemble.approvals import pinned, server_place
    from retrieve_cli.sources.remote.mcp import ToolFetcher
    from retrieve_cli.sources.remote.source import RemoteSource

    entry = replace(entry, name=entry.name or place_name(entry))
    origin, target = _origin(entry), fetched / f"{entry.name}.jsonl"

    def approvals(server: str, definitions: Mapping[str, Json]) -> Mapping[str, str]:
        return pinned(server_place(origin, server), definitions)

    fetcher, fields = ToolFetcher(tool_servers(entry), target, run, approvals), field_map(settings, entry)
    own, prefix = _own(entry), entry.id_prefix
    return RemoteSource(fetcher, target, fields, origin=origin, own=own, name=entry.name, id_prefix=prefix)


def tool_servers(entry: SourceSetting) -> ConfiguredServers:
    """Return the servers of a source of kind mcp.

    Raises:
        UsageError: the user did not agree to those that its file names, or they cannot be read.
    """
    from retrieve_cli.sources.remote.client_files import ConfiguredServers, typed_server

    if entry.path and not entry.command:
        return agreed_servers(entry.path)
    chosen = entry.name.removeprefix(place_name(entry)).lstrip("-0123456789")  # by the user, and not made of its place
    name, folder = entry.name if chosen else "", entry.path or Path()
    server = typed_server(command=entry.command or "", url=entry.url or "", name=name, folder=folder)
    if entry.token_env:
        server = replace(server, headers={"Authorization": f"Bearer ${{{entry.token_env}}}"})
    return ConfiguredServers([server], [])


def call_tool(
    entry: SourceSetting,
    server: str,
    tool: str,
    arguments: Mapping[str, Json],
    *,
    check: Callable[[Mapping[str, Json]], None],
) -> dict[str, Json]:
    """Call a tool of a server of a source, and return its result as the server sent it; `check` is given the present
    definition of the tool before.

    Raises:
        RetrieveError: the user did not agree to the server, it does not answer, or what `check` raises.
    """
    from retrieve_cli.sources.remote.tool_servers import call

    servers = tool_servers(entry).servers
    if (chosen := next((one for one in servers if one.name in ("", server)), None)) is None:
        raise UsageError(f"{entry.name} has no server {quoted(server)} now", hint="run: retrieve sync")
    return call(chosen, tool, arguments, check=check)


def names_servers(path: Path) -> bool:
    """Return True if a file is a client's configuration that names servers of tools."""
    from retrieve_cli.sources.remote.client_files import is_configuration

    return is_configuration(path)


_SOURCES: Mapping[str, Callable[..., Source]] = {
    "docs": _folder,
    KIND: _inbox,
    "catalog": _catalog,
    "http": _remote,
    "sparql": _remote,
}
"""Constructors of the built-in sources, by kind."""


def layout_of(settings: Settings) -> TableLayout:
    """Return the layout of tables as configured, with the process that reads some of them."""
    from retrieve_cli.sources.catalogs.tables import TableLayout

    catalog, lines = settings.catalog, partial(_lines_of_table, limits=documents.limits_of(settings))
    return TableLayout(catalog.header, catalog.sheet, catalog.split, catalog.max_cells, lines)


def _lines_of_table(path: Path, kind: str, sheet: str, *, limits: ParsingLimits) -> Iterator[bytes]:
    """Return the lines of a table that another process reads; few builds need one."""
    from retrieve_cli.sources.formats.processes.pool import table_lines

    return table_lines(path, kind, sheet, limits=limits)


def _own(entry: SourceSetting) -> dict[str, Json]:
    """Return the keys of an entry that read its columns."""
    return {**({"id": entry.id} if entry.id else {}), **({"fields": dict(entry.fields)} if entry.fields else {})}


def field_map(settings: Settings, entry: SourceSetting | None = None) -> FieldMap:
    """Return which keys of a catalog, or of the source of an entry, become which fields; all sources have the same
    fields."""
    from retrieve_cli.sources.fields import SPELLINGS, FieldMap, key_of

    mapped = {key: (field.to, field.weight) for key, field in settings.catalog.fields.items()}
    names = {name for source in settings.sources.list for name in source.fields.values()}
    added = dict.fromkeys(sorted(names - {to for to, _ in mapped.values()} - SPELLINGS.keys()))
    fields = FieldMap.of({**{name: (name, None) for name in added}, **mapped},
                         [*settings.graph.relations, *settings.graph.entities])  # fmt: skip
    own = {} if entry is None else {key: key_of(name) for key, name in entry.fields.items()}
    return replace(fields, renames={**fields.renames, **own}, configured=bool(mapped or own))


def _path(entry: SourceSetting) -> Path:
    if entry.path is None:
        raise UsageError(f"source {quoted(entry.name)} has no `path`", hint="name the file or folder it is read from")
    return entry.path


def _fetcher(entry: SourceSetting) -> Any:
    """Return the fetcher of a remote catalog."""
    from retrieve_cli.http.secrets import Credentials
    from retrieve_cli.sources.remote.transfer import TransferLimits

    most = int(entry.max_mb * files.MB)
    shared: Any = {
        "limits": TransferLimits(entry.timeout_s, entry.deadline_s, entry.retries, max_bytes=most),
        "credentials": Credentials(*(getattr(entry, key) for key in CREDENTIALS)),
    }
    if entry.kind == "http":
        from retrieve_cli.sources.remote.http import HttpFetcher

        return HttpFetcher(str(entry.url), sha1=entry.sha1, **shared)
    from retrieve_cli.sources.remote.sparql import SparqlFetcher

    return SparqlFetcher(str(entry.endpoint), _query(entry), graph=entry.graph, page_size=entry.page_size, **shared)


def _query(entry: SourceSetting) -> str:
    try:
        return files.read_text(str(entry.query), limit=files.CONFIG)
    except (OSError, UnicodeDecodeError) as error:
        hint = f"`query` of source {quoted(entry.name)} names a file with the SPARQL query"
        raise UsageError(f"cannot read the query {entry.query}: {error}", hint=hint) from error


def _public(origin: Json) -> Json:
    """Return an origin without names of credentials; a value that is not a mapping is rejected elsewhere."""
    if not isinstance(origin, dict):
        return origin
    return {key: value for key, value in origin.items() if key not in CREDENTIALS}


def _origin(entry: SourceSetting) -> Mapping[str, Json]:
    """Return the keys of an entry that differ from the defaults, as JSON, for the manifest."""
    default = asdict(SourceSetting(entry.kind))
    values = asdict(entry)
    differing = {key: value for key, value in values.items() if key == "kind" or value != default[key]}
    public = {key: value for key, value in differing.items() if key not in CREDENTIALS}
    return {key: str(value.absolute()) if isinstance(value, Path) else value for key, value in public.items()}
