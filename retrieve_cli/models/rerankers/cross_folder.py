"""The head of cross-encoders in the reader of model folders: label, activation, prompt, and how a pair is laid out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.model_folder import SETTINGS, ModelFolder, read_folder, read_object
from retrieve_cli.models.runtimes.tensors import Digests
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted import files

_SETTINGS = ("tokenizer_config.json", "chat_template.jinja", SETTINGS, "sentence_bert_config.json")
"""Files that change a score, in addition to the files of every model."""
SIGMOID, _IDENTITY = "Sigmoid", "Identity"
_SEGMENTED = {"BertTokenizer", "BertTokenizerFast"}
"""Tokenizers that mark which of the two texts a token belongs to, unless their settings name other inputs."""
_ROLES = [re.compile(f"[\"']{role}[\"']") for role in ("query", "document")]

QWEN3_RERANKER = """\
<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first \
| default("Given a web search query, retrieve relevant passages that answer the query") }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>
<|im_start|>assistant
<think>

</think>

{{ "" }}"""
"""The prompt of the model's card, https://huggingface.co/Qwen/Qwen3-Reranker-0.6B, for folders that only chat.

It ends in an empty expression because Jinja drops a last line end, and the model was trained to answer after two.
"""


class CrossFolder(Frozen):
    """A cross-encoder on disk, read but not loaded."""

    model: ModelFolder
    activation: str
    """Class of `torch.nn` that turns the logit into the score: "Sigmoid", "Identity"."""
    prompt: str
    """Prefix of the query, or the instruction of a model that chats."""
    segmented: bool
    """The passage's tokens are marked as a second text."""
    chats: bool
    """The pair goes through a chat template rather than between separators."""
    template: str | None
    """A chat template to be used in place of the folder's own."""
    labelled: bool
    """It ends in a classification head of one label, and nothing comes after it."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def path(self) -> Path:
        return self.model.path

    @property
    def transformers(self) -> tuple[ModelFolder, ...]:
        return (self.model,)

    def revision(self, digests: Digests) -> str:
        """SHA-1 over the weights and every setting that changes a score."""
        files = [self.path / name for name in _SETTINGS if (self.path / name).is_file()]
        settings = {path.name: digests.sha1(path) for path in files}
        return sha1({"model": self.model.revision(digests), "settings": settings, "template": self.template})


def read_cross_folder(path: Path, *, name: str = "") -> CrossFolder:
    """Read the folder of a cross-encoder: one label per pair, or a language model that answers yes or no.

    Raises:
        UsageError: it is the folder of something else; the message names it.
    """
    model = read_folder(path, name=name)
    settings = model.settings if (path / "modules.json").is_file() else None
    tokenizer = read_object(path / "tokenizer_config.json")
    own = _template(path, tokenizer)
    # The published template of Qwen3-Reranker is for chats and has no query and no document.
    chats = model.architecture == "Qwen3ForCausalLM" or (model.architecture == "Qwen3ForSequenceClassification" and own)
    template = QWEN3_RERANKER if chats and not _carries_pairs(own) else None
    _check(model, settings=settings, template=template or own)
    alone = settings is None or len(model.modules) == 1
    prompts = (settings or {}).get("prompts") or {}
    return CrossFolder(
        model=model,
        activation=_activation(settings or {}, model.config),
        prompt=str(prompts.get((settings or {}).get("default_prompt_name")) or ""),
        segmented=_segmented(tokenizer, model.config),
        chats=bool(own or template),
        template=template,
        labelled=alone and model.architecture.endswith("ForSequenceClassification"),
    )


def _check(model: ModelFolder, *, settings: Mapping[str, Json] | None, template: str | None) -> None:
    path, architecture = model.path, model.architecture or "a model without a named architecture"
    if settings is not None and settings.get("model_type") != "CrossEncoder":
        raise _unfit(path, f"an embedding model of sentence-transformers ({architecture})")
    if settings is not None and len(model.modules) > 1:
        return
    if architecture.endswith("ForSequenceClassification"):
        names = model.config.get("id2label")
        if (labels := len(names or ()) or int(model.config.get("num_labels", 2))) != 1:  # 2 as in transformers
            raise _unfit(path, f"a classifier with {labels} labels ({architecture}), and a score is one number")
    elif not architecture.endswith("ForCausalLM"):
        raise _unfit(path, f"{architecture}, which gives no score to a pair of texts")
    elif not _carries_pairs(template):
        raise _unfit(path, f"a language model ({architecture}) whose chat template takes no query and document")


def _unfit(path: Path, what: str) -> UsageError:
    hint = "name a cross-encoder, such as cross-encoder/ms-marco-MiniLM-L6-v2 or BAAI/bge-reranker-base"
    return UsageError(f"{path} does not hold a cross-encoder: it is {what}.", hint=hint)


def _template(path: Path, tokenizer: Mapping[str, Json]) -> str:
    """The folder's own chat template; several named ones as one text."""
    if (file := path / "chat_template.jinja").is_file():
        return files.read_text(file, limit=files.CONFIG, errors="replace")
    template = tokenizer.get("chat_template") or ""
    return template if isinstance(template, str) else json.dumps(template)


def _carries_pairs(template: str | None) -> bool:
    return template is not None and all(role.search(template) for role in _ROLES)


def _activation(settings: Mapping[str, Json], config: Mapping[str, Json]) -> str:
    """Return the activation in the settings, in config.json or in an older key; else sigmoid."""
    candidates = (
        settings.get("activation_fn"),
        (config.get("sentence_transformers") or {}).get("activation_fn"),
        config.get("sbert_ce_default_activation_function"),
    )
    named = next((str(candidate) for candidate in candidates if candidate is not None), "")
    # Code that a model brings along is not run, by sentence-transformers either.
    return named.rsplit(".", 1)[-1] if named.startswith("torch.") else SIGMOID


def _segmented(tokenizer: Mapping[str, Json], config: Mapping[str, Json]) -> bool:
    if int(config.get("type_vocab_size") or 0) < 2:
        return False
    if inputs := tokenizer.get("model_input_names"):
        return "token_type_ids" in inputs
    kind = tokenizer.get("tokenizer_class")
    return kind in _SEGMENTED or (kind is None and config.get("model_type") == "bert")
