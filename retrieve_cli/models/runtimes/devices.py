"""Choice of an encoder and its device, made without importing torch on a machine that has no GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.packages import require

if TYPE_CHECKING:
    from typing import TypeAlias

    from retrieve_cli.models.runtimes.model_folder import Precision

    Asked: TypeAlias = Precision | Literal["auto"]

Device = Literal["auto", "cpu", "cuda"]

_CPUINFO = "/proc/cpuinfo"
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}
"""Linux names of the instructions that multiply bfloat16: two sets on x86, the last one on ARM."""
_FASTER = "set `encoder.precision: float32`, which is faster here; it changes the index"
_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""Files that show NVIDIA's driver; the last one is the driver in WSL."""


class DeviceChoice(Frozen):
    """An encoder's kind, its device, and why in a sentence for people."""

    kind: Literal["onnx", "openvino", "torch", "hashed"]
    device: Literal["cpu", "cuda"]
    reason: str
    precision: Precision = "float32"

    def __str__(self) -> str:
        return self.reason


def choose(
    device: Device = "auto", kind: str = "auto", *, precision: Asked = "auto", section: str = "encoder"
) -> DeviceChoice:
    """Return the encoder for a device: torch on a GPU, onnxruntime on a CPU, unless one of them is configured.

    `section` is the section of the settings, for hints. On a CPU onnxruntime computes in float32 only: for bfloat16,
    `auto` is torch there as well.

    Raises:
        Unavailable: `cuda` was asked for and there is no GPU that torch can use.
        UsageError: `cuda` was asked for together with a kind that only runs on the CPU, or a precision together with
            a kind that does not compute in it.
    """
    if kind in ("hashed", "onnx", "openvino") and device == "cuda":
        hint = "set `encoder.kind: torch`, or `encoder.device: cpu`"
        raise UsageError(f"`encoder.kind: {kind}` runs on the CPU only.", hint=hint)
    if kind == "hashed":
        return DeviceChoice("hashed", "cpu", "cpu: feature hashing (no model)")
    if kind in ("onnx", "openvino"):
        return _exported(kind, precision)
    if device == "cpu":
        return _on_cpu(kind, "as configured", precision)
    missing = why_no_gpu()
    if not missing:
        return DeviceChoice("torch", "cuda", f"cuda: torch ({gpu_name()})", precision_on("cuda", precision))
    if device == "cuda":
        hint = f"set `{section}.device: auto`, or install the driver and a torch built for CUDA"
        raise Unavailable(f"A GPU was required (`{section}.device: cuda`) and cannot be used: {missing}.", hint=hint)
    return _on_cpu(kind, missing, precision)


def precision_on(device: Literal["cpu", "cuda"], asked: Asked) -> Precision:
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
    """Return the name of the first GPU."""
    return str(require("torch").cuda.get_device_name(0))


def why_no_bfloat16() -> str:
    """Why bfloat16 is slower than float32 on this processor, or nothing if it is faster."""
    try:
        with Path(_CPUINFO).open(encoding="utf-8", errors="replace") as lines:
            words = next((set(line.split()) for line in lines if line.startswith(("flags", "Features"))), set())
        supported = bool(words & _BFLOAT16)
    except OSError:  # not Linux
        supported = _torch_has_bfloat16()
    return "" if supported else "this processor has no bfloat16 instructions"


def _torch_has_bfloat16() -> bool:
    try:
        known = require("torch").cpu.get_capabilities()
    except (Unavailable, AttributeError):
        return False
    return any(known.get(name) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def _exported(kind: str, precision: Asked) -> DeviceChoice:
    """A choice among the encoders that run the exported graph."""
    if kind == "onnx":
        if precision not in ("auto", "float32"):
            hint = "set `encoder.kind: torch` or `openvino` for bfloat16, or `encoder.precision: auto`"
            raise UsageError(f"`encoder.kind: onnx` computes in float32, not in {precision}.", hint=hint)
        return DeviceChoice("onnx", "cpu", "cpu: onnxruntime (as configured)")
    if precision == "float16":
        message = "`encoder.kind: openvino` computes in float32 or bfloat16, not in float16."
        raise UsageError(message, hint="set `encoder.precision: bfloat16`, or auto, which is float32")
    chosen = precision_on("cpu", precision)
    if chosen == "bfloat16" and (why := why_no_bfloat16()):
        raise Unavailable(f"OpenVINO cannot compute in bfloat16 here: {why}.", hint=_FASTER)
    return DeviceChoice("openvino", "cpu", _reason("openvino", "as configured", chosen), chosen)


def _on_cpu(kind: str, reason: str, precision: Asked) -> DeviceChoice:
    if kind == "torch" or precision == "bfloat16":
        chosen = precision_on("cpu", precision)
        return DeviceChoice("torch", "cpu", _reason("torch", reason, chosen), chosen)
    if precision == "float16":
        reason += "; float16 is for a GPU: float32 here"
    return DeviceChoice("onnx", "cpu", f"cpu: onnxruntime ({reason})")


def _reason(runtime: str, reason: str, precision: Precision) -> str:
    if precision != "bfloat16":
        return f"cpu: {runtime} ({reason})"
    slow = why_no_bfloat16()
    return f"cpu: {runtime} in bfloat16 ({reason}{f'; {slow}: float32 is faster here' if slow else ''})"
