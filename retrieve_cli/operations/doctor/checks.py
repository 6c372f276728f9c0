"""The checks in one table, each with its fix. Nothing is changed or downloaded."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from operator import attrgetter
from pathlib import Path

from retrieve_cli.assemble import encoders, registry
from retrieve_cli.assemble.documents import has_networkless_parsers, reader_of
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.assemble.llm import model_servers as configured_servers
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.config.loading import DEFAULT_FILE, override
from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import NOT_AGREED, Settings, SourceSetting
from retrieve_cli.contracts import Request
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.contracts.terms.languages import ENGLISH, NONE, languages as languages_by_code
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, Unavailable, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.compare import digest_of, digests_of
from retrieve_cli.operations import views
from retrieve_cli.operations.doctor.remote_checks import engine, web
from retrieve_cli.operations.doctor.subject import Check, NoFolder, Subject, fail, ok, shell, warn
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import lock
from retrieve_cli.storage.beside import beside
from retrieve_cli.storage.generation import RECORDS, open_generation
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.vector_cache import VectorCache
from retrieve_cli.version import __version__


def _configuration(subject: Subject) -> Check:
    if isinstance(subject.fault, UsageError):
        message = f"{subject.fault.message}; the other checks use the defaults"
        return fail(message, subject.fault.hint)
    if subject.fault is not None:
        raise subject.fault
    file = subject.config or (DEFAULT_FILE if os.path.lexists(DEFAULT_FILE) else None)
    if withheld := subject.settings.withheld:
        return warn(f"{file} {NOT_AGREED.format(', '.join(withheld))}")
    return ok(f"{file} is valid" if file else f"defaults: there is no {DEFAULT_FILE} here")


def _artifacts(subject: Subject) -> Check:
    path = subject.artifacts
    try:
        store = subject.store
    except NoFolder as error:
        return fail(error.message, error.hint)
    if not path.is_dir():
        return fail(f"there is no folder {path}")
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
        return fail(error.message)
    except IndexCorrupt as error:
        return _damaged(subject, error.message, subject.rebuild())
    files = subject.manifest.files if subject.manifest else {}
    parts = {"generation", *files}
    faults = {name: fault for name, fault in report["faults"].items() if name in parts}
    if not faults:
        records = (RECORDS in files and files[RECORDS].rows) or 0
        return ok(f"generation {report['generation']} is intact ({count(records, 'record')})")
    # If every byte is as written and the parts still disagree, a sync would find nothing to do.
    fix = subject.build() if faults.keys() == {"generation"} else subject.rebuild()
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
        return warn(f"{summary(differing, subject.given)}, until a sync")
    return ok("the index is built as configured")


_THRESHOLDS = ("search.grade", "search.max_distance", "search.min_score", "rerank.min_score")


def _thresholds(subject: Subject) -> Check | None:
    """Check that thresholds leave results to queries that match well: names of records."""
    settings = subject.settings
    chosen = [key for key in _THRESHOLDS if attrgetter(key)(settings) is not None]
    if subject.manifest is None or not chosen:
        return None
    free = {"search": {"require_tenant": False, "deadline_ms": None}, "gating": {"enabled": False}}
    opened = Opened.of(subject.store, override(settings, free, where="doctor"))
    records = opened.generation.records
    names = [str(records[row]["name"]) for row in range(0, len(records), len(records) // 8 + 1)]
    texts = [name.translate(_NO_TAGS).strip() for name in names]
    # Servers cost time and money: only rerankers of this machine are run for it.
    local = settings.rerank.backend in (*TOKEN_BACKENDS, "cross_encoder")
    options = opened.options(rerank=None if local else False, expand=False, k=1)
    answers = Searcher(opened, options).answer([Request(text) for text in texts if text])
    removed = sum((Counter(answer.removed) for answer in answers), Counter[str]()).most_common(1)
    if not removed or any(answer.results for answer in answers):
        return ok(f"{' and '.join(chosen)} leave results to queries of the index's own names")
    reason = removed[0][0]
    message = f"none of {len(answers)} queries, each the name of a record, has a result: {reason}"
    return warn(message, f"set {reason.partition(' ')[0]}: null in config.yaml")


_NO_TAGS = str.maketrans("[]", "  ")


def _generations(subject: Subject) -> Check:
    store = subject.store
    kept, damaged = store.kept(), _damaged_folders(subject)
    scratch = [path for path in store.generations.glob(".scratch-*") if path.is_dir()]
    writing = lock.is_held(store.lock)
    message = f"{len(kept)} kept, {_size(sum(generation.bytes for generation in kept))}"
    if scratch:
        dead = "a writer that died; the next sync removes them"
        owner = "the active writer" if writing else dead
        message += f"; {count(len(scratch), 'scratch folder')} of {owner}"
    if damaged:
        taken = _size(sum(map(_bytes, damaged)))
        message += f"; {count(len(damaged), 'damaged generation')} that can be deleted, {taken}"
        return warn(message, shell("rm", "-r", *damaged))
    return warn(message) if scratch and not writing else ok(message)


def _damaged_folders(subject: Subject) -> list[Path]:
    """Return folders without a readable manifest, except the current generation."""
    store = subject.store
    needed = {*(kept.manifest.id for kept in store.kept()), store.live()}
    folders = sorted(path for path in store.generations.glob("[!.]*") if path.is_dir())
    return [path for path in folders if path.name not in needed]


def _lock_holder(subject: Subject) -> Check:
    holder = lock.holder(subject.store.lock)
    if lock.is_held(subject.store.lock):
        return ok(f"a writer is active{holder}")
    return ok(f"free: its last holder is gone{holder}" if holder else "free: there is no writer")


def _disk(subject: Subject) -> Check:
    path, current = subject.artifacts.absolute(), subject.store.live()
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free
    if current is None:
        return ok(f"{_size(free)} free")
    taken = _bytes(subject.store.generations / current)
    wanted = max(2 * taken, 64 << 20)
    message = f"{_size(free)} free; the current generation takes {_size(taken)}"
    if free >= wanted:
        return ok(message)
    status = fail if free < taken else warn
    fix = f"free disk space: {shell('df', '-h', path)}"
    return status(f"{message}, and a sync needs {_size(wanted)}", fix)


def _cache(subject: Subject) -> Check:
    folder, card = subject.store.cache, subject.encoder_card
    files = [path for path in folder.rglob("*") if path.is_file()]
    message = f"{count(len(files), 'file')}, {_size(_bytes(folder))}"
    if card is None or not files:
        return ok(message)
    with suppress(RetrieveError), open_generation(subject.store) as generation:  # `index` tells
        vectors = VectorCache(folder, card, say=lambda _: None)
        lacking, texts = len(vectors.lacks(as_keys(generation.texts))), len(generation.texts)
        missing = f"{lacking} of {count(texts, 'vector')} of the current index cannot be read there"
        more = f"{missing}: sync takes them from the index, build computes them again"
        message += f"; {more if lacking else 'every vector of the current index can be read'}"
    return ok(message)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _size(count: int) -> str:
    power = max(0, min(4, (max(1, count).bit_length() - 1) // 10))
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{count / 1024**power:.{min(1, power)}f} {unit}"


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
        return fail(error.message)
    message = f"{card.name} at revision {card.revision[:12]}, {use}"
    try:
        if built_with is not None and settings.dense.enabled:
            encoders.encoder_to_build(settings)
    except Unavailable as error:
        return warn(f"{message}; but sync needs another one: {error.message}", error.hint)
    return ok(message)


def languages(subject: Subject) -> Check | None:
    """Check that the encoder was trained for the languages of the records, if both are known."""
    if subject.encoder_card is None:
        return None
    rows: Mapping[str, int] = {}
    with suppress(IndexCorrupt), open_generation(subject.store) as generation:  # `index` tells
        indexes = local_indexes(generation, subject.settings)
        lexical = (name for name in indexes if registry.retriever(name).role == "lexical")
        rows = next((registry.retriever(name).languages(indexes[name]) for name in lexical), {})
    return of_languages(subject.encoder_card.name, rows)


def of_languages(encoder: str, rows: Mapping[str, int]) -> Check | None:
    """Return the finding on an encoder, by its name, and the number of rows in each language."""
    total = sum(rows.values()) or 1
    codes = sorted(rows, key=lambda code: (-rows[code], code))
    others = sum(rows[code] for code in codes if code not in (ENGLISH, NONE))
    if others / total < 0.01:  # by mistake, or no matter
        return None
    listed = ", ".join(f"{rows[code] / total:.0%} {_language(code)}" for code in codes[:4])
    if not _ENGLISH_ALONE.search(encoder):
        return ok(f"records in {listed}")
    trained = f"{encoder} was trained on English, and the records are {listed}"
    fix = "choose a multilingual encoder: retrieve init --preset multilingual-e5"
    return warn(f"{trained}: their vectors tell little, words still match", fix)


def _language(code: str) -> str:
    known = languages_by_code().get(code)
    names = (known.stemmer, *sorted(known.names)) if known else ()
    return next((name.title() for name in names if len(name) > 3), code)


_ENGLISH_ALONE = re.compile(
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
    installed: dict[str, None] = {}
    absent: dict[str, None] = {}
    missing: dict[str, str] = {}
    for names, purpose, needed in (*_distributions(subject), *_of_retrievers(subject)):
        if version := next(filter(None, map(_version, names)), ""):
            installed[version] = None
            continue
        text = f"{names[0]} is not installed, needed for {purpose}"
        absent[text] = None
        if needed:
            missing[names[0]] = text
    if missing:
        return fail("; ".join(missing.values()), f"pip install {' '.join(missing)}")
    versions = [f"retrieve {__version__}", f"Python {platform.python_version()}", *installed]
    return ok("; ".join([", ".join(versions), *absent]))


def _version(name: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        return f"{name} {metadata.version(name)}"
    return ""


def _distributions(subject: Subject) -> Iterator[tuple[Sequence[str], str, object]]:
    """Yield names of a distribution, of which any will do, its purpose, and if it is needed."""
    settings, encoder = subject.settings, subject.settings.encoder
    kinds = {entry.kind for entry in subject.entries}
    kind = encoder.kind if settings.dense.enabled else ""
    if kind == "auto":
        on_torch = encoder.device == "cuda" or encoder.precision == "bfloat16"
        kind = "torch" if on_torch else "onnx"
    served = encoder.kind == "remote" or settings.rerank.backend in ("remote", "llm")
    addresses = (settings.llm.base_url, settings.facets.base_url)
    remote = served or any(addresses) or kinds & {"http", "sparql"}
    obo = any(path.suffix == ".obo" for path in settings.graph.files)
    table = (
        ("typer rich PyYAML orjson numpy", "every command", True),
        ("tokenizers onnx onnxruntime", "encoder.kind: onnx", kind in ("onnx", "openvino")),
        ("torch transformers sentence-transformers", "encoder.kind: torch", kind == "torch"),
        ("openvino", "encoder.kind: openvino", kind == "openvino"),
        ("spacy", "names in texts", settings.chunking.entities),
        ("urllib3", "sources of kind http and sparql, and models on a server", remote),
        ("pyoxigraph", "sources of kind sparql", "sparql" in kinds),
        ("obonet", "ontologies in OBO (graph.files)", obo),
        ("pydicom nibabel tifffile Pillow pynrrd", "query --file", False),
        ("pypdfium2", "documents in PDF", False),
        ("selectolax", "documents in HTML", False),
        ("mammoth python-pptx docutils", "documents in Word, PowerPoint and reStructuredText", False),
        ("ir-measures scipy", "retrieve eval", False),
        ("huggingface_hub", "models.auto_download", settings.models.auto_download),
    )
    for names, purpose, needed in table:
        yield from (([name], purpose, needed) for name in names.split())


def _of_retrievers(subject: Subject) -> Iterator[tuple[Sequence[str], str, object]]:
    recipe = subject.manifest.recipe if subject.manifest else None
    for name in retriever_names():
        card = recipe.retrievers.get(name, {}) if recipe else {}
        section = getattr(subject.settings, name, None)
        for package in registry.retriever(name).packages:
            built_with = card.get(package.card_key or package.key)
            needed = package.value in (getattr(section, package.key, None), built_with)
            yield package.names, f"{name}.{package.key}: {package.value}", needed


def _sources(subject: Subject) -> Check | list[Check]:
    manifest, entries = subject.manifest, subject.entries
    strange = strange_sources(subject.artifacts, manifest) if manifest else []
    if strange and not subject.settings.sources.list:
        return warn(f"you did not agree to read {', '.join(strange)}", subject.command("trust"))
    if not entries:
        message = "neither the configuration nor the index names a source: sync has nothing to read"
        return warn(message, subject.build())
    names = [source.name for source in manifest.sources] if manifest else []
    built = dict(zip(names, digests_of(manifest), strict=False)) if manifest else {}
    gone = built.keys() - {entry.name for entry in entries}
    message = "{} is in the index, and the configuration no longer lists it"
    return [
        *(_source(subject, entry, built.get(entry.name)) for entry in entries),
        *(warn(message.format(name)) for name in gone),
    ]


def _source(subject: Subject, entry: SourceSetting, built: str | None) -> Check:
    age = ""
    try:
        [source] = sources_of([entry], subject.settings, fetched=subject.artifacts / "sources")
        if entry.path is None or entry.kind == "mcp":
            copy = subject.artifacts / "sources" / f"{entry.name}.jsonl"
            if not copy.is_file():
                return warn(f"{entry.name} was never downloaded: there is no {copy}")
            age = f" ({copy}, {_age(copy)})"
        if built is None:
            not_yet = f"{entry.name} is not in the index yet{age}"
            return warn(not_yet) if subject.manifest else ok(f"{entry.name} is not built yet{age}")
        now = digest_of(source)
    except UsageError as error:
        flags = ("--docs-dir", "DIR") if entry.kind == "docs" else ("--catalog", "FILE")
        moved = f"restore it, or build from its new place: {subject.command('build', *flags)}"
        listed = f"correct `sources:` in the configuration ({error.hint})"
        fix = listed if subject.settings.sources.list else moved
        if entry.kind == "mcp":
            fix = error.hint
        return fail(f"{entry.name}: {error.message}", fix)
    if now == built:
        return ok(f"{entry.name} is as built{age}")
    return warn(f"{entry.name} has changed since the build{age}")


def _age(path: Path) -> str:
    hours = int(max(0.0, time.time() - path.stat().st_mtime) // 3600)
    if hours < 1:
        return "less than an hour old"
    return f"{count(hours, 'hour')} old" if hours < 48 else f"{hours // 24} days old"


def _documents(subject: Subject) -> Check | None:
    reader, unread = reader_of(subject.settings), Counter[str]()
    lacking = {kind: reader.lacks(kind) for kind in reader.formats if reader.lacks(kind)}
    for entry in subject.entries if lacking else ():
        if entry.kind == "docs" and entry.path is not None:
            kinds = (reader.format_of(path.name, b"") or "" for path in entry.path.rglob("*"))
            unread.update(kind for kind in kinds if kind in lacking)
    if unread:
        counts = ", ".join(count(number, f"{kind} file") for kind, number in unread.most_common())
        reasons = "; ".join(lacking[kind].partition(":")[0] for kind, _ in unread.most_common())
        return warn(f"skipped: {counts}; {reasons}", "pip install 'retrieve-cli[documents]'")
    cards = (subject.manifest.recipe.documents or {}) if subject.manifest else {}
    changes = []
    for kind, card in cards.items():
        now = card if kind in lacking else reader.card(kind)
        before, after = card.get("parser"), now.get("parser")
        if before != after:
            changes.append(f"{kind} by {before}, now {after}")
        elif now != card:
            changes.append(f"{kind}: other rules or settings")
    if changes:
        message = f"the index was built with other parsers ({'; '.join(changes)})"
        return warn(f"{message}: sync reads the files of these formats again")
    parsers = (f"{kind} by {card.get('parser')}" for kind, card in cards.items())
    return ok(", ".join(parsers)) if cards else None


def _sandbox(_: Subject) -> Check:
    if has_networkless_parsers():
        return ok("parsers of documents have limits of memory and time, no variables of yours, and no network")
    message = "only Python's audit hook keeps parsers of documents from the network: this kernel grants no namespace"
    return warn(message, "allow unprivileged user namespaces, or parse documents of strangers on another machine")


_Look = Callable[[Subject], Check | Iterable[Check] | None]
_Fix = Callable[[Subject], str]


def _command(*words: str) -> _Fix:
    return lambda subject: subject.command(*words)


def _no_fix(_: Subject) -> str:
    return ""


def _table(engines: Iterable[str]) -> Mapping[str, tuple[_Look, _Fix]]:
    """Return the checks in order, each with the fix for findings that have no other one."""
    return {
        "config": (_configuration, _command("trust")),
        "artifacts": (_artifacts, Subject.build),
        "index": (_index, Subject.build),
        "inbox": (partial(_beside_index, "inbox"), _no_fix),
        "keys": (partial(_beside_index, "keys"), _no_fix),
        "settings": (_settings, Subject.rebuild),
        "thresholds": (_thresholds, _no_fix),
        "generations": (_generations, _command("sync")),
        "lock": (_lock_holder, _no_fix),
        "disk": (_disk, _no_fix),
        "model": (_model, Subject.rebuild),
        "languages": (languages, _no_fix),
        "servers": (_model_servers, _no_fix),
        **{name: (partial(engine, name), _command("engines", "push")) for name in engines},
        "gpu": (_gpu, _no_fix),
        "packages": (_packages, _no_fix),
        "sources": (_sources, _command("sync")),
        "documents": (_documents, _command("sync")),
        "sandbox": (_sandbox, _no_fix),
        "cache": (_cache, _no_fix),
        "web": (web, _no_fix),
    }


def examine(
    artifacts: Path,
    config: Path | None,
    *,
    settings: Settings | None = None,
    names: Iterable[str] = (),
) -> list[Check]:
    """Return the findings of the named checks, or of all."""
    subject = Subject(artifacts, config, settings)
    table = _table(subject.settings.engines.in_use)
    found = [_run(subject, name, *table[name]) for name in names or table]
    return [one for one in found if one is not None]


def _run(subject: Subject, name: str, look: _Look, fix: _Fix) -> Check | None:
    """Return the findings of one check as one, as bad as the worst; None if it does not apply."""
    try:
        found = look(subject)
        findings = [found] if isinstance(found, Check) else list(found or ())
    except NoFolder as error:
        return Check(name, "warn", f"skipped: {error.message}", error.hint)
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
    shown = [one for one in findings if one.status != "ok" or worst == "ok"]
    fixes = dict.fromkeys(one.fix or fix(subject) for one in shown if worst != "ok")
    message = "; ".join(one.message for one in shown)
    return Check(name, worst, message, "; ".join(filter(None, fixes)))
