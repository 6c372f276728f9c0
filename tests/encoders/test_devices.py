"""What runs where, what is said about it, and that nothing heavy is loaded to find out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from retrieve_cli.encoders import devices
from retrieve_cli.encoders.devices import choose, why_no_gpu
from retrieve_cli.errors import Exit, Unavailable, UsageError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine with or without NVIDIA's driver and a torch that sees a GPU."""

    def become(*, driver: bool, gpu: bool = False, built: bool = True) -> None:
        trace = tmp_path / "version"
        if driver:
            trace.touch()
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(devices, "_DRIVER", (str(trace),))
        torch = ModuleType("torch")
        vars(torch)["cuda"] = SimpleNamespace(is_available=lambda: gpu, get_device_name=lambda _: "NVIDIA H200")
        vars(torch)["backends"] = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: built))
        monkeypatch.setitem(sys.modules, "torch", torch)

    return become


@pytest.mark.parametrize(
    ("device", "kind", "expected"),
    [
        ("auto", "auto", ("onnx", "cpu", "cpu: onnxruntime (no GPU found)")),
        ("auto", "torch", ("torch", "cpu", "cpu: torch (no GPU found)")),
        ("cpu", "auto", ("onnx", "cpu", "cpu: onnxruntime (as asked)")),
        ("cpu", "torch", ("torch", "cpu", "cpu: torch (as asked)")),
        ("auto", "onnx", ("onnx", "cpu", "cpu: onnxruntime (as asked)")),
        ("auto", "hashed", ("hashed", "cpu", "cpu: feature hashing (no model)")),
    ],
)
def test_without_a_gpu_the_cpu_is_chosen_and_said(
    machine: Callable[..., None], device: Any, kind: Any, expected: tuple[str, str, str]
) -> None:
    machine(driver=False)
    choice = choose(device, kind)
    assert (choice.kind, choice.device, str(choice)) == expected


@pytest.mark.parametrize(("device", "kind"), [("auto", "auto"), ("cuda", "auto"), ("cuda", "torch"), ("auto", "torch")])
def test_with_a_gpu_torch_is_chosen_and_said(machine: Callable[..., None], device: Any, kind: Any) -> None:
    machine(driver=True, gpu=True)
    choice = choose(device, kind)
    assert (choice.kind, choice.device, str(choice)) == ("torch", "cuda", "cuda: torch (NVIDIA H200)")


def test_with_a_gpu_the_cpu_is_still_to_be_had(machine: Callable[..., None]) -> None:
    machine(driver=True, gpu=True)
    assert choose("cpu").kind == "onnx"
    assert choose("auto", "onnx").device == "cpu"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"driver": False}, "no GPU found"),
        ({"driver": True, "built": False}, "built without CUDA"),
        ({"driver": True, "gpu": False}, "torch finds no GPU"),
    ],
)
def test_a_required_gpu_that_is_not_there_is_unavailable(
    machine: Callable[..., None], settings: dict[str, bool], reason: str
) -> None:
    machine(**settings)
    with pytest.raises(Unavailable, match=reason) as caught:
        choose("cuda")
    assert caught.value.code == Exit.UNAVAILABLE
    assert "encoder.device: auto" in caught.value.hint


def test_hidden_gpus_are_no_gpus(machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine(driver=True, gpu=True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert choose().reason == "cpu: onnxruntime (CUDA_VISIBLE_DEVICES hides every GPU)"


def test_driver_without_torch_is_no_gpu(machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine(driver=True)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert why_no_gpu() == "torch is not installed"


@pytest.mark.parametrize("kind", ["onnx", "hashed"])
def test_gpu_for_a_kind_that_has_none_is_a_usage_error(kind: Any) -> None:
    with pytest.raises(UsageError, match=kind):
        choose("cuda", kind)


def test_choosing_without_a_driver_does_not_import_torch(run_python: Callable[..., str]) -> None:
    program = """
import sys
from retrieve_cli.encoders import devices
devices._DRIVER = ()
devices.choose()
print("torch" in sys.modules)
"""
    assert run_python(program).strip() == "False"
