"""Which encoder runs where, decided without importing torch on a machine that has no GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retrieve_cli.encoders.packages import require
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import dataclass

if TYPE_CHECKING:
    from retrieve_cli.encoders.model_folder import Precision

Device = Literal["auto", "cpu", "cuda"]

_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""What NVIDIA's driver leaves behind; the last is its door under WSL."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An encoder's kind, its device, and why in a sentence for people."""

    kind: Literal["onnx", "torch", "hashed"]
    device: Literal["cpu", "cuda"]
    reason: str

    def __str__(self) -> str:
        return self.reason


def choose(device: Device = "auto", kind: str = "auto") -> Choice:
    """The encoder for a device: torch on a GPU, onnxruntime on a CPU, unless one of them was asked for.

    Raises:
        Unavailable: `cuda` was asked for and there is no GPU that torch can use.
        UsageError: `cuda` was asked for together with a kind that only runs on the CPU.
    """
    if kind == "hashed":
        if device == "cuda":
            raise _cpu_only(kind)
        return Choice("hashed", "cpu", "cpu: feature hashing (no model)")
    if kind == "onnx":
        if device == "cuda":
            raise _cpu_only(kind)
        return Choice("onnx", "cpu", "cpu: onnxruntime (as asked)")
    if device == "cpu":
        return _on_cpu(kind, "as asked")
    missing = why_no_gpu()
    if not missing:
        return Choice("torch", "cuda", f"cuda: torch ({gpu_name()})")
    if device == "cuda":
        raise Unavailable(
            f"A GPU was required (`device: cuda`) and cannot be used: {missing}.",
            hint="set `encoder.device: auto`, or install the driver and a torch built for CUDA",
        )
    return _on_cpu(kind, missing)


def precision_on(device: Literal["cpu", "cuda"], asked: Precision | Literal["auto"]) -> Precision:
    """The precision of torch: auto is float16 on a GPU and float32 on a CPU."""
    if asked == "auto":
        return "float16" if device == "cuda" else "float32"
    return asked


def why_no_gpu() -> str:
    """Why torch cannot use a GPU here ("no GPU found"), or nothing if it can."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in {"", "-1"}:
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    if not any(Path(trace).exists() for trace in _DRIVER):
        return "no GPU found"
    try:
        torch = require("torch")
    except Unavailable:
        return "torch is not installed"
    if not torch.backends.cuda.is_built():
        return "the installed torch is built without CUDA"
    return "" if torch.cuda.is_available() else "torch finds no GPU"


def gpu_name() -> str:
    """What the first GPU calls itself."""
    return str(require("torch").cuda.get_device_name(0))


def _on_cpu(kind: str, reason: str) -> Choice:
    if kind == "torch":
        return Choice("torch", "cpu", f"cpu: torch ({reason})")
    return Choice("onnx", "cpu", f"cpu: onnxruntime ({reason})")


def _cpu_only(kind: str) -> UsageError:
    return UsageError(
        f"`encoder.kind: {kind}` runs on the CPU only.", hint="set `encoder.kind: torch`, or `encoder.device: cpu`"
    )
