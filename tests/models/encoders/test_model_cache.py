"""The model cache: written whole or not at all, mended when damaged, and never read more than needed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder, dense_export
from retrieve_cli.models.runtimes.exports import Export, ensure
from retrieve_cli.models.runtimes.model_folder import ModelFolder, read_folder
from retrieve_cli.models.runtimes.tensors import Digests, read, write


@pytest.fixture
def copy(tiny_bert: ModelFolder, tmp_path: Path) -> Path:
    """A copy of the tiny model."""
    return Path(shutil.copytree(tiny_bert.path, tmp_path / "copy"))


def open_exported(folder: ModelFolder, cache_dir: Path) -> Export:
    export = dense_export(folder, cache_dir)
    ensure(export)
    return export


def test_export_holds_a_graph_its_weights_and_a_card_and_leaves_nothing_else(
    tiny_bert: ModelFolder, tmp_path: Path
) -> None:
    path = open_exported(tiny_bert, tmp_path).path
    assert path.parent == tmp_path
    assert {file.name for file in path.iterdir()} == {"model.onnx", "weights.safetensors", "card.json"}
    assert {file.name for file in tmp_path.iterdir()} == {path.name, "digests.json"}


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "no card", "card is not JSON", "older format"])
def test_damaged_export_is_made_again(tiny_bert: ModelFolder, tmp_path: Path, damage: str) -> None:
    exported = open_exported(tiny_bert, tmp_path)
    sound = {name: (exported.path / name).read_bytes() for name in ("model.onnx", "weights.safetensors")}
    card = exported.path / "card.json"
    if damage == "cut":
        exported.weights.write_bytes(sound["weights.safetensors"][:-100])
    elif damage == "flipped":
        exported.weights.write_bytes(sound["weights.safetensors"][:-1] + b"\xff")
    elif damage == "missing":
        exported.graph.unlink()
    elif damage == "no card":
        card.unlink()
    elif damage == "card is not JSON":
        card.write_text("{")
    else:
        card.write_text(json.dumps(json.loads(card.read_text()) | {"format": 0}))
    again = open_exported(tiny_bert, tmp_path)
    assert {name: (again.path / name).read_bytes() for name in sound} == sound
    assert {file.name for file in tmp_path.iterdir()} == {again.path.name, "digests.json"}


def test_exporters_at_once_leave_one_sound_export(tiny_bert: ModelFolder, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as workers:
        paths = set(workers.map(lambda _: open_exported(tiny_bert, tmp_path).path, range(16)))
    assert len(paths) == 1
    assert {file.name for file in tmp_path.iterdir()} == {paths.pop().name, "digests.json"}
    assert OnnxEncoder(tiny_bert, cache_dir=tmp_path).encode_passages(["ct"]).shape == (1, 36)


def test_export_that_fails_midway_leaves_nothing(
    tiny_bert: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        open_exported(tiny_bert, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} <= {"digests.json"}


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_weights_are_widened(copy: Path, tmp_path: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    kind = {"F16": torch.float16, "BF16": torch.bfloat16}[dtype]
    halved = {name: tensor.to(kind) for name, tensor in load_file(copy / "model.safetensors").items()}
    save_file(halved, copy / "model.safetensors")
    weights = read([open_exported(read_folder(copy), tmp_path / "cache").weights])
    names = {"word": "embeddings.word_embeddings", "layer.1.outer.matrix": "encoder.layer.1.output.dense"}
    for ours, theirs in names.items():
        widened = halved[f"{theirs}.weight"].float().numpy()
        assert np.array_equal(weights[ours], widened.T if ours.endswith("matrix") else widened)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_broken_memory_of_digests_costs_a_reading_only(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "digests.json").write_bytes(content)
    (tmp_path / "file").write_bytes(b"abc")
    assert Digests(tmp_path).sha1(tmp_path / "file") == "a9993e364706816aba3e25717850c26c9cd0d89d"


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x02" + b"\0" * 7 + b"[]"])
def test_what_is_no_safetensors_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"model\.safetensors"):
        read([file])


def test_checkpoint_cut_short_is_refused(copy: Path, tmp_path: Path) -> None:
    whole = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(whole[:-1000])
    with pytest.raises(UsageError, match="cut short"):
        open_exported(read_folder(copy), tmp_path / "cache")


def test_checkpoint_without_a_layer_is_refused_by_the_tensors_name(
    make_tiny: Callable[..., ModelFolder], tmp_path: Path
) -> None:
    folder = make_tiny()
    config = folder.transformer / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    with pytest.raises(UsageError, match=r"encoder\.layer\.2"):
        open_exported(read_folder(folder.path), tmp_path)


def test_wrapped_checkpoints_and_older_spellings_are_read(
    tiny_bert: ModelFolder, copy: Path, cache_dir: Path, tmp_path: Path
) -> None:
    tensors = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma"): tensor
        for name, tensor in read(tiny_bert.weights).items()
    }
    write(copy / "copied", tensors)
    (copy / "copied").replace(copy / "model.safetensors")
    expected = OnnxEncoder(tiny_bert, cache_dir=cache_dir).encode_passages(["ct"])
    assert np.array_equal(OnnxEncoder(read_folder(copy), cache_dir=tmp_path).encode_passages(["ct"]), expected)
