"""The ONNX export of each model: whether it has one, where it lies, and writing it now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.encoders.cross.cross_folder import CrossFolder
from retrieve_cli.encoders.cross.onnx_pairs import cross_export, why_not
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.exports import Export, ensure
from retrieve_cli.encoders.model_folder import Folder, ModelFolder
from retrieve_cli.encoders.onnx_encoder import dense_export
from retrieve_cli.encoders.splade.onnx_queries import masked_export
from retrieve_cli.encoders.splade.splade_folder import SpladeFolder, Static
from retrieve_cli.errors import Unavailable
from retrieve_cli.models.needs import find, wanted


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
        [folder] = model.transformers
        if folder.extras:
            return f"the model has modules of its own ({', '.join(folder.extras)}): torch runs it"
        return _unfit(folder) or dense_export(folder, cache, digests)
    except Unavailable as error:
        return f"{error.message} torch runs it"


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
