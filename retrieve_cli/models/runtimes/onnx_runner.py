"""Runs an exported model over token ids: onnxruntime over mapped weights, NumPy for a short query, and no torch.

Another runtime can take the place of onnxruntime: see `bfloat16.py`.

Only texts of exactly the same number of tokens share a batch. So nothing is padded, nothing is masked, no work is
spent on padding, and the arithmetic of a text does not depend on its neighbours: its result is the same to the bit.

The forward pass written down as an ONNX graph whose weights stay in the safetensors file beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.cores import available_cores
from retrieve_cli.models.runtimes.bert import Architecture, forward, positions
from retrieve_cli.models.runtimes.exports import WEIGHTS, Export, ensure
from retrieve_cli.models.runtimes.packages import once, require, spread
from retrieve_cli.models.runtimes.tensors import Digests, read

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.models.runtimes.tensors import Extent


SHORT = 64
"""Queries of up to so many tokens go through NumPy: beyond, loading onnxruntime is the smaller cost.

With a model of BERT's size a process has its first twelve tokens encoded after 0.1 s, and after 0.5 s with onnxruntime,
which then takes 30 ms for each further query, NumPy 50 ms.
"""
Keep: TypeAlias = "Callable[[int, Vectors], None]"
"""Receives the output of the model for the text at a place, (t, d) or (1, d) float32; called from any thread."""
Eager: TypeAlias = "Callable[[Architecture, Mapping[str, Vectors], Rows], Vectors]"
"""Runs the model in NumPy over one text's (t,) ids."""


Graph: TypeAlias = "Callable[[Mapping[str, Rows]], Vectors]"
"""Runs an open graph over its inputs by name; called from any thread."""


def in_onnxruntime(path: Path, threads: int) -> Graph:  # noqa: ARG001  other runtimes share out their cores
    """Open an exported graph with onnxruntime; each call runs on the thread that makes it."""
    # Its wheels report to Microsoft (1.31: mobile.events.data.microsoft.com) unless this is set before the import.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    runtime = require("onnxruntime")
    options = runtime.SessionOptions()
    # A product that is split among threads may be summed in another order: whole batches are spread instead.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Batches come in hundreds of shapes: an arena that grows whenever one does not fit has no bound.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Rows]) -> Vectors:
        result: Vectors = session.run(None, inputs)[0]
        return result

    return run


class OnnxRunner:
    """One exported model, safe to share between threads. Loads the graph or the weights at the first text."""

    def __init__(
        self,
        export: Callable[[], Export],
        architecture: Architecture,
        *,
        threads: int | None = None,
        batch_tokens: int = 512,
        batch_size: int | None = None,
        runtime: Callable[[Path, int], Graph] = in_onnxruntime,
    ) -> None:
        """A batch of one thread holds at most `batch_size` texts and `batch_tokens`: 512 keep its activations in the
        L2 cache. `runtime` opens the graph for a number of threads."""
        self._find = export
        self._architecture = architecture
        self._batch_tokens = batch_tokens
        self._batch_size = batch_size
        self._runtime = runtime
        self.threads = threads or available_cores()

    def run_queries(
        self, ids: Sequence[Sequence[int]], keep: Keep, eager: Eager, *, places: Sequence[int] | None = None
    ) -> None:
        """Run the texts at `places` (None: all), each by a route that depends on its own length only: `eager` takes
        the short ones."""
        chosen = range(len(ids)) if places is None else places
        short = [place for place in chosen if 0 < len(ids[place]) <= SHORT]
        weights = self._weights if short else {}

        def run(place: int) -> None:
            keep(place, eager(self._architecture, weights, np.array(ids[place], dtype=np.int64)))

        spread(run, short, threads=self.threads)
        self.run(ids, keep, places=[place for place in chosen if len(ids[place]) > SHORT])

    def run(
        self,
        ids: Sequence[Sequence[int]],
        keep: Keep,
        *,
        places: Sequence[int] | None = None,
        shifts: Sequence[Rows] | None = None,
    ) -> None:
        """Run the texts at `places` (None: all) in batches of one length; a text without a token is not run.

        `shifts` gives for each text, by token, how many rows below its own position its row of the position table is.
        """
        chosen = range(len(ids)) if places is None else places
        batches = list(same_length(ids, chosen, batch_tokens=self._batch_tokens, batch_size=self._batch_size))
        if not batches:
            return
        graph = self._graph

        def run(batch: Sequence[int]) -> None:
            tokens = np.array([ids[place] for place in batch], dtype=np.int64)
            rows = positions(tokens, self._architecture)
            if shifts is not None:
                rows = rows + np.array([shifts[place] for place in batch])
            states = graph({"ids": tokens, "positions": np.ascontiguousarray(rows)})
            for place, own in zip(batch, states.reshape(len(batch), -1, states.shape[-1]), strict=True):
                keep(place, own)

        spread(run, batches, threads=self.threads)

    @once
    def _export(self) -> Export:
        export = self._find()
        if export.state(Digests(export.cache_dir)) != "sound":
            ensure(export)
        return export

    @once
    def _weights(self) -> Mapping[str, Vectors]:
        return read([self._export.weights])

    @once
    def _graph(self) -> Graph:
        return self._runtime(self._export.graph, self.threads)


def same_length(
    ids: Sequence[Sequence[int]], places: Sequence[int], *, batch_tokens: int, batch_size: int | None = None
) -> Iterator[Sequence[int]]:
    """Places of texts with the same number of tokens, longest first, in batches of at most `batch_tokens` (or one).

    The longest come first, so that the threads end at about the same time. A text without a token is in none.
    """
    by_length: dict[int, list[int]] = {}
    for place in places:
        by_length.setdefault(len(ids[place]), []).append(place)
    by_length.pop(0, None)
    for length, alike in sorted(by_length.items(), reverse=True):
        step = max(1, min(batch_tokens // length, batch_size or len(alike)))
        for start in range(0, len(alike), step):
            yield alike[start : start + step]


_CONTRIBUTED = "com.microsoft"
_ACTIVATIONS = {"gelu": ("Gelu", _CONTRIBUTED), "gelu_tanh": ("FastGelu", _CONTRIBUTED), "relu": ("Relu", "")}
_OPSET = 18
_IR_VERSION = 9


def write_graph(architecture: Architecture, extents: Mapping[str, Extent]) -> bytes:
    """An ONNX model: `ids` and `positions` (n, t) int64 to `hidden` (n, t, dim) float32."""
    ops = GraphOperations(architecture, extents)
    last = forward(ops, architecture, ids="ids", positions="positions")
    ops.emit("Reshape", [last, ops.batch_shape], "hidden")
    return ops.model("bert", "hidden", ["n", "t", architecture.dim])


class GraphOperations:
    """`bert.Operations` on names of values, all of them (n * t, dim): Gemm, which adds its bias in place, is 2-D.

    Of the fused operators only attention and GELU pay; SkipLayerNormalization took 20 % of the whole pass and the
    plain LayerNormalization after an Add a tenth of that.
    """

    def __init__(self, architecture: Architecture, extents: Mapping[str, Extent]) -> None:
        """`extents` is where each tensor lies in the safetensors file beside the graph."""
        self._onnx = require("onnx")
        self._architecture = architecture
        self._extents = extents
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        dim = self._constant("dim", [architecture.dim])
        self._flat = self._constant("flat", [-1, architecture.dim])
        shape = self.emit("Shape", ["ids"], "shape")
        self.batch_shape = self.emit("Concat", [shape, dim], "batch_shape", axis=0)

    def rows(self, name: str, which: str) -> str:
        return self.emit("Reshape", [self.emit("Gather", [self._weight(name), which]), self._flat])

    def add(self, left: str, right: str) -> str:
        return self.emit("Add", [left, right])

    def linear(self, x: str, name: str) -> str:
        return self.emit("Gemm", [x, self._weight(f"{name}.matrix"), self._weight(f"{name}.bias")])

    def norm(self, x: str, name: str) -> str:
        inputs = [x, self._weight(f"{name}.scale"), self._weight(f"{name}.shift")]
        return self.emit("LayerNormalization", inputs, axis=-1, epsilon=self._architecture.epsilon)

    def activate(self, x: str) -> str:
        operator, domain = _ACTIVATIONS[self._architecture.activation]
        return self.emit(operator, [x], domain=domain)

    def attention(self, query: str, key: str, value: str) -> str:
        parts = [self.emit("Reshape", [part, self.batch_shape]) for part in (query, key, value)]
        context = self.emit("MultiHeadAttention", parts, domain=_CONTRIBUTED, num_heads=self._architecture.heads)
        return self.emit("Reshape", [context, self._flat])

    def emit(self, operator: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Append a node and return the name of its only output."""
        output = output or f"{operator}.{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def model(self, name: str, output: str, shape: list[int | str]) -> bytes:
        """The nodes as an ONNX model: `ids` and `positions` (n, t) int64 to `output` float32."""
        make, kinds = self._onnx.helper, self._onnx.TensorProto
        graph = make.make_graph(
            self.nodes,
            name,
            [make.make_tensor_value_info(ids, kinds.INT64, ["n", "t"]) for ids in ("ids", "positions")],
            [make.make_tensor_value_info(output, kinds.FLOAT, shape)],
            list(self.tensors.values()),
        )
        opsets = [make.make_opsetid("", _OPSET), make.make_opsetid(_CONTRIBUTED, 1)]
        model = make.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="retrieve")
        written: bytes = model.SerializeToString()
        return written

    def _constant(self, name: str, values: list[int]) -> str:
        self.tensors[name] = self._onnx.helper.make_tensor(name, self._onnx.TensorProto.INT64, [len(values)], values)
        return name

    def _weight(self, name: str) -> str:
        if name not in self.tensors:
            extent, size = self._extents[name], 4
            tensor = self._onnx.TensorProto(name=name, dims=extent.shape, data_type=self._onnx.TensorProto.FLOAT)
            tensor.data_location = self._onnx.TensorProto.EXTERNAL
            for length in extent.shape:
                size *= length
            for key, value in {"location": WEIGHTS, "offset": extent.offset, "length": size}.items():
                tensor.external_data.add(key=key, value=str(value))
            self.tensors[name] = tensor
        return name
