"""The head of SPLADE models in the reader of model folders: how passages are encoded, and how queries are.

Three layouts: a plain transformers folder of a masked language model; a sentence-transformers folder with a
SpladePooling; one with a Router, whose queries may need no model at all (inference-free: Geng et al. 2024,
https://arxiv.org/abs/2411.04403).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes import model_folder
from retrieve_cli.models.runtimes.model_folder import ModelFolder, Module, broken, read_folder, read_object
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.storage.manifest import sha1

Pooling = Literal["max", "sum"]
Activation = Literal["relu", "log1p_relu"]

_ROUTERS = {"Router", "Asym"}
TRANSFORMERS = {"Transformer", "MLMTransformer"}
_STATIC = {"SparseStaticEmbedding", "IDF"}
_TOKEN_WEIGHTS = ("idf.json", "query_token_weights.txt")
"""Files beside an inference-free model that is not a sentence-transformers folder."""


class Masked(Frozen):
    """The way through a masked language model: its logits, made positive and flat, then pooled over the tokens."""

    folder: ModelFolder
    pooling: Pooling
    activation: Activation
    """relu: log(1 + relu(logit)); log1p_relu takes the logarithm once more."""

    @property
    def vocabulary(self) -> int:
        """Number of vocabulary entries that a text may be given weights for."""
        return int(self.folder.config["vocab_size"])

    def revision(self, digests: Digests) -> str:
        """SHA-1 over the weights and the settings that change what comes out."""
        settings = {"pooling": self.pooling, "activation": self.activation}
        return sha1({"model": self.folder.revision(digests), **settings})


class StaticWeights(Frozen):
    """The way without a model: each token of a text has its weight in a file."""

    tokenizer: Path
    weights: Path
    """A safetensors file with the tensor `weight`, a JSON object by token, or lines of token and weight."""
    max_tokens: int

    def revision(self, digests: Digests) -> str:
        """SHA-1 over the weights and the tokenizer."""
        return sha1({path.name: digests.sha1(path) for path in (self.tokenizer, self.weights)})


class SpladeFolder(Frozen):
    """A SPLADE model on disk, read but not loaded."""

    path: Path
    name: str
    document: Masked
    query: Masked | StaticWeights
    """The same object as `document` if queries are encoded as passages are."""
    top_terms: int | None
    """Number of terms that the model itself keeps of a text (sentence-transformers' `max_active_dims`)."""
    query_prompt: str
    passage_prompt: str

    @property
    def transformers(self) -> tuple[ModelFolder, ...]:
        ways = [self.document] if self.query is self.document else [self.document, self.query]
        return tuple(way.folder for way in ways if isinstance(way, Masked))

    @property
    def kind(self) -> Literal["symmetric", "asymmetric", "inference-free"]:
        """Form of query encoding: as a passage, by a separate model, or without a model."""
        if isinstance(self.query, StaticWeights):
            return "inference-free"
        return "symmetric" if self.query is self.document else "asymmetric"

    def revision(self, digests: Digests) -> str:
        """SHA-1 over all files that decide a weight."""
        parts = {"document": self.document.revision(digests)}
        if self.query is not self.document:
            parts["query"] = self.query.revision(digests)
        return sha1(parts)


def read_splade(path: Path, *, name: str = "") -> SpladeFolder:
    """Read the folder of a SPLADE model.

    Raises:
        UsageError: it is not the folder of a SPLADE model; the message names the missing or broken file.
    """
    modules = model_folder.modules_of(path, pooling="SpladePooling")
    passages, queries = _routes(modules) if (path / "modules.json").is_file() else (modules, _plain(path) or modules)
    document = _route(passages, path)
    if isinstance(document, StaticWeights):
        raise _no_splade(path, "its passages do not pass a masked language model")
    query = document if queries == passages else _route(queries, path, limit=document.folder.max_tokens)
    settings = read_object(path / model_folder.SETTINGS)
    prompts = settings.get("prompts") or {}
    return SpladeFolder(
        path=path,
        name=name or path.resolve().name,
        document=document,
        query=query,
        top_terms=settings.get("max_active_dims"),
        query_prompt=prompts.get("query") or "",
        passage_prompt=prompts.get("document") or "",
    )


def _plain(path: Path) -> list[Module]:
    """The modules of queries in a transformers folder that has token weights for them; else none."""
    names = read_object(path / "config.json").get("architectures") or []
    if (path / "config.json").is_file() and not any(str(name).endswith("ForMaskedLM") for name in names):
        raise _no_splade(path, f"its architecture is {', '.join(names) or 'not named'}, not one ForMaskedLM")
    static = any((path / file).is_file() for file in _TOKEN_WEIGHTS)
    return [Module("SparseStaticEmbedding", path)] if static else []


def _routes(modules: Sequence[Module]) -> tuple[Sequence[Module], Sequence[Module]]:
    """The modules of passages and of queries in a sentence-transformers folder."""
    if modules[0].name not in _ROUTERS:
        return modules, modules
    router = modules[0].path
    config = read_object(router / "router_config.json") or read_object(router / "config.json")
    try:
        kinds = {key: str(kind).rsplit(".", 1)[-1] for key, kind in config["types"].items()}
        passages, queries = (
            [Module(kinds[key], router / key) for key in config["structure"][_routed(config, task)]]
            for task in ("document", "query")
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise broken(router / "router_config.json", f"does not name routes ({quoted(error)})") from error
    return [*passages, *modules[1:]], [*queries, *modules[1:]]


def _routed(config: Mapping[str, Json], task: str) -> str:
    """The route of a task's texts, in the order in which the Router itself looks for it."""
    parameters = config.get("parameters") or {}
    mappings = parameters.get("route_mappings") or {}
    for key in ((task, "text"), (task, None), (None, "text"), (None, None)):
        if str(key) in mappings:
            return str(mappings[str(key)])
    return next((key for key in (task, "text") if key in config["structure"]), str(parameters.get("default_route")))


def _route(modules: Sequence[Module], path: Path, *, limit: int = 512) -> Masked | StaticWeights:
    names = [module.name for module in modules]
    if len(names) == 1 and names[0] in _STATIC:
        return _static(modules[0].path, limit=limit)
    if len(names) != 2 or names[0] not in TRANSFORMERS or names[1] != "SpladePooling":
        raise _no_splade(path, f"its modules are {', '.join(names)}")
    pooling = read_object(modules[1].path / "config.json")
    folder = read_folder(modules[0].path)
    if "vocab_size" not in folder.config:
        raise broken(folder.path / "config.json", "does not name a vocab_size")
    chosen, activation = pooling.get("pooling_strategy", "max"), pooling.get("activation_function", "relu")
    if chosen not in ("max", "sum") or activation not in ("relu", "log1p_relu"):
        raise _no_splade(path, f"it pools by {chosen} after {activation}")
    return Masked(folder, chosen, activation)


def _static(path: Path, *, limit: int) -> StaticWeights:
    config = read_object(path / "config.json")
    # Beside a separate model, model.safetensors belongs to that model.
    own = () if "architectures" in config else (config.get("path") or "model.safetensors",)
    names = (*own, *_TOKEN_WEIGHTS)
    weights = next((path / name for name in names if (path / name).is_file()), None)
    if weights is None:
        raise broken(path, f"does not hold weights of tokens ({' or '.join(names)})")
    return StaticWeights(path / "tokenizer.json", weights, model_folder.tokenizer_limit(path) or limit)


def _no_splade(path: Path, why: str) -> UsageError:
    message = f"{path} is not a SPLADE model: {why}."
    return UsageError(message, hint="name a masked language model trained for SPLADE, such as naver/splade-v3")
