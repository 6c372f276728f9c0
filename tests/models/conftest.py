"""Models to encode with: the installed default, and small random ones made here and read by sentence-transformers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cross_models import word_pieces
from samples import ROOT

from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.encoders.torch_encoder import TorchEncoder
from retrieve_cli.models.runtimes.locate import locate
from retrieve_cli.models.runtimes.model_folder import ModelFolder, read_folder

Load = Callable[[Path], Any]


@pytest.fixture(scope="session")
def default_model() -> ModelFolder:
    place = locate("default")
    return read_folder(place.path, name=place.name)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def onnx(cache_dir: Path) -> Callable[..., OnnxEncoder]:
    """Makes encoders that share a cache of models."""
    return partial(OnnxEncoder, cache_dir=cache_dir)


@pytest.fixture(scope="session")
def torch_on_cpu(cache_dir: Path) -> Callable[..., TorchEncoder]:
    """Makes encoders that share a cache of models."""
    return partial(TorchEncoder, cache_dir=cache_dir, device="cpu")


@pytest.fixture(scope="session")
def sentence_transformer() -> Load:
    """Loads a folder with sentence-transformers on the CPU."""
    package = importlib.import_module("sentence_transformers")
    importlib.import_module("transformers").utils.logging.disable_progress_bar()
    return lambda path: package.SentenceTransformer(str(path), device="cpu", local_files_only=True)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory, sentence_transformer: Load) -> ModelFolder:
    """Two layers, CLS pooling, no normalisation, prompts, at most 24 tokens."""
    path = tmp_path_factory.mktemp("tiny-bert")
    prompts = {"query": "find: ", "document": "a document: "}
    _save(path, kind="Bert", tokenizer=word_pieces(), pooling="cls", prompts=prompts)
    return read_folder(path)


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory, sentence_transformer: Load) -> ModelFolder:
    """Two layers, mean pooling, byte-level pieces, positions that start after the padding index."""
    path = tmp_path_factory.mktemp("tiny-roberta")
    _save(path, kind="Roberta", tokenizer=_byte_pieces(), pooling="mean", prompts={})
    return read_folder(path)


@pytest.fixture(scope="session")
def out_of_memory() -> Any:
    """The error of torch on a device that is full."""
    return importlib.import_module("torch").OutOfMemoryError


@pytest.fixture
def fill_above(monkeypatch: pytest.MonkeyPatch, out_of_memory: Any) -> Callable[..., list[int]]:
    """Lets a method of a model fail for more texts than so many, as a full device does; returns how many were tried."""

    def fill(model: Any, method: str, most: int) -> list[int]:
        run, sizes = getattr(model, method), []

        def limited(batch: list[Any], **settings: Any) -> Any:
            sizes.append(len(batch))
            if len(batch) > most:
                raise out_of_memory("CUDA out of memory")
            return run(batch, **settings)

        monkeypatch.setattr(model, method, limited)
        return sizes

    return fill


@pytest.fixture
def make_tiny(tmp_path: Path, sentence_transformer: Load) -> Callable[..., ModelFolder]:
    """Makes a tiny BERT of one's own, by pooling and settings of its config.json."""

    def make(pooling: str = "mean", **settings: Any) -> ModelFolder:
        path = tmp_path / f"tiny-{pooling}"
        _save(path, kind="Bert", tokenizer=word_pieces(), pooling=pooling, prompts={}, **settings)
        return read_folder(path)

    return make


def _save(path: Path, *, kind: str, tokenizer: Any, pooling: str, prompts: dict[str, str], **settings: Any) -> None:
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    package = importlib.import_module("sentence_transformers")
    modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
    torch.manual_seed(7)
    sizes = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 52}
    limits = {"max_position_embeddings": 40, "vocab_size": tokenizer.get_vocab_size(), "initializer_range": 0.4}
    special = {"pad_token_id": 1 if kind == "Roberta" else 0}
    config = getattr(transformers, f"{kind}Config")(**sizes, **limits, **special, **settings)
    bare = path / "bare"
    getattr(transformers, f"{kind}Model")(config).save_pretrained(bare)
    names = {"pad_token": "<pad>", "unk_token": "<unk>"} if kind == "Roberta" else {"pad_token": "[PAD]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(bare)
    parts = [modules.Transformer(str(bare), max_seq_length=24), modules.Pooling(36, pooling_mode=pooling)]
    package.SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(path))


def _byte_pieces() -> Any:
    tokenizers = importlib.import_module("tokenizers")
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*marks, *alphabet])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(marks)
    return tokenizer


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Runs a program in a fresh interpreter and returns what it printed."""
    root = str(ROOT)

    def run(program: str, *arguments: object, **environment: str) -> str:
        command = [sys.executable, "-W", "error", "-c", program, *map(str, arguments)]
        settings = {**os.environ, "PYTHONPATH": root, **environment}
        done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
