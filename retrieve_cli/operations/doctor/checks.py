"""Checks of the folder, the model, the machine, the packages and the sources; each returns its findings.

A check that does not apply returns None.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache as cached
from importlib import metadata
from itertools import islice
from operator import attrgetter
from pathlib import Path

from retrieve_cli.assemble import encoders, registry
from retrieve_cli.assemble.documents import reader_of, sandbox_lacks
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.assemble.llm import model_servers as configured_servers
from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.config.loading import override
from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.contracts import Request
from retrieve_cli.contracts.terms.languages import ENGLISH, NONE, languages as languages_by_code
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, Unavailable, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.operations import views
from retrieve_cli.operations.doctor.subject import Finding, Found, Subject, fail, ok, shell, size, some, warn
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import lock
from retrieve_cli.storage.beside import beside
from retrieve_cli.storage.generation import RECORDS, open_generation
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.manifest import Manifest, trace
from retrieve_cli.storage.records.columns import Columns, columns_of
from retrieve_cli.storage.vector_cache import VectorCache
from retrieve_cli.version import __version__


def artifacts(subject: Subject) -> Finding:
    """Check that the folder exists and can be read and written."""
    path, store = subject.artifacts, subject.store
    if not path.is_dir():
        return fail(f"there is no folder {path}", subject.build() or subject.build_from())
    if not os.access(path, os.R_OK | os.X_OK):
        return fail(f"{path} cannot be read", shell(["chmod", "u+rx"], [path]))
    parts = [path, store.generations, store.cache, store.fetched]
    if locked := [part for part in parts if part.exists() and not os.access(part, os.W_OK | os.X_OK)]:
        message = f"{', '.join(map(str, locked))} cannot be written: queries work, build and sync do not"
        return warn(message, shell(["chmod", "u+rwx"], locked))
    return ok(f"{path} can be read and written")


def index(subject: Subject) -> Finding:
    """Check that every byte of the current generation is as written, and that it opens."""
    store = subject.store
    try:
        if (current := store.live()) and not (store.generations / current).is_dir():
            store.open()  # raises the error that names what is wrong with `current`
        report = views.verify(store, subject.settings)
    except IndexMissing as error:
        return fail(error.message, subject.build() or subject.build_from())
    except IndexCorrupt as error:
        return _damaged(subject, error.message, subject.rebuild())
    parts = {"generation", *(subject.manifest.files if subject.manifest else ())}
    faults = {name: fault for name, fault in report["faults"].items() if name in parts}
    if not faults:
        records = (subject.manifest.rows(RECORDS) if subject.manifest else 0) or 0
        return ok(f"generation {report['generation']} is intact ({some(records, 'record')})")
    # If every byte is as written and the parts still disagree, a sync would find nothing to do.
    fix = subject.build() if faults.keys() == {"generation"} else subject.rebuild()
    return _damaged(subject, "; ".join(faults.values()), fix)


def _damaged(subject: Subject, message: str, fix: str) -> Finding:
    """Return the finding on a damaged index, with the newest other generation that is intact as another way out."""
    back = ""
    for kept in reversed(subject.store.kept()):
        with suppress(RetrieveError):  # removed in the meantime
            if not kept.live and not subject.store.verify(kept.manifest.id)[1]:
                back = subject.command("sync", "--rollback", kept.manifest.id)
                message += f"; generation {kept.manifest.id} is intact: {back}" if fix else ""
                break
    return fail(message, fix or back or subject.build_from())


def own(name: str, subject: Subject) -> Finding | None:
    """Check that files beside the generations are unchanged since they were written; None without such files."""
    files = beside(subject.store.path) if subject.artifacts.is_dir() else {}
    paths = [path for path in files if path.startswith(name)]
    for path in paths:
        try:
            files[path]()
        except (RetrieveError, OSError) as error:
            log = path.endswith("documents.jsonl")
            return fail(str(error), subject.command("doctor", "--repair") if log else getattr(error, "hint", ""))
    more = len(paths) - 1
    sent = f"; so {'is' if more == 1 else 'are'} {some(more, 'file')} that came as documents" if more > 0 else ""
    return ok(f"{paths[0]} is unchanged{sent}") if paths else None


def generations(subject: Subject) -> Finding:
    """List stored generations and leftovers: damaged folders that were set aside, scratch folders of dead writers."""
    store = subject.store
    kept, damaged = store.kept(), _of_no_use(subject)
    scratch = [path for path in store.generations.glob(".scratch-*") if path.is_dir()]
    message = f"{len(kept)} kept, {size(sum(generation.bytes for generation in kept))}"
    writing = lock.is_held(store.lock)
    if scratch:
        owner = "the active writer" if writing else "a writer that died; the next sync removes them"
        message += f"; {some(len(scratch), 'scratch folder')} of {owner}"
    if damaged:
        taken = size(sum(_bytes(path) for path in damaged))
        message += f"; {some(len(damaged), 'damaged generation')} that can be deleted, {taken}"
        return warn(message, shell(["rm", "-r"], damaged))
    return warn(message, subject.command("sync")) if scratch and not writing else ok(message)


def _of_no_use(subject: Subject) -> list[Path]:
    """Return folders set aside as damaged, and generations, except the current one, whose manifest cannot be read."""
    store = subject.store
    needed = {*(kept.manifest.id for kept in store.kept()), store.live()}
    folders = sorted(path for path in store.generations.glob("*") if path.is_dir())
    return [path for path in folders if not path.name.startswith(".") and path.name not in needed]


def who_writes(subject: Subject) -> Finding:
    """Report whether a process is writing here, and which one."""
    holder = lock.holder(subject.store.lock)
    if lock.is_held(subject.store.lock):
        return ok(f"a writer is active{holder}")
    return ok(f"free: its last holder is gone{holder}" if holder else "free: there is no writer")


def disk(subject: Subject) -> Finding:
    """Check the disk space for a sync: it writes a new generation beside the current one, and vectors to the cache."""
    path = subject.artifacts.absolute()
    while not path.exists():
        path = path.parent
    free, current = shutil.disk_usage(path).free, subject.store.live()
    if current is None:
        return ok(f"{size(free)} free")
    taken = _bytes(subject.store.generations / current)
    wanted = max(2 * taken, 64 << 20)
    message = f"{size(free)} free; the current generation takes {size(taken)}"
    if free >= wanted:
        return ok(message)
    aside = _of_no_use(subject)
    fix = shell(["rm", "-r"], aside) if aside else "free disk space: " + shell(["df", "-h"], [path])
    return Finding("fail" if free < taken else "warn", f"{message}, and a sync needs {size(wanted)}", fix)


def cache(subject: Subject) -> Finding:
    """Report the size of the vector cache, and check that it has the vectors of the current index."""
    folder = subject.store.cache
    files = [path for path in folder.rglob("*") if path.is_file()]
    message = f"{some(len(files), 'file')}, {size(sum(path.stat().st_size for path in files))}"
    if subject.manifest is None or not files:
        return ok(message)
    try:
        with open_generation(subject.store) as generation:
            texts = generation.texts
        if subject.manifest.recipe.encoder is None:
            return ok(f"{message}; the index has no vectors")
        vectors = VectorCache(folder, subject.manifest.recipe.encoder_card, say=lambda _: None)
        lacking = len(vectors.lacks(as_keys(texts)))
    except RetrieveError:
        return ok(f"{message}; without an intact index it is not known which vectors are needed")
    if lacking:
        missing = f"{lacking} of {some(len(texts), 'vector')} of the current index cannot be read there"
        return ok(f"{message}; {missing}: sync takes them from the index, build computes them again")
    return ok(f"{message}; every vector of the current index can be read")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def model(subject: Subject) -> Finding:
    """Check that the encoder of the current index is here in the right revision, and the one that a sync would use."""
    # Models are only inspected: without network, GPU or writes to the model cache.
    models = replace(subject.settings.models, auto_download=False, cache_dir=Path(os.devnull))
    settings = replace(subject.settings, models=models, encoder=replace(subject.settings.encoder, device="cpu"))
    built = subject.manifest is not None and subject.manifest.recipe.encoder is not None
    if not built and not settings.dense.enabled:
        return ok("not needed: the index has no vectors (dense.enabled: false)")
    try:
        if subject.manifest is None or not built:
            card = encoders.encoder_to_build(settings).card
            return ok(f"{card.name} at revision {card.revision[:12]}, as configured")
        card = encoders.encoder_to_query(settings, subject.manifest.recipe.encoder_card).card
    except Unavailable as error:
        if encoders.fetches(subject.settings):
            return warn(f"{error.message} It is downloaded at first use (models.auto_download).", error.hint)
        return fail(error.message, error.hint)
    except IndexCorrupt as error:
        return fail(error.message, subject.rebuild() or subject.build_from())
    message = f"{card.name} at revision {card.revision[:12]}, the one that the index was built with"
    if not settings.dense.enabled:
        return ok(f"{message}; sync uses none (dense.enabled: false)")
    try:
        encoders.encoder_to_build(settings)
    except Unavailable as error:
        return warn(f"{message}; but sync needs another one: {error.message}", error.hint)
    return ok(message)


def languages(subject: Subject) -> Finding | None:
    """Check that the encoder was trained for the languages of the records, as far as both are known."""
    manifest = subject.manifest
    if manifest is None or manifest.recipe.encoder is None:
        return None
    rows: Mapping[str, int] = {}
    with suppress(IndexCorrupt), open_generation(subject.store) as generation:  # the check of the index reports it
        indexes = local_indexes(generation, subject.settings)
        lexical = (name for name in indexes if registry.retriever(name).role == "lexical")
        rows = next((registry.retriever(name).languages(indexes[name]) for name in lexical), {})
    return of_languages(manifest.recipe.encoder_card.name, rows)


def of_languages(encoder: str, rows: Mapping[str, int]) -> Finding | None:
    """Return the finding on an encoder, by its name, and the number of rows in each language."""
    total = sum(rows.values()) or 1
    codes = sorted(rows, key=lambda code: (-rows[code], code))
    if sum(rows[code] for code in codes if code not in (ENGLISH, NONE)) / total < 0.01:  # by mistake, or no matter
        return None
    listed = ", ".join(f"{rows[code] / total:.0%} {_named(code)}" for code in codes[:4])
    if not _ENGLISH_ALONE.search(encoder):
        return ok(f"records in {listed}")
    trained = f"{encoder} was trained on English, and the records are {listed}"
    fix = "choose a multilingual encoder: retrieve init --preset multilingual-e5"
    return warn(f"{trained}: their vectors tell little, words still match", fix)


def _named(code: str) -> str:
    known = languages_by_code().get(code)
    names = (known.stemmer, *sorted(known.names)) if known else ()
    return next((name.title() for name in names if len(name) > 3), code)


_ENGLISH_ALONE = re.compile(
    r"(?:^|/)(?:all-(?:MiniLM|mpnet|distilroberta)|msmarco-|multi-qa-|bge-(?:small|base|large)-en|gte-(?:small|base|large)$"
    r"|e5-(?:small|base|large)(?:-v2)?$)",
    re.IGNORECASE,
)
"""Names of well-known encoders of English."""


def model_servers(subject: Subject) -> Finding | None:
    """Report the configured model servers, and check that their API keys are set; no server is contacted."""
    if not (servers := configured_servers(subject.settings)):
        return None
    message = "; ".join(f"{server.stage}: {server.model} at {server.address}" for server in servers)
    lacking = list(dict.fromkeys(str(server.api_key_env) for server in servers if server.lacks_key))
    return warn(f"{message}; not set: {', '.join(lacking)}", f"export {lacking[0]}=...") if lacking else ok(message)


def gpu(subject: Subject) -> Finding:
    """Check that a GPU would encode passages, or that the processor has the configured precision."""
    if not subject.settings.dense.enabled:
        return ok("not needed: nothing is encoded (dense.enabled: false)")
    device = encoders.device(subject.settings)
    if encoders.slow_precision(subject.settings):
        return warn(device, "set `encoder.precision: float32` and build the index again")
    return ok(device)


def packages(subject: Subject) -> Finding:
    """Check that the needed distributions are installed, and list the others."""
    installed: dict[str, None] = {}
    missing: dict[str, str] = {}
    absent = ""
    for names, purpose, needed in _distributions(subject):
        if found := next(filter(None, map(_version, names)), ""):
            installed[found] = None
            continue
        text = f"{names[0]} is not installed, needed for {purpose}"
        absent += f"; {text}"
        missing |= {names[0]: text} if needed else {}
    if missing:
        return fail("; ".join(missing.values()), "pip install " + " ".join(missing))
    return ok(f"retrieve {__version__}, Python {platform.python_version()}, {', '.join(installed)}{absent}")


def _version(name: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        return f"{name} {metadata.version(name)}"
    return ""


def _distributions(subject: Subject) -> Iterator[tuple[Sequence[str], str, bool]]:
    """Yield distributions (any name will do) with their purpose, and whether the configuration or index needs them."""
    settings, encoder = subject.settings, subject.settings.encoder
    kinds = {entry.kind for entry in subject.entries}
    encodes, on_torch = settings.dense.enabled, encoder.device == "cuda" or encoder.precision == "bfloat16"
    onnx, torch = encoder.kind in ("auto", "onnx", "openvino"), "torch transformers sentence-transformers"
    by_torch = encoder.kind == "torch" or (encoder.kind == "auto" and on_torch)
    served = encoder.kind == "remote" or settings.rerank.backend in ("remote", "llm")
    served = served or settings.llm.base_url is not None or settings.facets.base_url is not None
    cut = settings.chunking.coherence or settings.facets.extractive or "docs" in kinds
    names_or_language = settings.chunking.entities or (cut and settings.chunking.language != "en")
    table = (
        ("typer rich PyYAML orjson numpy", "every command", True),
        ("tokenizers onnx onnxruntime", "the encoder on a CPU (encoder.kind: onnx)", encodes and onnx),
        (torch, "the encoder on a GPU (encoder.kind: torch)", encodes and by_torch),
        ("openvino", "a faster encoder on a CPU (encoder.kind: openvino)", encodes and encoder.kind == "openvino"),
        ("spacy", "names in texts, and sentences in other languages than English", names_or_language),
        ("urllib3", "sources of kind http and sparql, and models on a server", kinds & {"http", "sparql"} or served),
        ("pyoxigraph", "sources of kind sparql", "sparql" in kinds),
        ("obonet", "ontologies in OBO (graph.files)", any(path.suffix == ".obo" for path in settings.graph.files)),
        ("pydicom nibabel tifffile Pillow pynrrd", "query --file", False),
        ("pypdfium2", "documents in PDF", False),
        ("selectolax trafilatura", "documents in HTML", False),
        ("ir-measures scipy", "retrieve eval", False),
        ("huggingface_hub", "models.auto_download", settings.models.auto_download),
    )
    for names, purpose, needed in table:
        yield from (((name,), purpose, bool(needed)) for name in names.split())
    for name in retriever_names():
        card = subject.manifest.recipe.retrievers.get(name, {}) if subject.manifest else {}
        section = getattr(settings, name, None)
        for package in registry.retriever(name).packages:
            chosen = (getattr(section, package.key, None), card.get(package.card_key or package.key))
            yield package.names, f"{name}.{package.key}: {package.value}", package.value in chosen


def sources(subject: Subject) -> Found:
    """Check that each source can be read and has not changed since the build; nothing is downloaded."""
    strange = strange_sources(subject.artifacts, subject.manifest) if subject.manifest else []
    if strange and not subject.settings.sources.list:
        return warn(f"you did not agree to read {', '.join(strange)}", subject.command("trust"))
    if not subject.entries:
        message = "neither the configuration nor the index names a source: sync has nothing to read"
        return warn(message, subject.build_from())
    gone = _digests(subject.manifest).keys() - {entry.name for entry in subject.entries}
    message, sync = "{} is in the index, and the configuration no longer lists it", subject.command("sync")
    return [
        *(_source(subject, entry) for entry in subject.entries),
        *(warn(message.format(name), sync) for name in gone),
    ]


def _source(subject: Subject, entry: SourceSetting) -> Finding:
    copy = subject.artifacts / "sources" / f"{entry.name}.jsonl"
    remote, sync = entry.path is None, subject.command("sync")
    try:
        source = subject.source(entry)
        if remote and not copy.is_file():
            return warn(f"{entry.name} was never downloaded: there is no {copy}", sync)
        age = f" ({copy}, {_age(copy)})" if remote else ""
        if subject.manifest is None:
            return ok(f"{entry.name} is not built yet{age}")
        before = _digests(subject.manifest).get(entry.name)
        if before is None:
            return warn(f"{entry.name} is not in the index yet{age}", sync)
        read = hashlib.sha1(usedforsecurity=False)
        for item in source.scan():
            read.update(trace(item))
    except UsageError as error:
        flag, place = ("--docs-dir", "DIR") if entry.kind == "docs" else ("--catalog", "FILE")
        fix = f"restore it, or build from its new place: {subject.command('build', flag, place)}"
        if subject.settings.sources.list:
            fix = f"correct `sources:` in the configuration ({error.hint})"
        return fail(f"{entry.name}: {error.message}", fix)
    if read.hexdigest() == before:
        return ok(f"{entry.name} is as built{age}")
    return warn(f"{entry.name} has changed since the build{age}", sync)


def _digests(manifest: Manifest | None) -> Mapping[str, str]:
    """Return the SHA-1 of each source at the build, by name; empty if the manifest does not have them."""
    with suppress(KeyError, TypeError):
        noted = manifest.built["sources"] if manifest else ()
        return {str(source["origin"]["name"]): str(source["digest"]) for source in noted}
    return {}


def _age(path: Path) -> str:
    hours = int(max(0.0, time.time() - path.stat().st_mtime) // 3600)
    if hours < 1:
        return "less than an hour old"
    return f"{some(hours, 'hour')} old" if hours < 48 else f"{hours // 24} days old"


def documents(subject: Subject) -> Finding | None:
    """Check that every format that is there can be read, by the parser that the index was built with."""
    reader, lacking = reader_of(subject.settings), Counter[str]()
    if kinds := {kind for kind in reader.formats if reader.lacks(kind)}:
        folders = [entry.path for entry in subject.entries if entry.kind == "docs" and entry.path is not None]
        follow = subject.settings.docs.follow_links
        names = (name for folder in folders for name in _names(folder, follow_links=follow))
        found = (reader.format_of(name, b"") or "" for name in islice(names, 100_000))
        lacking = Counter(kind for kind in found if kind in kinds)
    if lacking:
        counts = ", ".join(some(count, f"{kind} file") for kind, count in lacking.most_common())
        reasons = "; ".join(reader.lacks(kind).partition(":")[0] for kind, _ in lacking.most_common())
        return warn(f"skipped: {counts}; {reasons}", "pip install 'retrieve-cli[documents]'")
    cards = (subject.manifest.recipe.documents or {}) if subject.manifest else {}
    changes = []
    for kind, card in cards.items():
        if not reader.lacks(kind) and (now := reader.card(kind)) != card:
            before, after = card.get("parser"), now.get("parser")
            changes.append(
                f"{kind}: other rules or settings" if before == after else f"{kind} by {before}, now {after}"
            )
    if changes:
        message = f"the index was built with other parsers ({'; '.join(changes)})"
        return warn(f"{message}: sync reads the files of these formats again", subject.command("sync"))
    return ok(", ".join(f"{kind} by {card.get('parser')}" for kind, card in cards.items())) if cards else None


def _names(folder: Path, *, follow_links: bool) -> Iterator[str]:
    """Yield the names of the files in a folder that are not hidden."""
    for _, folders, names in os.walk(folder, followlinks=follow_links):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (name for name in names if not name.startswith("."))


def sandbox(_: Subject) -> Finding:
    """Check that this kernel has all rules for the processes that parse documents."""
    if lacks := sandbox_lacks():
        fix = "parse documents of strangers on Linux 6.2 or later, x86_64 or aarch64, with Landlock and seccomp"
        return warn(f"parsers of documents are less confined: {'; '.join(lacks)}", fix)
    return ok("parsers read no file of the user and reach no network and no other process")


def settings(subject: Subject) -> Finding:
    """Check that a sync with these settings would not change how the index is built."""
    if subject.manifest is None:
        return ok("skipped: there is no index to compare with")
    if subject.given is None:
        return ok("skipped: the configuration is invalid")

    @cached
    def columns() -> Columns:
        with open_generation(subject.store) as generation:
            return columns_of(generation)

    if differing := unapplied(subject.settings, subject.manifest.recipe, columns=columns):
        message = f"{summary(differing, subject.given)}, until a sync"
        return warn(message, subject.rebuild() or subject.build_from())
    return ok("the index is built as configured")


_THRESHOLDS = ("search.grade", "search.max_distance", "search.min_score", "rerank.min_score")


def thresholds(subject: Subject) -> Finding | None:
    """Check that the thresholds leave some results to queries that are names of records, which match well."""
    chosen = [key for key in _THRESHOLDS if attrgetter(key)(subject.settings) is not None]
    if subject.manifest is None or not chosen:
        return None
    free = {"search": {"require_tenant": False, "deadline_ms": None}, "gating": {"enabled": False}}
    opened = Opened.of(subject.store, override(subject.settings, free, where="doctor"))
    records = opened.generation.records
    rows = sorted({row * len(records) // 8 for row in range(8)}) if len(records) else []
    names = dict.fromkeys(str(records[row]["name"]).translate(_NO_TAGS).strip() for row in rows)
    # Servers cost time and money: only rerankers of this machine are run for it.
    rerank = None if subject.settings.rerank.backend in (*TOKEN_BACKENDS, "cross_encoder") else False
    searcher = Searcher(opened, opened.options(rerank=rerank, expand=False, k=1))
    answers = searcher.answer([Request(name) for name in names if name])
    counts = sum((Counter(answer.removed) for answer in answers), Counter[str]())
    removed = max(counts, key=counts.__getitem__, default=None)
    if removed is None or any(answer.results for answer in answers):
        return ok(f"{' and '.join(chosen)} leave results to queries of the index's own names")
    reason = next((notice for answer in answers for notice in answer.notices if removed in notice), removed)
    message = f"none of {len(answers)} queries, each the name of a record, has a result: {reason}"
    return warn(message, f"set {removed.partition(' ')[0]}: null in config.yaml")


_NO_TAGS = str.maketrans("[]", "  ")
