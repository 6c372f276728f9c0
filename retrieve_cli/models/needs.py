"""Models that the configured stages need, and how their folders are read."""

from __future__ import annotations

from pathlib import Path

from retrieve_cli.assemble.registry import asked_with
from retrieve_cli.config.settings import Settings
from retrieve_cli.encoders.cross.cross_folder import CrossFolder, read_cross_folder
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.locate import locate
from retrieve_cli.encoders.model_folder import ModelFolder, read_folder
from retrieve_cli.encoders.splade.splade_folder import Masked, SpladeFolder, Static, read_splade
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrievers.retriever import TERMS

Folder = ModelFolder | CrossFolder | SpladeFolder


class Need(Frozen):
    """A model, and the stage that is configured with it; no stage where a user named any model of the hub."""

    stage: str
    model: str


class Found(Frozen):
    """A model on this machine, read but not loaded."""

    folder: Folder

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def transformers(self) -> tuple[ModelFolder, ...]:
        """Each transformer in it, with its weights and its tokenizer."""
        if isinstance(self.folder, ModelFolder):
            return (self.folder,)
        if isinstance(self.folder, CrossFolder):
            return (self.folder.model,)
        document, query = self.folder.document, self.folder.query
        ways = [document] if query is document else [document, query]
        return tuple(way.folder for way in ways if isinstance(way, Masked))

    @property
    def static(self) -> Static | None:
        """The weights of a query's own tokens, where they stand for a model."""
        query = self.folder.query if isinstance(self.folder, SpladeFolder) else None
        return query if isinstance(query, Static) else None

    def revision(self, digests: Digests) -> str:
        """SHA-1 over the weights and the settings that change what comes out, as the index's recipe has it."""
        return self.folder.revision(digests)


_FROM_FOLDERS = ("auto", "onnx", "openvino", "torch", "remote")


def needs(settings: Settings) -> list[Need]:
    """The models of the stages that are configured, in the order of their work.

    Raises:
        UsageError: a stage needs a model, and none is named.
    """
    needed = []
    if settings.dense.enabled and settings.encoder.kind in _FROM_FOLDERS:
        needed.append(Need("encoder", settings.encoder.model))
    sections = {name: getattr(settings, name) for name in asked_with(TERMS)}
    needed += [Need(name, section.model) for name, section in sections.items() if section.model]
    if settings.rerank.backend == "cross_encoder":
        if settings.rerank.model is None:
            hint = "name it: rerank.model"
            raise UsageError("rerank.backend cross_encoder needs a model, and none is named", hint=hint)
        needed.append(Need("rerank", settings.rerank.model))
    return needed


def wanted(settings: Settings, name: str | None) -> list[Need]:
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


def find(need: Need, settings: Settings) -> Found:
    """Return the model on this machine; the network is never used.

    Raises:
        Unavailable: it is not on this machine.
        UsageError: its folder is not that of a model for this stage.
    """
    place = locate(need.model, settings.models.dir)
    return read(need.stage, place.path, name=place.name)


def read(stage: str, path: Path, *, name: str = "") -> Found:
    """Read the folder of a model for a stage; of any kind if there is no stage.

    Raises:
        UsageError: it is no such folder.
    """
    if stage == "rerank":
        return Found(read_cross_folder(path, name=name))
    if stage in asked_with(TERMS):
        return Found(read_splade(path, name=name))
    try:
        return Found(read_folder(path, name=name))
    except UsageError as error:
        if stage:
            raise
        try:
            return Found(read_splade(path, name=name))  # where queries and passages part, config.json lies below
        except UsageError:
            raise error from None
