"""What runs where, what is said about it, and that nothing heavy is loaded to find out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from retrieve_cli.errors import Exit, Unavailable, UsageError
from retrieve_cli.models.runtimes import devices
from retrieve_cli.models.runtimes.devices import choose, why_no_gpu

Become = Callable[..., object]

LACKING = "this processor has no bfloat16 instructions"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Become:
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


@pytest.fixture
def processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Become:
    """A processor of which Linux says so much."""
    monkeypatch.setattr(devices, "_CPUINFO", str(tmp_path / "cpuinfo"))
    return (tmp_path / "cpuinfo").write_text


@pytest.mark.parametrize(
    ("device", "kind", "expected"),
    [
        ("auto", "auto", ("onnx", "cpu", "cpu: onnxruntime (no GPU found)")),
        ("auto", "torch", ("torch", "cpu", "cpu: torch (no GPU found)")),
        ("cpu", "auto", ("onnx", "cpu", "cpu: onnxruntime (as configured)")),
        ("cpu", "torch", ("torch", "cpu", "cpu: torch (as configured)")),
        ("auto", "onnx", ("onnx", "cpu", "cpu: onnxruntime (as configured)")),
        ("auto", "hashed", ("hashed", "cpu", "cpu: feature hashing (no model)")),
    ],
)
def test_without_a_gpu_the_cpu_is_chosen_and_said(
    machine: Become, device: Any, kind: Any, expected: tuple[str, str, str]
) -> None:
    machine(driver=False)
    choice = choose(device, kind)
    assert (choice.kind, choice.device, str(choice)) == expected


@pytest.mark.parametrize(("device", "kind"), [("auto", "auto"), ("cuda", "auto"), ("cuda", "torch"), ("auto", "torch")])
def test_with_a_gpu_torch_is_chosen_and_said(machine: Become, device: Any, kind: Any) -> None:
    machine(driver=True, gpu=True)
    choice = choose(device, kind)
    assert (choice.kind, choice.device, str(choice)) == ("torch", "cuda", "cuda: torch (NVIDIA H200)")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"driver": False}, "no GPU found"),
        ({"driver": True, "built": False}, "built without CUDA"),
        ({"driver": True, "gpu": False}, "torch finds no GPU"),
    ],
)
def test_a_required_gpu_that_is_not_there_is_unavailable(
    machine: Become, settings: dict[str, bool], reason: str
) -> None:
    machine(**settings)
    with pytest.raises(Unavailable, match=reason) as caught:
        choose("cuda")
    assert caught.value.code == Exit.UNAVAILABLE
    assert "encoder.device: auto" in caught.value.hint


def test_hidden_gpus_are_no_gpus(machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(driver=True, gpu=True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert choose().reason == "cpu: onnxruntime (CUDA_VISIBLE_DEVICES hides every GPU)"


def test_driver_without_torch_is_no_gpu(machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(driver=True)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert why_no_gpu() == "torch is not installed"


@pytest.mark.parametrize("kind", ["onnx", "openvino", "hashed"])
def test_gpu_for_a_kind_that_has_none_is_a_usage_error(kind: Any) -> None:
    with pytest.raises(UsageError, match=kind):
        choose("cuda", kind)


def test_choosing_without_a_driver_does_not_import_torch(run_python: Callable[..., str]) -> None:
    program = """
import sys
from retrieve_cli.models.runtimes import devices
devices._DRIVER = ()
devices.choose()
print("torch" in sys.modules)
"""
    assert run_python(program).strip() == "False"


@pytest.mark.parametrize(
    ("cpuinfo", "reason"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx\n", ""),
        ("processor\t: 0\nflags\t\t: fpu amx_bf16 amx_tile\n", ""),
        ("processor\t: 0\nFeatures\t: fp asimd bf16 i8mm\n", ""),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f\n", LACKING),
        ("", LACKING),
    ],
)
def test_bfloat16_is_read_off_the_processor(processor: Become, cpuinfo: str, reason: str) -> None:
    processor(cpuinfo)
    assert devices.why_no_bfloat16() == reason


WITH, WITHOUT = "flags : fpu avx512_bf16\n", "flags : fpu avx2\n"
SLOWER, FOR_A_GPU = f"{LACKING}: float32 is faster here", "float16 is for a GPU: float32 here"


@pytest.mark.parametrize(
    ("kind", "precision", "cpuinfo", "expected"),
    [
        ("auto", "auto", WITH, ("onnx", "float32", "cpu: onnxruntime (as configured)")),
        ("auto", "float32", WITH, ("onnx", "float32", "cpu: onnxruntime (as configured)")),
        ("onnx", "float32", WITH, ("onnx", "float32", "cpu: onnxruntime (as configured)")),
        ("openvino", "auto", WITH, ("openvino", "float32", "cpu: openvino (as configured)")),
        ("openvino", "bfloat16", WITH, ("openvino", "bfloat16", "cpu: openvino in bfloat16 (as configured)")),
        ("auto", "bfloat16", WITH, ("torch", "bfloat16", "cpu: torch in bfloat16 (as configured)")),
        ("torch", "bfloat16", WITH, ("torch", "bfloat16", "cpu: torch in bfloat16 (as configured)")),
        ("torch", "bfloat16", WITHOUT, ("torch", "bfloat16", f"cpu: torch in bfloat16 (as configured; {SLOWER})")),
        ("auto", "float16", WITH, ("onnx", "float32", f"cpu: onnxruntime (as configured; {FOR_A_GPU})")),
    ],
)
def test_a_precision_chooses_the_encoder_of_a_cpu_and_is_said(
    processor: Become, kind: str, precision: Any, cpuinfo: str, expected: tuple[str, str, str]
) -> None:
    processor(cpuinfo)
    choice = choose("cpu", kind, precision=precision)
    assert (choice.kind, choice.precision, str(choice)) == expected


@pytest.mark.parametrize(("kind", "precision"), [("onnx", "bfloat16"), ("onnx", "float16"), ("openvino", "float16")])
def test_a_precision_that_a_kind_does_not_compute_in_is_a_usage_error(kind: str, precision: Any) -> None:
    with pytest.raises(UsageError, match=precision) as caught:
        choose("cpu", kind, precision=precision)
    assert "encoder.precision" in caught.value.hint


def test_openvino_in_bfloat16_on_a_processor_without_it_is_unavailable(processor: Become) -> None:
    processor(WITHOUT)
    with pytest.raises(Unavailable, match="no bfloat16 instructions") as caught:
        choose("cpu", "openvino", precision="bfloat16")
    assert "encoder.precision: float32" in caught.value.hint


def test_with_a_gpu_the_precision_is_that_of_the_gpu(machine: Become) -> None:
    machine(driver=True, gpu=True)
    assert choose().precision == "float16"
    assert choose("cuda", precision="bfloat16").precision == "bfloat16"
