"""The forward pass written down as an ONNX graph whose weights stay in the safetensors file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from retrieve_cli.models.runtimes.bert import Architecture, forward
from retrieve_cli.models.runtimes.exports import WEIGHTS
from retrieve_cli.models.runtimes.packages import require

if TYPE_CHECKING:
    from retrieve_cli.models.runtimes.tensors import Extent

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
        taken = self.emit("Gather", [self._weight(name), which])
        return self.emit("Reshape", [taken, self._flat])

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
        heads = self._architecture.heads
        context = self.emit("MultiHeadAttention", parts, domain=_CONTRIBUTED, num_heads=heads)
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
        kind = self._onnx.TensorProto.INT64
        self.tensors[name] = self._onnx.helper.make_tensor(name, kind, [len(values)], values)
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
