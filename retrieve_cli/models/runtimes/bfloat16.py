"""An exported graph run by OpenVINO, in float32 or bfloat16, or its weights by torch, with products in bfloat16.

Both are for a CPU and for any batch of texts of one length. On a processor with bfloat16 instructions OpenVINO is twice
as fast as onnxruntime at 128 tokens. Each row of a product is summed by itself, so that a text keeps its bits beside
any texts of its length.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.errors import Unavailable
from retrieve_cli.models.runtimes.bert import Architecture, forward
from retrieve_cli.models.runtimes.exports import WEIGHTS
from retrieve_cli.models.runtimes.packages import require
from retrieve_cli.models.runtimes.tensors import read

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.models.runtimes.model_folder import Precision
    from retrieve_cli.models.runtimes.onnx_runner import Graph

_HINTS = {"float32": ("f32", "float32"), "bfloat16": ("bf16", "bfloat16")}
"""By precision, the name that OpenVINO takes and the one that it returns."""
_REPORTERS = ("openvino.tools.ovc", "openvino_telemetry")
"""Modules of OpenVINO that report their import to a server; neither is needed here."""


def in_openvino(path: Path, threads: int, *, precision: Precision) -> Graph:
    """Open an exported graph with OpenVINO; as many calls run at a time as there are threads, each on one core.

    Raises:
        Unavailable: OpenVINO is not installed, cannot open the graph, or cannot compute in this precision here.
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
        message = f"OpenVINO cannot open {path}: {error}"
        raise Unavailable(message, hint="set `encoder.kind: onnx`, or `torch` for bfloat16") from error
    answered = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if answered not in (requested, expected):
        message = f"OpenVINO computes in {answered} on this processor, not in {precision}."
        raise Unavailable(message, hint="set `encoder.precision: auto`, which is float32 on a CPU")
    # The first conversion of a type makes a table under a lock that is not Python's, in Python code: two threads that
    # come to it at the same time wait for each other forever.
    compiled.inputs[0].get_element_type().to_dtype()
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
    """Keep the modules that report to a server from being imported, unless they have already been imported."""
    kept_out = [name for name in _REPORTERS if name not in sys.modules]
    absent: dict[str, Any] = dict.fromkeys(kept_out)
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in kept_out:
            sys.modules.pop(name, None)


def in_torch(path: Path, threads: int, *, architecture: Architecture) -> Graph:  # noqa: ARG001  each call has a core
    """Open the weights beside an exported graph; each call runs on the thread that makes it. Only products are in
    bfloat16: sums, norms and the residual stream stay in float32.

    Raises:
        Unavailable: torch is not installed.
    """
    torch = require("torch")
    ops = TorchOperations(architecture, read([path.with_name(WEIGHTS)]))
    one_thread = OneThread(torch)

    def run(inputs: Mapping[str, Rows]) -> Vectors:
        ids, positions = (torch.from_numpy(np.array(inputs[name])) for name in ("ids", "positions"))
        with torch.inference_mode(), one_thread.held():
            hidden: Vectors = forward(ops, architecture, ids=ids, positions=positions).numpy()
        return hidden

    return run


class TorchOperations:
    """`bert.Operations` on tensors (n, t, dim)."""

    def __init__(self, architecture: Architecture, weights: Mapping[str, Vectors]) -> None:
        """The weights of products are rounded to bfloat16."""
        torch = require("torch")
        self._torch = torch
        self._functions = torch.nn.functional
        self._architecture = architecture
        self._weights: dict[str, Any] = {}
        for name, stored in weights.items():
            tensor = torch.from_numpy(np.array(stored.T if name.endswith(".matrix") else stored, order="C"))
            self._weights[name] = tensor.to(torch.bfloat16) if name.endswith((".matrix", ".bias")) else tensor

    def rows(self, name: str, which: Any) -> Any:
        return self._weights[name][which]

    def add(self, left: Any, right: Any) -> Any:
        return left + right

    def linear(self, x: Any, name: str) -> Any:
        x = x.to(self._torch.bfloat16)
        return self._functions.linear(x, self._weights[f"{name}.matrix"], self._weights[f"{name}.bias"])

    def norm(self, x: Any, name: str) -> Any:
        scale, shift = self._weights[f"{name}.scale"], self._weights[f"{name}.shift"]
        return self._functions.layer_norm(x, x.shape[-1:], scale, shift, self._architecture.epsilon)

    def activate(self, x: Any) -> Any:
        if self._architecture.activation == "relu":
            return self._functions.relu(x)
        return self._functions.gelu(x, approximate="tanh" if self._architecture.activation == "gelu_tanh" else "none")

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        texts, tokens, _ = query.shape
        heads = (part.view(texts, tokens, self._architecture.heads, -1).transpose(1, 2) for part in (query, key, value))
        return self._functions.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(texts, tokens, -1)


class OneThread:
    """Keeps torch from splitting a product among threads: whole batches are spread instead."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._lock = Lock()
        self._holders = 0
        self._usual = 1

    @contextmanager
    def held(self) -> Iterator[None]:
        """Give the calling thread one thread of torch's; afterwards as many as there were before the first holder."""
        with self._lock:
            if not self._holders:
                self._usual = self._torch.get_num_threads()
            self._holders += 1
            self._torch.set_num_threads(1)  # OpenMP keeps this number by thread
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                self._torch.set_num_threads(self._usual)
