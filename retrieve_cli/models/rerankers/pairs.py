"""Pairs of a query and a passage as rows of tokens; a passage that is too long becomes several rows, its windows.

Rows to scores on a CPU, by `onnx_runner.py`: the encoder of `bert.py` with a head, written without torch as a graph.

The two segments of a pair are two halves of one table of positions: the row of a token in the second text is its
position plus the length of the first half, so that the graph adds two rows a token, as it does for one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.models.rerankers.cross_folder import CrossFolder
from retrieve_cli.models.runtimes.bert import Architecture, arrange, forward, no_tensor
from retrieve_cli.models.runtimes.exports import Contents, Export
from retrieve_cli.models.runtimes.onnx_runner import GraphOperations, OnnxRunner
from retrieve_cli.models.runtimes.tensors import Digests, Extent, read, to_float32
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, parse
from retrieve_cli.storage.manifest import sha1


class PairRow(Frozen):
    """One pair as the model reads it."""

    ids: list[int]
    """Token ids, special tokens included."""
    segments: list[int]
    """Parallel to `ids`: 0 for the query's half, 1 for the passage's; all 0 where the model makes no difference."""


class PairWindows(Frozen):
    """Rows that fit, and for each the place of the passage that it is a part of."""

    rows: list[PairRow]
    owners: list[int]


class PairReader(Protocol):
    """Lays out pairs as its model wants them."""

    def rows(self, query: str, passages: Sequence[str]) -> list[PairRow]:
        """A row for each passage, however long."""

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Character span of each token of a text, without special tokens."""


class PairTokenizer(ModelTokenizer):
    """`PairReader` over a tokenizer.json."""

    def __init__(self, path: Path, *, lowercase: bool, segmented: bool, prompt: str) -> None:
        super().__init__(lambda: parse(path), lowercase=lowercase)
        self._segmented = segmented
        self._prompt = prompt

    def rows(self, query: str, passages: Sequence[str]) -> list[PairRow]:
        [first] = self._plain([self._prompt + query])
        pairs = (self._tokenizer.post_process(first, second) for second in self._plain(passages))
        return [PairRow(pair.ids, pair.type_ids if self._segmented else [0] * len(pair.ids)) for pair in pairs]


def shortened(reader: PairReader, query: str, *, max_tokens: int) -> str:
    """Return the query, cut so that half of the tokens are left for the passage; special tokens do not count."""
    [bare] = reader.rows("", [""])
    half = max(1, (max_tokens - len(bare.ids)) // 2)
    spans = reader.spans(query)
    return query if len(spans) <= half else query[: spans[half - 1][1]]


def windows(reader: PairReader, query: str, passages: Sequence[str], *, max_tokens: int, stride: float) -> PairWindows:
    """Rows of at most `max_tokens`; each window starts `stride` of a window after the one before.

    Raises:
        UsageError: the query and the special tokens leave no space for a passage that does not fit.
    """
    bare, filled, *whole = reader.rows(query, ["", "x", *passages])
    head, tail = frame(bare.ids, filled.ids)
    cut = PairWindows([], [])
    for owner, row in enumerate(whole):
        fits = len(row.ids) <= max_tokens
        pieces = [row] if fits else list(_pieces(row, head, tail, max_tokens=max_tokens, stride=stride))
        cut.rows.extend(pieces)
        cut.owners.extend([owner] * len(pieces))
    return cut


def frame(bare: Sequence[int], filled: Sequence[int]) -> tuple[int, int]:
    """Return the number of tokens before and after the passage, from a row without one and a row with a short one."""
    tail = _alike(bare[::-1], filled[::-1])
    return min(_alike(bare, filled), len(bare) - tail), tail


def stretches(count: int, room: int, *, stride: float) -> Iterator[tuple[int, int]]:
    """Stretches of `room` tokens that cover 0..count, the last one moved back so that it is as long as the others."""
    step = max(1, int(room * stride))
    start = 0
    while start + room < count:
        yield start, start + room
        start += step
    yield max(0, count - room), count


def _pieces(row: PairRow, head: int, tail: int, *, max_tokens: int, stride: float) -> Iterator[PairRow]:
    room = max_tokens - head - tail
    if room < 1:
        message = f"{max_tokens} tokens leave no space for a passage: the query and its frame take {head + tail}."
        raise UsageError(message, hint="raise `max_tokens`")
    after = len(row.ids) - tail
    for start, end in stretches(after - head, room, stride=stride):
        parts = ([*part[:head], *part[head + start : head + end], *part[after:]] for part in (row.ids, row.segments))
        yield PairRow(*parts)


def _alike(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many items from the start are the same in both."""
    different = (place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)
    return next(different, min(len(left), len(right)))


if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Vectors

    Stored = NDArray[Any]
_LAYOUT = 1
"""Raised when the head or its graph changes, so that older exports are made again."""
_HEADS = {
    "bert": {"inner": "pooler.dense", "outer": "classifier"},
    "roberta": {"inner": "classifier.dense", "outer": "classifier.out_proj"},
}
"""Names in a checkpoint of the two layers between the first token's state and the logit (tanh between them)."""


_ACTIVATIONS: Mapping[str, Callable[[Vectors], Vectors]] = {
    "Identity": lambda logits: logits,
    # In double precision no logit overflows.
    "Sigmoid": lambda logits: (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32),
    "Tanh": np.tanh,
}


def why_not(folder: CrossFolder) -> str:
    """Why onnxruntime cannot run this cross-encoder here, in a few words; nothing where it can."""
    if folder.chats:
        return "the model reads pairs through a chat template"
    if not folder.labelled:
        return "the model has custom modules"
    if folder.activation not in _ACTIVATIONS:
        return f"the graph has no activation {folder.activation}"
    if folder.model.weights[0].suffix != ".safetensors":
        return "the model has no safetensors file"
    if not (folder.path / "tokenizer.json").is_file():
        return "the model has no tokenizer.json"
    try:
        Architecture.read(folder.model.config)
    except Unavailable:
        return f"the graph does not know this {folder.model.config.get('model_type')}"
    return ""


class OnnxPairs(PairTokenizer):
    """Pair scores of models of the BERT family, by an exported graph."""

    def __init__(self, folder: CrossFolder, *, cache_dir: Path, batch_size: int | None, threads: int | None) -> None:
        path, lowercase = folder.path / "tokenizer.json", folder.model.lowercase
        super().__init__(path, lowercase=lowercase, segmented=folder.segmented, prompt=folder.prompt)
        self._activation = _ACTIVATIONS[folder.activation]
        self._first_half = int(folder.model.config["max_position_embeddings"])
        """Rows of the position table before the rows of the second text."""
        export = partial(cross_export, folder, cache_dir)
        architecture = Architecture.read(folder.model.config)
        self._runner = OnnxRunner(export, architecture, threads=threads, batch_size=batch_size)

    def scores(self, rows: Sequence[PairRow]) -> Vectors:
        """(n,) float32."""
        logits = np.zeros(len(rows), dtype=np.float32)

        def keep(place: int, logit: Vectors) -> None:
            logits[place] = logit[0, 0]

        shifts = [np.array(row.segments, dtype=np.int64) * self._first_half for row in rows]
        self._runner.run([row.ids for row in rows], keep, shifts=shifts)
        return self._activation(logits)


def cross_export(folder: CrossFolder, cache_dir: Path, digests: Digests | None = None) -> Export:
    """The export of the cross-encoder, which may not be written yet."""

    def contents() -> Contents:
        architecture = Architecture.read(folder.model.config)
        head = _HEADS["bert" if architecture.padding is None else "roberta"]
        tensors = _arranged(read(folder.model.weights), architecture, head=head, segmented=folder.segmented)
        return tensors, partial(write_cross_graph, architecture)

    revision = sha1({"revision": folder.revision(digests or Digests(cache_dir)), "layout": _LAYOUT})
    return Export(cache_dir, folder.name, revision, contents, suffix="-cross")


def _arranged(
    checkpoint: Mapping[str, Stored], architecture: Architecture, *, head: Mapping[str, str], segmented: bool
) -> dict[str, Stored]:
    """The encoder's tensors, both halves of its table of positions, and the head's two layers."""

    def tensor(name: str) -> Stored:
        for key, stored in checkpoint.items():
            if key == name or key.endswith(f".{name}"):
                return stored
        raise no_tensor(name)

    arranged = arrange(checkpoint, architecture)
    if segmented:
        kinds = to_float32(tensor("embeddings.token_type_embeddings.weight"))
        first = to_float32(tensor("embeddings.position_embeddings.weight"))
        arranged["position"] = np.concatenate([first + kinds[0], first + kinds[1]])
    for ours, theirs in head.items():
        arranged[f"head.{ours}.matrix"] = tensor(f"{theirs}.weight").T
        arranged[f"head.{ours}.bias"] = tensor(f"{theirs}.bias")
    return arranged


def write_cross_graph(architecture: Architecture, extents: Mapping[str, Extent]) -> bytes:
    """An ONNX model: `ids` and `positions` (n, t) int64 to `logits` (n, 1) float32."""
    ops = GraphOperations(architecture, extents)
    below = replace(architecture, layers=architecture.layers - 1)
    states = forward(ops, below, ids="ids", positions="positions")
    state = _last_layer(ops, architecture, states)
    inner = ops.emit("Tanh", [ops.linear(state, "head.inner")])
    ops.emit("Identity", [ops.linear(inner, "head.outer")], "logits")
    return ops.model("cross-encoder", "logits", ["n", 1])


def _last_layer(ops: GraphOperations, architecture: Architecture, states: str) -> str:
    """The first token's state (n, dim) after the last layer.

    The head reads no other: of the rest only keys and values are needed, which saves five sixths of the layer.
    """
    layer, heads = f"layer.{architecture.layers - 1}", architecture.heads
    one = ops.emit("Constant", [], value_ints=[1])
    zero = ops.emit("Constant", [], value_int=0)
    first = ops.emit("Gather", [ops.emit("Reshape", [states, ops.batch_shape]), zero], axis=1)
    query = ops.emit("Unsqueeze", [ops.linear(first, f"{layer}.query"), one])
    key, value = (
        ops.emit("Reshape", [ops.linear(states, f"{layer}.{part}"), ops.batch_shape]) for part in ("key", "value")
    )
    context = ops.emit("MultiHeadAttention", [query, key, value], domain="com.microsoft", num_heads=heads)
    context = ops.emit("Squeeze", [context, one])
    state = ops.norm(ops.add(ops.linear(context, f"{layer}.attention"), first), f"{layer}.attention")
    inner = ops.activate(ops.linear(state, f"{layer}.inner"))
    return ops.norm(ops.add(ops.linear(inner, f"{layer}.outer"), state), f"{layer}.outer")
