"""An exported graph run by OpenVINO on the CPU, in float32 or bfloat16.

On a processor with bfloat16 instructions it is twice as fast as onnxruntime at 128 tokens. Each row of a product is
summed by itself, so that a text keeps its bits beside any texts of its length.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from retrieve_cli.encoders.packages import require
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.encoders.model_folder import Precision
    from retrieve_cli.encoders.onnx_runner import Graph

_HINTS = {"float32": ("f32", "float32"), "bfloat16": ("bf16", "bfloat16")}
"""By precision, the name that OpenVINO takes and the one that it returns."""
_REPORTERS = ("openvino.tools.ovc", "openvino_telemetry")
"""Modules of OpenVINO that report their import to a server; what is done here needs neither."""


def in_openvino(path: Path, threads: int, *, precision: Precision) -> Graph:
    """Open an exported graph with OpenVINO; as many calls run at a time as there are threads, each on one core.

    Raises:
        Unavailable: OpenVINO is not installed, does not take the graph, or has no such precision on this processor.
    """
    requested, expected = _HINTS[precision]
    # Left to itself it takes bfloat16 wherever the processor has it.
    settings = {"INFERENCE_PRECISION_HINT": requested, "ENABLE_CPU_PINNING": False}
    settings |= {"NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads}
    with _silent():
        core = require("openvino").Core()
    try:
        compiled = core.compile_model(core.read_model(str(path)), "CPU", settings)
    except RuntimeError as error:
        raise Unavailable(
            f"OpenVINO cannot open {path}: {error}", hint="set `encoder.kind: onnx`, or `torch` for bfloat16"
        ) from error
    answered = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if answered not in (requested, expected):
        raise Unavailable(
            f"OpenVINO computes in {answered} on this processor, not in {precision}.",
            hint="set `encoder.precision: auto`, which is float32 on a CPU",
        )
    idle: SimpleQueue[Any] = SimpleQueue()
    for _ in range(threads):
        idle.put(compiled.create_infer_request())

    def run(inputs: Mapping[str, Rows]) -> Vectors:
        request = idle.get()
        try:
            result: Vectors = request.infer(inputs, share_inputs=True)[0]
        finally:
            idle.put(request)
        return result

    return run


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the modules that report to a server from being imported, unless somebody has imported them already."""
    kept_out = [name for name in _REPORTERS if name not in sys.modules]
    absent: dict[str, Any] = dict.fromkeys(kept_out)
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in kept_out:
            sys.modules.pop(name, None)
