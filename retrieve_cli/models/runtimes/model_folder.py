"""The reader of model folders, with the head of dense encoders: pooling, normalisation, limits, prompts, weights.

The other heads are `rerankers/cross_folder.py` and `encoders/splade_folder.py`.

Prefixes of queries and passages by the name of a model's family, from the model cards.

The model's own files take precedence; a server's model has only its name. Sources: the model cards of
Qwen/Qwen3-Embedding-8B, BAAI/bge-large-en-v1.5, BAAI/bge-large-zh-v1.5, BAAI/bge-m3, intfloat/e5-large-v2 and
intfloat/multilingual-e5-large-instruct on huggingface.co.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from retrieve_cli.contracts import Json, ModelCard
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted import files

Pooling = Literal["mean", "cls", "max", "lasttoken", "none"]
Precision = Literal["float32", "float16", "bfloat16"]

_TRANSFORMER_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_POOLING_KEYS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_mean_sqrt_len_tokens": "none",
    "pooling_mode_weightedmean_tokens": "none",
}
_POOLING_NAMES: dict[str, Pooling] = {"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "lasttoken"}
_UNLIMITED = 1_000_000
"""Limit from which on a tokenizer has no limit: it then gives 1e30."""
_DEFAULT_LIMIT = 512
SETTINGS = "config_sentence_transformers.json"
"""File in which sentence-transformers keeps what belongs to a whole model, such as its prompts."""


class Module(Frozen):
    """One step of a sentence-transformers model: its class name ("Pooling") and where its files lie."""

    name: str
    path: Path


class ModelFolder(Frozen):
    """A model on disk, read but not loaded."""

    path: Path
    name: str
    config: Mapping[str, Json]
    """The transformer's config.json."""
    modules: tuple[Module, ...]
    weights: tuple[Path, ...]
    dim: int
    max_tokens: int
    """Longest input in tokens, special tokens included."""
    pooling: Pooling
    """"none" if the model pools in a custom way."""
    normalize: bool
    lowercase: bool
    """The text is lowercased before the tokenizer sees it."""
    settings: Mapping[str, Json]
    """Its `SETTINGS`; empty without such a file."""
    query_prefix: str | None = None
    passage_prefix: str | None = None
    """None: what the model wants."""

    @property
    def prompts(self) -> Prefixes:
        """Prefixes that it wants, by its own files or its family."""

        return of_model(self.settings.get("prompts"), self.name)

    @property
    def transformers(self) -> tuple[ModelFolder, ...]:
        """Each transformer in the folder, with its weights and its tokenizer; other heads may have none, or two."""
        return (self,)

    @property
    def architecture(self) -> str:
        """Its first class in transformers, such as "BertForMaskedLM"; empty if config.json does not name one."""
        return str(next(iter(self.config.get("architectures") or []), ""))

    @property
    def transformer(self) -> Path:
        """Folder of the tokenizer, config.json and the weights."""
        return self.modules[0].path

    @property
    def extras(self) -> tuple[str, ...]:
        """Modules other than the transformer, a pooling that `pooling` names, and a normalisation at the end."""
        plain = {1: "Pooling", 2: "Normalize"}
        return tuple(
            module.name
            for place, module in enumerate(self.modules)
            if place > 0 and (plain.get(place) != module.name or (place == 1 and self.pooling == "none"))
        )

    def revision(self, digests: Digests) -> str:
        """SHA-1 over the weights and the settings that change a vector; prompts and limits are in the card."""
        settings = [self.transformer / name for name in ("config.json", "tokenizer.json", "vocab.txt")]
        settings += [module.path / "config.json" for module in self.modules[1:]]
        files = [*(path for path in settings if path.is_file()), *self.weights]
        return sha1({path.relative_to(self.path).as_posix(): digests.sha1(path) for path in files})

    def card(self, digests: Digests, *, precision: Precision = "float32") -> ModelCard:
        """The card of this model."""
        return ModelCard(
            family="transformer",
            name=self.name,
            revision=self.revision(digests),
            dim=self.dim,
            max_tokens=self.max_tokens,
            query_prefix=self.prompts.query if self.query_prefix is None else self.query_prefix,
            passage_prefix=self.prompts.passage if self.passage_prefix is None else self.passage_prefix,
            pooling=self.pooling,
            normalize=self.normalize,
            precision=precision,
        )


def read_folder(
    path: Path, *, name: str = "", query_prefix: str | None = None, passage_prefix: str | None = None
) -> ModelFolder:
    """Read a sentence-transformers folder, or a plain transformers folder (mean pooling, like other libraries).

    Raises:
        UsageError: it is not the folder of a model; the message names the missing or broken file.
    """
    modules = modules_of(path)
    transformer = modules[0].path
    if not (file := transformer / "config.json").is_file():
        hint = "name a sentence-transformers folder: one with modules.json, config.json and model.safetensors"
        raise UsageError(f"{path} is not a model folder: {file.relative_to(path)} is missing.", hint=hint)
    config = read_object(file)
    limits = next(filter(None, (read_object(transformer / file) for file in _TRANSFORMER_CONFIGS)), {})
    return ModelFolder(
        path=path,
        name=name or path.resolve().name,
        config=config,
        modules=modules,
        weights=_weights(transformer),
        dim=_dim(modules, config),
        max_tokens=_max_tokens(transformer, config, limits),
        pooling=_pooling(modules),
        normalize=modules[-1].name == "Normalize",
        lowercase=bool(limits.get("do_lower_case", False)),
        settings=read_object(path / SETTINGS),
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
    )


def is_model(path: Path) -> bool:
    """Return True if a folder holds a model with its weights (a partial download does not)."""
    return any((path / file).is_file() for file in ("modules.json", "config.json")) and any(
        file.suffix in {".safetensors", ".bin"} for file in path.rglob("*")
    )


def modules_of(path: Path, *, pooling: str = "Pooling") -> tuple[Module, ...]:
    """The modules of a model, one or more; `pooling` follows the transformer in a plain transformers folder.

    Raises:
        UsageError: it is not a folder, or its modules.json does not list them.
    """
    if not path.is_dir():
        raise UsageError(f"The model folder {path} does not exist.", hint="name a folder that holds a config.json")
    if not (file := path / "modules.json").is_file():
        return (Module("Transformer", path), Module(pooling, path / f"1_{pooling}"))
    listed = _load(file)
    try:
        modules = [Module(entry["type"].rsplit(".", 1)[-1], path / entry["path"]) for entry in listed]
    except (TypeError, KeyError, AttributeError) as error:
        raise broken(file, "is not a list of modules") from error
    if not modules:
        raise broken(file, "does not list any module")
    return tuple(modules)


def tokenizer_limit(folder: Path) -> int | None:
    """The longest input that the tokenizer's settings name, in tokens; None if they name none."""
    limit = read_object(folder / "tokenizer_config.json").get("model_max_length")
    return int(limit) if limit and 0 < limit < _UNLIMITED else None


def read_object(path: Path) -> Mapping[str, Json]:
    """A file's JSON object; an absent file is an empty one.

    Raises:
        UsageError: it holds something else.
    """
    if not path.is_file():
        return {}
    value = _load(path)
    if not isinstance(value, dict):
        raise broken(path, "is not a JSON object")
    return value


def broken(path: Path, what: str) -> UsageError:
    """Return the error of an invalid file of a model."""
    return UsageError(f"{path} {what}.", hint="fetch the model's files again")


def _pooling(modules: Sequence[Module]) -> Pooling:
    module = next((module for module in modules if module.name == "Pooling"), None)
    if module is None:
        return "none"
    config = read_object(module.path / "config.json")
    if not config.get("include_prompt", True):
        return "none"
    chosen = config.get("pooling_mode")
    if chosen is None:
        active = [mode for key, mode in _POOLING_KEYS.items() if config.get(key)]
        return "mean" if not active else active[0] if len(active) == 1 else "none"
    names = [chosen] if isinstance(chosen, str) else chosen
    return _POOLING_NAMES.get(names[0], "none") if len(names) == 1 else "none"


def _dim(modules: Sequence[Module], config: Mapping[str, Json]) -> int:
    for module in reversed(modules):
        if module.name == "Dense" and (size := read_object(module.path / "config.json").get("out_features")):
            return int(size)
    for key in ("hidden_size", "d_model", "dim"):
        if size := config.get(key):
            return int(size)
    message = f"{modules[0].path / 'config.json'} does not name a hidden_size."
    raise UsageError(message, hint="is it a text model's folder?")


def _max_tokens(transformer: Path, config: Mapping[str, Json], limits: Mapping[str, Json]) -> int:
    """The model's own choice, else the tokenizer's, and never more than there are positions."""
    positions = int(config.get("max_position_embeddings") or 0)
    if positions > 0 and config.get("model_type") in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
        positions -= int(config.get("pad_token_id", 1)) + 1
    chosen = limits.get("max_seq_length")
    if chosen is None:
        chosen = tokenizer_limit(transformer)
    known = [int(limit) for limit in (chosen, positions) if limit and 0 < limit < _UNLIMITED]
    return min(known, default=_DEFAULT_LIMIT)


def _weights(transformer: Path) -> tuple[Path, ...]:
    if (single := transformer / "model.safetensors").is_file():
        return (single,)
    if (index := transformer / "model.safetensors.index.json").is_file():
        return tuple(transformer / file for file in sorted(set(_load(index)["weight_map"].values())))
    if (pickled := transformer / "pytorch_model.bin").is_file():
        return (pickled,)
    hint = "fetch the model's weights, or name another model folder"
    raise UsageError(f"{transformer} does not hold model.safetensors.", hint=hint)


def _load(path: Path) -> Json:
    try:
        return json.loads(files.read_text(path, limit=files.MANIFEST))
    except (OSError, ValueError, RecursionError) as error:
        raise broken(path, f"cannot be read as JSON: {error}") from error


FILE = "config_sentence_transformers.json"
"""File in which a sentence-transformers model keeps its prompts."""
_INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_LONGEST = 200
"""Characters of a name that are looked at."""


class Prefixes(NamedTuple):
    """Texts in front of queries and passages, and their source; an empty source if they are unknown."""

    query: str = ""
    passage: str = ""
    said_by: str = ""


_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："
_QWEN3, _BGES, _M3, _E5 = (f"the model family {name}" for name in ("Qwen3-Embedding", "BGE", "BGE-M3", "E5"))
_FAMILIES = (
    (re.compile(r"(?:text-embedding-)?qwen3-embedding(?![a-z0-9])"), Prefixes(_INSTRUCTION, "", _QWEN3)),
    (re.compile(r"bge-(?:small|base|large)-en(?:-v1\.5)?(?![a-z0-9])"), Prefixes(_BGE, "", _BGES)),
    (re.compile(r"bge-(?:small|base|large)-zh(?:-v1\.5)?(?![a-z0-9])"), Prefixes(_BGE_ZH, "", _BGES)),
    (re.compile(r"bge-m3(?![a-z0-9])"), Prefixes("", "", _M3)),
    (
        re.compile(r"(?:multilingual-e5-large|e5-mistral-7b)-instruct(?![a-z0-9])"),
        Prefixes(f"{_INSTRUCTION} ", "", _E5),
    ),
    (
        re.compile(r"(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?(?![a-z0-9])"),
        Prefixes("query: ", "passage: ", _E5),
    ),
)
"""The first one that a name begins with holds."""


def by_name(*names: str) -> Prefixes:
    """Return what the first of some names that belongs to a known family is known to want."""
    for name in names:
        own = name[:_LONGEST].lower().replace("--", "/").rpartition("/")[2]
        for pattern, prefixes in _FAMILIES:
            if pattern.match(own):
                return prefixes
    return Prefixes()


def of_model(prompts: Json, name: str) -> Prefixes:
    """Return the prefixes that a model's own files name (`prompts`), or the prefixes of its family if they name
    none."""
    named = prompts if isinstance(prompts, Mapping) else {}
    texts = {key: text for key, text in named.items() if isinstance(text, str) and text}
    query = texts.get("query", "")
    passage = next((texts[key] for key in ("document", "passage", "corpus") if key in texts), "")
    return Prefixes(query, passage, FILE) if query or passage else by_name(name)
