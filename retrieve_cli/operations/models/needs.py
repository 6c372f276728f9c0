"""Models that the configured stages need: how their folders are read, and their ONNX exports.

Models on this machine: place, size, licence and revision of each model that is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.assemble.llm import model_servers
from retrieve_cli.assemble.registry import asked_with
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.encoders.onnx_encoder import dense_export
from retrieve_cli.models.encoders.splade_folder import SpladeFolder, StaticWeights, read_splade
from retrieve_cli.models.encoders.splade_queries import masked_export
from retrieve_cli.models.rerankers.cross_folder import CrossFolder, read_cross_folder
from retrieve_cli.models.rerankers.pairs import cross_export, why_not
from retrieve_cli.models.runtimes.exports import Export, ensure
from retrieve_cli.models.runtimes.locate import locate
from retrieve_cli.models.runtimes.model_folder import ModelFolder, read_folder
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.retrieval.retrievers.retriever import TERMS
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.front_matter import front_matter
from retrieve_cli.untrusted.texts import user_text

_FROM_FOLDERS = ("auto", "onnx", "openvino", "torch", "remote")
Folder = ModelFolder | CrossFolder | SpladeFolder


class ModelNeed(Frozen):
    """A model, and the stage that is configured with it; no stage where a user named any model of the hub."""

    stage: str
    model: str


def needs(settings: Settings) -> list[ModelNeed]:
    """The models of the stages that are configured, in the order of their work.

    Raises:
        UsageError: a stage needs a model, and none is named.
    """
    needed = []
    if settings.dense.enabled and settings.encoder.kind in _FROM_FOLDERS:
        needed.append(ModelNeed("encoder", settings.encoder.model))
    sections = {name: getattr(settings, name) for name in asked_with(TERMS)}
    needed += [ModelNeed(name, section.model) for name, section in sections.items() if section.model]
    if settings.rerank.backend == "cross_encoder":
        if settings.rerank.model is None:
            hint = "name it: rerank.model"
            raise UsageError("rerank.backend cross_encoder needs a model, and none is named", hint=hint)
        needed.append(ModelNeed("rerank", settings.rerank.model))
    return needed


def wanted(settings: Settings, name: str | None) -> list[ModelNeed]:
    """Return the models of all stages, of one stage, or one model by name.

    Raises:
        UsageError: no stage is configured with that model, or a stage needs a model and none is named.
    """
    needed = needs(settings)
    if name is None:
        return needed
    chosen = [need for need in needed if name in (need.stage, need.model)]
    if not chosen:
        names = ", ".join(f"{need.stage} ({need.model})" for need in needed) or "none: no stage needs a model"
        raise UsageError(f"no configured stage or model is named {name}", hint=f"configured: {names}")
    return chosen


def find(need: ModelNeed, settings: Settings) -> Folder:
    """Return the model on this machine; the network is never used.

    Raises:
        Unavailable: it is not on this machine.
        UsageError: its folder does not hold a model for this stage.
    """
    place = locate(need.model, settings.models.dir)
    return read(need.stage, place.path, name=place.name)


def read(stage: str, path: Path, *, name: str = "") -> Folder:
    """Read the folder of a model for a stage; of any kind if there is no stage.

    Raises:
        UsageError: the folder does not hold such a model.
    """
    if stage == "rerank":
        return read_cross_folder(path, name=name)
    if stage in asked_with(TERMS):
        return read_splade(path, name=name)
    try:
        return read_folder(path, name=name)
    except UsageError:
        if not stage:
            with suppress(UsageError):  # where queries and passages part, config.json lies below
                return read_splade(path, name=name)
        raise


def export_of(model: Folder, cache: Path, digests: Digests) -> Export | str:
    """The export of a model of any kind, or why it has none."""
    try:
        if isinstance(model, CrossFolder):
            reason = why_not(model)
            return f"{reason}: torch runs it" if reason else cross_export(model, cache, digests)
        if isinstance(model, SpladeFolder):
            route = model.query
            if isinstance(route, StaticWeights):
                return "its queries are looked up and do not need a model"
            return _unfit(route.folder) or masked_export(route, cache, digests, name=model.name)
        if model.extras:
            return f"the model has extra modules ({', '.join(model.extras)}): torch runs it"
        return _unfit(model) or dense_export(model, cache, digests)
    except Unavailable as error:
        return f"{error.message} torch runs it"


def _unfit(folder: ModelFolder) -> str:
    if folder.weights[0].suffix != ".safetensors":
        return "the model has no safetensors file: torch runs it"
    if not (folder.transformer / "tokenizer.json").is_file():
        return "the model has no tokenizer.json: torch runs it"
    return ""


def export(settings: Settings, name: str | None, *, say: Callable[[str], None]) -> list[dict[str, Json]]:
    """Write the export of each model that has one; report a reason for every other model.

    Raises:
        Unavailable: a model is not on this machine, or the model cache cannot be written.
        UsageError: a model's folder is broken, or no stage has that name.
    """
    cache = cache_dir(settings)
    done = []
    for need, model in [(need, find(need, settings)) for need in wanted(settings, name)]:
        place = export_of(model, cache, Digests(cache))
        reason = place if isinstance(place, str) else None
        entry: dict[str, Json] = {"stage": need.stage, "model": model.name, "action": "not_exported"}
        entry |= {"path": None, "bytes": None, "seconds": None, "reason": reason}
        if isinstance(place, Export):
            kept = place.state(Digests(cache)) == "sound"
            say(f"exporting {model.name}" if not kept else f"{model.name} is exported already")
            start = time.perf_counter()
            ensure(place)
            seconds = round(time.perf_counter() - start, 3)
            size = sum(file.stat().st_size for file in place.path.iterdir())
            entry |= {"action": "kept" if kept else "exported", "path": str(place.path), "bytes": size}
            entry["seconds"] = 0.0 if kept else seconds
        done.append(entry)
    return done


UNKNOWN = "unknown"
_FRONT = 65536
"""Bytes of a README in which its front matter must end."""


def listing(settings: Settings) -> dict[str, Json]:
    """Return every model that is needed, and whether it is here."""
    folder = settings.models.dir
    return {
        "schema_version": 1,
        "models": [_entry(need, settings) for need in needs(settings)],
        "servers": [
            {
                "stage": server.stage,
                "model": server.model,
                "base_url": server.address,
                "api_key_env": server.api_key_env,
                "hint": f"export {server.api_key_env}=..." if server.lacks_key else None,
            }
            for server in model_servers(settings)
        ],
        "models_dir": None if folder is None else str(folder),
        "cache_dir": str(cache_dir(settings)),
    }


def _entry(need: ModelNeed, settings: Settings) -> dict[str, Json]:
    entry: dict[str, Json] = {"stage": need.stage, "model": need.model, "state": "here", "problem": None, "hint": None}
    nothing = {"path": None, "bytes": None, "license": None, "revision": None, "export": None}
    try:
        model = find(need, settings)
        return {**entry, **described(model, Digests(cache_dir(settings))), "export": _export(model, settings)}
    except Unavailable as error:
        return {**entry, **nothing, "state": "missing", "problem": error.message, "hint": pull_hint(need)}
    except (UsageError, OSError) as error:
        hint = error.hint if isinstance(error, UsageError) else "fix its permissions, or fetch it again"
        return {**entry, **nothing, "state": "unreadable", "problem": str(error), "hint": hint}


def described(model: Folder, digests: Digests) -> dict[str, Json]:
    """Return the place of a model, its size, licence and revision."""
    return {
        "path": str(model.path),
        "bytes": size(model.path),
        "license": licence(model.path),
        "revision": model.revision(digests),
    }


def pull_hint(need: ModelNeed) -> str:
    """The command that brings a model here."""
    return f"retrieve models pull {need.stage or need.model}"


def _export(model: Folder, settings: Settings) -> dict[str, Json]:
    export = export_of(model, cache_dir(settings), Digests(cache_dir(settings)))
    if isinstance(export, str):
        return {"path": None, "why_not": export}
    return {"path": str(export.path) if export.path.is_dir() else None, "why_not": None}


def size(path: Path) -> int:
    """Bytes of all files of a folder; what a link leads to counts."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def licence(path: Path) -> str:
    """Return the licence in the front matter of README.md, else the first line of a LICENSE file, else "unknown"."""
    stated = _front_matter(path / "README.md").get("license")
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    if names := [str(name) for name in names if name]:
        return ", ".join(names)
    for file in sorted(path.glob("LICEN[SC]E*")):
        text = _beginning(file)
        if line := next((line.strip() for line in text.splitlines() if line.strip()), ""):
            return line[:80]
    return UNKNOWN


def _beginning(path: Path) -> str:
    try:
        with files.open_regular(path) as file:
            decoded = user_text(file.read(_FRONT))
            return "" if decoded is None else decoded[0]
    except OSError:
        return ""


def _front_matter(path: Path) -> dict[str, Json]:
    return front_matter(_beginning(path))[0]
