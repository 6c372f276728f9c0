"""Small SPLADE models with random but fixed weights."""

import importlib
from pathlib import Path
from typing import Any

from cross_models import PIECES, word_pieces

__all__ = ["LIMIT", "PIECES", "save_masked", "tokenizer"]

LIMIT = 96


def tokenizer() -> Any:
    transformers = importlib.import_module("transformers")
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=word_pieces(), model_max_length=LIMIT, **names)


def save_masked(path: Path, kind: str = "Bert", *, seed: int = 7, **settings: Any) -> Path:
    """A plain transformers folder: two layers, random weights, and about half of the vocabulary for each text."""
    transformers, words = importlib.import_module("transformers"), tokenizer()
    importlib.import_module("torch").manual_seed(seed)
    size = {"vocab_size": len(words), "initializer_range": 0.3, "max_position_embeddings": 128, "pad_token_id": 0}
    if kind == "DistilBert":
        size |= {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    else:
        size |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    model = getattr(transformers, f"{kind}ForMaskedLM")(getattr(transformers, f"{kind}Config")(**size, **settings))
    for name, parameter in model.named_parameters():
        if name.endswith("bias") and parameter.numel() == len(words):
            parameter.data.normal_(-0.5, 1.0)  # a bias of zeros would hide one that is left out
    model.save_pretrained(path)
    words.save_pretrained(path)
    return path
