"""Models that the configured stages need: how their folders are read, and their ONNX exports."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.assemble.registry import asked_with
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.encoders.onnx_encoder import dense_export
from retrieve_cli.models.encoders.splade_folder import SpladeFolder, Static, read_splade
from retrieve_cli.models.encoders.splade_queries import masked_export
from retrieve_cli.models.rerankers.cross_folder import CrossFolder, read_cross_folder
from retrieve_cli.models.rerankers.onnx_pairs import cross_export, why_not
from retrieve_cli.models.runtimes.digests import Digests
from retrieve_cli.models.runtimes.exports import Export, ensure
from retrieve_cli.models.runtimes.locate import locate
from retrieve_cli.models.runtimes.model_folder import ModelFolder, read_folder
from retrieve_cli.retrieval.retrievers.retriever import TERMS

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
            if isinstance(route, Static):
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
