"""Checks of the artifacts folder: existence, integrity of the index, leftovers, writers and disk space."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError
from retrieve_cli.operations import views
from retrieve_cli.operations.doctor.subject import Check, Subject, shell, size, some
from retrieve_cli.storage import lock
from retrieve_cli.storage.beside import beside
from retrieve_cli.storage.generation import RECORDS, open_generation
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.vector_cache import VectorCache

_LEAST = 64 << 20
"""Bytes that a sync is assumed to need at least."""


def artifacts(subject: Subject) -> Check:
    """Check that the folder exists and can be read and written."""
    path, store = subject.artifacts, subject.store
    if not path.is_dir():
        return Check("artifacts", "fail", f"there is no folder {path}", subject.build() or subject.build_from())
    if not os.access(path, os.R_OK | os.X_OK):
        return Check("artifacts", "fail", f"{path} cannot be read", shell(["chmod", "u+rx"], [path]))
    parts = [path, store.generations, store.cache, store.fetched]
    locked = [part for part in parts if part.exists() and not os.access(part, os.W_OK | os.X_OK)]
    if locked:
        message = f"{', '.join(map(str, locked))} cannot be written: queries work, build and sync do not"
        return Check("artifacts", "warn", message, shell(["chmod", "u+rwx"], locked))
    return Check("artifacts", "ok", f"{path} can be read and written")


def index(subject: Subject) -> Check:
    """Check that every byte of the current generation is as written, and that it opens."""
    store = subject.store
    try:
        if (current := store.live()) and not (store.generations / current).is_dir():
            store.open()  # raises the error that names what is wrong with `current`
        report = views.verify(store, subject.settings)
    except IndexMissing as error:
        return Check("index", "fail", error.message, subject.build() or subject.build_from())
    except IndexCorrupt as error:
        return _damaged(subject, error.message, subject.sync() or subject.build())
    parts = {"generation", *(subject.manifest.files if subject.manifest else ())}
    faults = {name: fault for name, fault in report["faults"].items() if name in parts}
    if not faults:
        entry = subject.manifest.files.get(RECORDS) if subject.manifest else None
        records = (entry.rows or 0) if entry else 0
        return Check("index", "ok", f"generation {report['generation']} is intact ({some(records, 'record')})")
    # If every byte is as written and the parts still disagree, a sync would find nothing to do.
    fix = subject.build() if faults.keys() == {"generation"} else subject.sync() or subject.build()
    return _damaged(subject, "; ".join(faults.values()), fix)


def own(name: str, subject: Subject) -> Check | None:
    """Check that files beside the generations are unchanged since they were written; None without such files."""
    own = beside(subject.store.path) if subject.artifacts.is_dir() else {}
    first, *more = [path for path in own if path.startswith(name)] or [""]
    for path in filter(None, (first, *more)):
        try:
            own[path]()
        except (RetrieveError, OSError) as error:
            fix = subject.command("inbox", "repair") if path.endswith("documents.jsonl") else getattr(error, "hint", "")
            return Check(name, "fail", str(error), fix)
    files = f"; so {'is' if len(more) == 1 else 'are'} {some(len(more), 'file')} that came as documents" if more else ""
    return Check(name, "ok", f"{first} is unchanged{files}") if first else None


def _damaged(subject: Subject, message: str, fix: str) -> Check:
    sound = _sound_one(subject)
    back = subject.command("sync", "--rollback", sound) if sound else ""
    if back and fix:
        message += f"; generation {sound} is intact: {back}"
    return Check("index", "fail", message, fix or back or subject.build_from())


def _sound_one(subject: Subject) -> str:
    """Return the newest intact generation other than the current one; empty if no other one is intact."""
    for kept in reversed(subject.store.kept()):
        try:
            if not kept.live and not subject.store.verify(kept.manifest.id)[1]:
                return kept.manifest.id
        except RetrieveError:
            continue  # removed in the meantime
    return ""


def generations(subject: Subject) -> Check:
    """List stored generations and leftovers: damaged folders that were set aside, scratch folders of dead writers."""
    store = subject.store
    kept = store.kept()
    folders = sorted(path for path in store.generations.glob("*") if path.is_dir())
    scratch = [path for path in folders if path.name.startswith(".scratch-")]
    damaged = _of_no_use(subject, folders)
    message = f"{len(kept)} kept, {size(sum(generation.bytes for generation in kept))}"
    if scratch:
        writing = lock.is_held(store.lock)
        message += f"; {some(len(scratch), 'scratch folder')} of " + (
            "the active writer" if writing else "a writer that died; the next sync removes them"
        )
        if not writing and not damaged:
            return Check("generations", "warn", message, subject.command("sync"))
    if damaged:
        taken = size(sum(_bytes(path) for path in damaged))
        message += f"; {some(len(damaged), 'damaged generation')} that can be deleted, {taken}"
        return Check("generations", "warn", message, shell(["rm", "-r"], damaged))
    return Check("generations", "ok", message)


def _of_no_use(subject: Subject, folders: list[Path]) -> list[Path]:
    """Return folders set aside as damaged, and generations, except the current one, whose manifest cannot be read."""
    readable = {kept.manifest.id for kept in subject.store.kept()}
    needed = {*readable, subject.store.live()}
    return [path for path in folders if not path.name.startswith(".") and path.name not in needed]


def who_writes(subject: Subject) -> Check:
    """Report whether a process is writing here, and which one."""
    file = subject.store.lock
    if lock.is_held(file):
        return Check("lock", "ok", f"a writer is active{lock.holder(file)}")
    if left := lock.holder(file):
        return Check("lock", "ok", f"free: its last holder is gone{left}")
    return Check("lock", "ok", "free: there is no writer")


def disk(subject: Subject) -> Check:
    """Check the disk space for a sync: it writes a new generation beside the current one, and vectors to the cache."""
    path = subject.artifacts.absolute()
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free
    current = subject.store.live()
    if current is None:
        return Check("disk", "ok", f"{size(free)} free")
    folder = subject.store.generations / current
    taken, wanted = _bytes(folder), max(2 * _bytes(folder), _LEAST)
    message = f"{size(free)} free; the current generation takes {size(taken)}"
    if free >= wanted:
        return Check("disk", "ok", message)
    aside = _of_no_use(subject, sorted(subject.store.generations.glob("*")))
    fix = shell(["rm", "-r"], aside) if aside else "free disk space: " + shell(["df", "-h"], [path])
    return Check("disk", "fail" if free < taken else "warn", f"{message}, and a sync needs {size(wanted)}", fix)


def cache(subject: Subject) -> Check:
    """Report the size of the vector cache, and check that it has the vectors of the current index."""
    folder = subject.store.cache
    files = [path for path in folder.rglob("*") if path.is_file()]
    message = f"{some(len(files), 'file')}, {size(sum(path.stat().st_size for path in files))}"
    if subject.manifest is None or not files:
        return Check("cache", "ok", message)
    try:
        with open_generation(subject.store) as generation:
            texts = generation.texts
        if subject.manifest.recipe.encoder is None:
            return Check("cache", "ok", f"{message}; the index has no vectors")
        vectors = VectorCache(folder, subject.manifest.recipe.encoder_card, say=lambda _: None)
        lacking = len(vectors.lacks(as_keys(texts)))
    except RetrieveError:
        return Check("cache", "ok", f"{message}; without an intact index it is not known which vectors are needed")
    if lacking:
        missing = f"{lacking} of {some(len(texts), 'vector')} of the current index cannot be read there"
        return Check("cache", "ok", f"{message}; {missing}: sync takes them from the index, build computes them again")
    return Check("cache", "ok", f"{message}; every vector of the current index can be read")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
