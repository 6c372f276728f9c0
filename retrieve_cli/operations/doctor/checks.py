"""The checks in one table. Each finding has its fix; nothing is changed or downloaded."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path

from retrieve_cli.assemble import encoders, registry
from retrieve_cli.assemble.documents import has_networkless_parsers, reader_of
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.assemble.llm import model_servers as configured_servers
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.config.loading import DEFAULT_FILE
from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.config.settings import NOT_AGREED, Settings, SourceSetting
from retrieve_cli.contracts.terms.figures import count, size
from retrieve_cli.contracts.terms.languages import ENGLISH, NONE
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, Unavailable, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.known_items import is_current
from retrieve_cli.operations import views
from retrieve_cli.operations.doctor.remote_checks import engine, web
from retrieve_cli.operations.doctor.subject import Check, Subject, fail, ok, shell, warn
from retrieve_cli.storage import lock
from retrieve_cli.storage.beside import beside
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.version import __version__


def _configuration(subject: Subject) -> Check:
    if isinstance(subject.fault, UsageError):
        message = f"{subject.fault.message}; the other checks use the defaults"
        return fail(message, subject.fault.hint)
    if subject.fault is not None:
        raise subject.fault
    file = subject.config or (DEFAULT_FILE if os.path.lexists(DEFAULT_FILE) else None)
    if withheld := subject.settings.withheld:
        return warn(f"{file} {NOT_AGREED.format(', '.join(withheld))}", subject.command("trust"))
    return ok(f"{file} is valid" if file else f"defaults: there is no {DEFAULT_FILE} here")


def _artifacts(subject: Subject) -> Check:
    path, store = subject.artifacts, subject.store
    if not path.is_dir():
        return fail(f"there is no folder {path}", subject.build())
    if not os.access(path, os.R_OK | os.X_OK):
        return fail(f"{path} cannot be read", shell("chmod", "u+rx", path))
    parts = filter(Path.exists, (path, store.generations, store.cache, store.fetched))
    if locked := [part for part in parts if not os.access(part, os.W_OK | os.X_OK)]:
        names = ", ".join(map(str, locked))
        message = f"{names} cannot be written: queries work, build and sync do not"
        return warn(message, shell("chmod", "u+rwx", *locked))
    return ok(f"{path} can be read and written")


def _index(subject: Subject) -> Check:
    try:
        report = views.verify(subject.store, subject.settings)
    except IndexMissing as error:
        return fail(error.message, subject.build())
    except IndexCorrupt as error:
        return _damaged(subject, error.message, subject.rebuild())
    files = subject.manifest.files if subject.manifest else {}
    parts = {"generation", *files}
    faults = {name: fault for name, fault in report["faults"].items() if name in parts or "/" in name}
    if not faults:
        records = sum(source.records for source in subject.manifest.sources) if subject.manifest else 0
        return ok(f"generation {report['generation']} is intact ({count(records, 'record')})")
    # If every byte is as written and the parts still disagree, a sync would find nothing to do.
    fix = subject.build() if faults.keys() == {"generation"} else subject.fix()
    return _damaged(subject, "; ".join(faults.values()), fix)


def _damaged(subject: Subject, message: str, fix: str) -> Check:
    """Return the finding on a damaged index; another generation that is intact is a way out."""
    store = subject.store
    others = (kept.manifest.id for kept in reversed(store.kept()) if not kept.live)
    intact = next((other for other in others if not store.verify(other)[1]), None)
    if intact is None:
        return fail(message, fix)
    back = subject.command("sync", "--rollback", intact)
    if not subject.has_sources:
        return fail(message, back)
    return fail(f"{message}; generation {intact} is intact: {back}", fix)


def _beside_index(name: str, subject: Subject) -> Check | None:
    files = beside(subject.store.path) if subject.artifacts.is_dir() else {}
    paths = [path for path in files if path.startswith(name)]
    for path in paths:
        files[path]()  # raises if it is damaged
    return ok(f"{paths[0]} is unchanged") if paths else None


def _settings(subject: Subject) -> Check:
    if subject.store.live() is None or subject.manifest is None:
        return ok("skipped: there is no index to compare with")
    if subject.fault is not None:
        return ok("skipped: the configuration is invalid")
    differing = unapplied(subject.settings, subject.manifest)
    if differing:
        return warn(f"{summary(differing, subject.given)}, until a sync", subject.rebuild())
    return ok("the index is built as configured")


def _lock_holder(subject: Subject) -> Check:
    holder = lock.holder(subject.store.lock)
    if lock.is_held(subject.store.lock):
        return ok(f"a writer is active{holder}")
    return ok(f"free: its last holder is gone{holder}" if holder else "free: there is no writer")


def _disk(subject: Subject) -> Check | list[Check]:
    path, current = subject.artifacts.absolute(), subject.store.live()
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free
    if damaged := sorted(subject.store.generations.glob("*.damaged-*")):
        message = f"{count(len(damaged), 'damaged generation')} can be deleted"
        return warn(message, shell("rm", "-r", *damaged))
    if current is None:
        return ok(f"{size(free)} free")
    files = (subject.store.generations / current).iterdir()
    taken = sum(file.stat().st_size for file in files)
    wanted = max(2 * taken, 64 << 20)
    message = f"{size(free)} free; the current generation takes {size(taken)}"
    if free >= wanted:
        return ok(message)
    status = fail if free < taken else warn
    fix = f"free disk space: {shell('df', '-h', path)}"
    return status(f"{message}, and a sync needs {size(wanted)}", fix)


def _model(subject: Subject) -> Check:
    # Models are only inspected: without network, GPU or writes to the model cache.
    models = replace(subject.settings.models, auto_download=False, cache_dir=Path(os.devnull))
    encoder = replace(subject.settings.encoder, device="cpu")
    settings = replace(subject.settings, models=models, encoder=encoder)
    built_with = subject.encoder_card
    if built_with is None and not settings.dense.enabled:
        return ok("not needed: the index has no vectors (dense.enabled: false)")
    try:
        if built_with is None:
            card, use = encoders.encoder_to_build(settings).card, "as configured"
        else:
            card = encoders.encoder_to_query(settings, built_with).card
            use = "the one that the index was built with"
    except Unavailable as error:
        if not encoders.fetches(subject.settings):
            raise
        later = "It is downloaded at first use (models.auto_download)."
        return warn(f"{error.message} {later}", error.hint)
    except IndexCorrupt as error:
        return fail(error.message, subject.rebuild())
    message = f"{card.name} at revision {card.revision[:12]}, {use}"
    try:
        if built_with is not None and settings.dense.enabled:
            encoders.encoder_to_build(settings)
    except Unavailable as error:
        return warn(f"{message}; but sync needs another one: {error.message}", error.hint)
    return ok(message)


def languages(subject: Subject) -> Check | None:
    """Check that an encoder of English does not encode records in other languages."""
    encoder = subject.encoder_card
    if encoder is None or not _ENGLISH_ONLY.search(encoder.name):
        return None
    rows: Mapping[str, int] = {}
    with suppress(IndexCorrupt), open_generation(subject.store) as generation:  # `index` tells
        indexes = local_indexes(generation, subject.settings)
        lexical = (name for name in indexes if registry.retriever(name).role == "lexical")
        rows = next((registry.retriever(name).languages(indexes[name]) for name in lexical), {})
    others = {code: number for code, number in rows.items() if code not in (ENGLISH, NONE)}
    share = sum(others.values()) / (sum(rows.values()) or 1)
    if share < 0.01:  # by mistake, or no matter
        return None
    trained = f"{encoder.name} was trained on English, and {share:.0%} of the records are in other"
    message = f"{trained} languages ({', '.join(sorted(others))}): only words match them well"
    return warn(message, "choose a multilingual encoder: retrieve init --preset multilingual-e5")


_ENGLISH_ONLY = re.compile(
    r"(?:^|/)(?:all-(?:MiniLM|mpnet|distilroberta)|msmarco-|multi-qa-"
    r"|bge-(?:small|base|large)-en|gte-(?:small|base|large)$|e5-(?:small|base|large)(?:-v2)?$)",
    re.IGNORECASE,
)
"""Names of well-known encoders of English."""


def _model_servers(subject: Subject) -> Check | None:
    servers = configured_servers(subject.settings)
    message = "; ".join(f"{each.stage}: {each.model} at {each.address}" for each in servers)
    lacking = list(dict.fromkeys(str(each.api_key_env) for each in servers if each.lacks_key))
    if lacking:
        return warn(f"{message}; not set: {', '.join(lacking)}", f"export {lacking[0]}=...")
    return ok(message) if servers else None


def _gpu(subject: Subject) -> Check:
    if not subject.settings.dense.enabled:
        return ok("not needed: nothing is encoded (dense.enabled: false)")
    device, slow = encoders.device(subject.settings)
    fix = "set `encoder.precision: float32` and build the index again"
    return warn(device, fix) if slow else ok(device)


def _packages(subject: Subject) -> Check:
    versions, missing = [f"retrieve {__version__}", f"Python {platform.python_version()}"], {}
    for purpose, names in _needed(subject):
        if version := next(filter(None, map(_version, names)), ""):
            versions.append(version)
        else:
            missing[names[0]] = f"{names[0]} is not installed, needed for {purpose}"
    if missing:
        return fail("; ".join(missing.values()), f"pip install {' '.join(missing)}")
    return ok(", ".join(dict.fromkeys(versions)))


def _version(name: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        return f"{name} {metadata.version(name)}"
    return ""


def _needed(subject: Subject) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a purpose that the configuration or the index has, and names of a package for it."""
    settings, encoder = subject.settings, subject.settings.encoder
    kinds = {entry.kind for entry in subject.entries}
    on_torch = encoder.device == "cuda" or encoder.precision == "bfloat16"
    torch = encoder.kind == "torch" or (encoder.kind == "auto" and on_torch)
    table = (
        ("torch transformers sentence-transformers", "encoder.kind: torch", torch),
        ("openvino", "encoder.kind: openvino", encoder.kind == "openvino"),
        ("spacy", "names in texts", settings.chunking.entities),
        ("pyoxigraph", "sources of kind sparql", "sparql" in kinds),
        ("mcp", "sources of kind mcp", "mcp" in kinds),
        ("obonet", "graph.files", any(path.suffix == ".obo" for path in settings.graph.files)),
    )
    for names, purpose, needed in table:
        if needed:
            yield from ((purpose, (name,)) for name in names.split())
    recipe = subject.manifest.recipe if subject.manifest else None
    for name in retriever_names():
        card = recipe.retrievers.get(name, {}) if recipe else {}
        section = getattr(settings, name, None)
        for package in registry.retriever(name).packages:
            built_with = card.get(package.card_key or package.key)
            if package.value in (getattr(section, package.key, None), built_with):
                yield f"{name}.{package.key}: {package.value}", package.names


def _sources(subject: Subject) -> Check | list[Check]:
    manifest, entries = subject.manifest, subject.entries
    strange = strange_sources(subject.artifacts, manifest) if manifest else []
    if strange and not subject.settings.sources.list:
        return warn(f"you did not agree to read {', '.join(strange)}", subject.command("trust"))
    if not entries:
        message = "neither the configuration nor the index names a source: sync has nothing to read"
        return warn(message, subject.build())
    names = [source.name for source in manifest.sources] if manifest else []
    gone = set(names) - {entry.name for entry in entries}
    message = "{} is in the index, and the configuration no longer lists it"
    return [
        *(_source(subject, entry, built=entry.name in names) for entry in entries),
        *(warn(message.format(name), subject.command("sync")) for name in gone),
    ]


def _source(subject: Subject, entry: SourceSetting, *, built: bool) -> Check:
    fetched, sync = "", subject.command("sync")
    try:
        [source] = sources_of([entry], subject.settings, fetched=subject.artifacts / "sources")
        if entry.path is None or entry.kind == "mcp":
            copy = subject.artifacts / "sources" / f"{entry.name}.jsonl"
            if not copy.is_file():
                return warn(f"{entry.name} was never downloaded: there is no {copy}", sync)
            time = datetime.fromtimestamp(copy.stat().st_mtime, UTC)
            fetched = f" ({copy}, of {time:%Y-%m-%d %H:%M} UTC)"
        if subject.manifest is None:
            return ok(f"{entry.name} is not built yet{fetched}")
        if not built:
            return warn(f"{entry.name} is not in the index yet{fetched}", sync)
        try:
            with open_generation(subject.store) as generation:
                same = is_current(source, generation)
        except IndexCorrupt:
            return ok(f"{entry.name} can be read{fetched}")  # `index` tells
    except UsageError as error:
        flags = ("--docs-dir", "DIR") if entry.kind == "docs" else ("--catalog", "FILE")
        moved = f"restore it, or build from its new place: {subject.command('build', *flags)}"
        listed = f"correct `sources:` in the configuration ({error.hint})"
        fix = listed if subject.settings.sources.list else moved
        if entry.kind == "mcp":
            fix = error.hint
        return fail(f"{entry.name}: {error.message}", fix)
    if same:
        return ok(f"{entry.name} is as built{fetched}")
    return warn(f"{entry.name} has changed since the build{fetched}", sync)


def _documents(subject: Subject) -> Check | None:
    reader, unread = reader_of(subject.settings), Counter[str]()
    lacking = {kind: reader.lacks(kind) for kind in reader.formats if reader.lacks(kind)}
    for entry in subject.entries if lacking else ():
        if entry.kind == "docs" and entry.path is not None:
            kinds = (reader.format_of(path.name, b"") or "" for path in entry.path.rglob("*"))
            unread.update(kind for kind in kinds if kind in lacking)
    if not unread:
        return None
    counts = ", ".join(count(number, f"{kind} file") for kind, number in unread.most_common())
    reasons = "; ".join(lacking[kind].partition(":")[0] for kind, _ in unread.most_common())
    return warn(f"skipped: {counts}; {reasons}", "pip install 'retrieve-cli[documents]'")


def _sandbox(_: Subject) -> Check:
    if has_networkless_parsers():
        return ok("parsers of documents have limits, no variables of yours, and no network")
    message = "only Python's audit hook keeps parsers of documents from the network"
    fix = "allow unprivileged user namespaces, or parse documents of strangers on another machine"
    return warn(f"{message}: this kernel grants no namespace", fix)


_Look = Callable[[Subject], Check | Iterable[Check] | None]


def _table(engines: Iterable[str]) -> Mapping[str, _Look]:
    """Return the checks in order."""
    return {
        "config": _configuration,
        "artifacts": _artifacts,
        "index": _index,
        "inbox": partial(_beside_index, "inbox"),
        "keys": partial(_beside_index, "keys"),
        "settings": _settings,
        "lock": _lock_holder,
        "disk": _disk,
        "model": _model,
        "languages": languages,
        "servers": _model_servers,
        **{name: partial(engine, name) for name in engines},
        "gpu": _gpu,
        "packages": _packages,
        "sources": _sources,
        "documents": _documents,
        "sandbox": _sandbox,
        "web": web,
    }


def examine(
    artifacts: Path,
    config: Path | None,
    *,
    settings: Settings | None = None,
    names: Iterable[str] = (),
) -> list[Check]:
    """Return the findings of the named checks, or of all; of two if no others can be made."""
    subject = Subject(artifacts, config, settings)
    table = _table(subject.settings.engines.in_use)
    chosen = list(names or table)
    try:
        subject.store.live()
    except UsageError:  # not a folder, or one with links without agreement: no other check can be made
        chosen = ["config", "artifacts"]
    findings = (_run(subject, name, table[name]) for name in chosen)
    return [finding for finding in findings if finding is not None]


def _run(subject: Subject, name: str, look: _Look) -> Check | None:
    """Return the findings of one check as one, as bad as the worst; None if it does not apply."""
    try:
        result = look(subject)
        findings = [result] if isinstance(result, Check) else list(result or ())
    except RetrieveError as error:
        return Check(name, "fail", error.message, error.hint)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Check(name, "fail", message, "fix its permissions, or the disk")
    except Exception as error:  # noqa: BLE001  a check that breaks must not stop the others
        message = f"this check failed: {type(error).__name__}: {error}"
        return Check(name, "fail", message, "report it: this is a bug in retrieve")
    if not findings:
        return None
    worst = max((one.status for one in findings), key=("ok", "warn", "fail").index)
    relevant = [one for one in findings if one.status != "ok" or worst == "ok"]
    fixes = dict.fromkeys(one.fix for one in relevant)
    message = "; ".join(one.message for one in relevant)
    return Check(name, worst, message, "; ".join(filter(None, fixes)))
