"""The ONNX export of a model: its place in the model cache, its soundness, and how it is written now."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.encoders.bert import Architecture
from retrieve_cli.encoders.cache import export_folder, sound
from retrieve_cli.encoders.cross import export as cross_export
from retrieve_cli.encoders.cross.cross_folder import CrossFolder
from retrieve_cli.encoders.cross.onnx import why_not
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.model_folder import ModelFolder
from retrieve_cli.encoders.onnx import open_exported
from retrieve_cli.encoders.splade import onnx as splade_onnx
from retrieve_cli.encoders.splade.head import masked_architecture
from retrieve_cli.encoders.splade.splade_folder import SpladeFolder, Static
from retrieve_cli.errors import Unavailable
from retrieve_cli.models.needs import Found, find, wanted
from retrieve_cli.storage.manifest import sha1


@dataclass(frozen=True, slots=True)
class Export:
    """Where a model's export is or will be; or why it has none, and then there is neither place nor revision."""

    path: Path | None = None
    revision: str = ""
    why_not: str = ""
    write: Callable[[], object] | None = None
    """Writes it now, unless a sound one is there."""

    def state(self, digests: Digests) -> str:
        """What there is of it: sound, damaged or none."""
        if self.path is None or not self.path.exists():
            return "none"
        return "sound" if sound(self.path, self.revision, digests) else "damaged"


def export_of(found: Found, cache: Path, digests: Digests) -> Export:
    """The export of a model of any kind."""
    if isinstance(found.folder, CrossFolder):
        return _cross(found.folder, cache, digests)
    if isinstance(found.folder, SpladeFolder):
        return _splade(found.folder, cache, digests)
    return _dense(found.folder, cache, digests)


def _dense(folder: ModelFolder, cache: Path, digests: Digests) -> Export:
    if folder.extras:
        return Export(why_not=f"the model has modules of its own ({', '.join(folder.extras)}): torch runs it")
    if reason := _unfit(folder):
        return Export(why_not=reason)
    try:
        Architecture.read(folder.config)
    except Unavailable as error:
        return Export(why_not=f"{error.message} torch runs it")
    revision = folder.revision(digests)
    path = export_folder(cache, folder.name, revision)
    return Export(path, revision, write=lambda: open_exported(folder, cache))


def _cross(folder: CrossFolder, cache: Path, digests: Digests) -> Export:
    if reason := why_not(folder):
        return Export(why_not=f"{reason}: torch runs it")
    revision = sha1({"revision": folder.revision(digests), "layout": cross_export.LAYOUT})
    path = export_folder(cache, f"{folder.name}-cross", revision)
    return Export(path, revision, write=lambda: cross_export.open_cross(folder, cache))


def _splade(folder: SpladeFolder, cache: Path, digests: Digests) -> Export:
    route = folder.query
    if isinstance(route, Static):
        return Export(why_not="its queries are looked up and need no model")
    if reason := _unfit(route.folder):
        return Export(why_not=reason)
    try:
        architecture = masked_architecture(route.folder.config)
    except Unavailable as error:
        return Export(why_not=f"{error.message} torch runs it")
    layout = splade_onnx.LAYOUT
    revision = sha1({"model": route.folder.revision(digests), "head": "masked", "layout": layout})
    path = export_folder(cache, folder.name, revision)
    return Export(
        path,
        revision,
        write=lambda: splade_onnx.open_export(route, architecture, name=folder.name, cache_dir=cache),
    )


def _unfit(folder: ModelFolder) -> str:
    if folder.weights[0].suffix != ".safetensors":
        return "the model has no safetensors file: torch runs it"
    if not (folder.transformer / "tokenizer.json").is_file():
        return "the model has no tokenizer.json: torch runs it"
    return ""


def export(settings: Settings, name: str | None, *, say: Callable[[str], None]) -> list[dict[str, Json]]:
    """Writes the export of each model that has one; those that have none say why.

    Raises:
        Unavailable: a model is not on this machine, or the model cache cannot be written.
        UsageError: a model's folder is broken, or no stage has that name.
    """
    cache = cache_dir(settings)
    done = []
    for need, found in [(need, find(need, settings)) for need in wanted(settings, name)]:
        place = export_of(found, cache, Digests(cache))
        entry: dict[str, Json] = {"stage": need.stage, "model": found.name, "action": "not_exported"}
        entry |= {"path": None, "bytes": None, "seconds": None, "reason": place.why_not or None}
        if place.path is not None and place.write is not None:
            kept = place.state(Digests(cache)) == "sound"
            say(f"exporting {found.name}" if not kept else f"{found.name} is exported already")
            start = time.perf_counter()
            place.write()
            seconds = round(time.perf_counter() - start, 3)
            size = sum(file.stat().st_size for file in place.path.iterdir())
            entry |= {"action": "kept" if kept else "exported", "path": str(place.path), "bytes": size}
            entry["seconds"] = 0.0 if kept else seconds
        done.append(entry)
    return done
