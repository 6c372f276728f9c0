"""The BM25 of a generation as another build would have made it: in memory, from what the generation holds.

Measuring a formula or the weights of fields needs no second index on the disk: the stored term frequencies give any
formula, and the stored texts an index without weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Field, Index, Json
from retrieve_cli.errors import UsageError
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.assemble.pipelines import Indexes
    from retrieve_cli.retrievers.bm25 import Formula

FORMULA = ("variant", "k1", "b")
"""Keys of the section `bm25` that change its formula and nothing else."""


def formula_of(generation: Generation, **changes: Any) -> Formula:
    """The formula that the generation was built with, `changes` in its place.

    Raises:
        UsageError: its engine has no formula to change.
    """
    from retrieve_cli.retrievers.bm25 import Formula

    recipe = generation.manifest.recipe["bm25"]
    if recipe["backend"] != "impacts":
        hint = "build with bm25.backend: impacts"
        raise UsageError(f"the BM25 of this index, {recipe['backend']}, has a fixed formula", hint=hint)
    return Formula(**{**{key: recipe[key] for key in FORMULA}, **changes})


def reweighted(indexes: Indexes, formula: Formula) -> Index:
    """The BM25 index with another formula."""
    from retrieve_cli.retrievers.bm25 import Bm25Index

    if not isinstance(indexes.bm25, Bm25Index):
        raise UsageError("this BM25 has a fixed formula", hint="build with bm25.backend: impacts")
    return indexes.bm25.reweighted(formula)


def without_field_weights(generation: Generation) -> Index:
    """The BM25 index of the same texts, each word counted as often as it stands there, in whichever field."""
    from retrieve_cli.retrievers.analyzer import Analyzer
    from retrieve_cli.retrievers.bm25 import Bm25Index, Bm25Writer

    recipe = generation.manifest.recipe["bm25"]
    card = recipe["analyzer"]
    analyzer = Analyzer(stemming=card["stemming"], stop_words=card["stop_words"])
    writer = Bm25Writer(analyzer=analyzer, unit=recipe["unit"], formula=formula_of(generation))
    for text in _record_texts(generation) if recipe["unit"] == "record" else _chunk_texts(generation):
        writer.add([Field("text", text)])
    return Bm25Index(writer.stored())


def _chunk_texts(generation: Generation) -> Iterator[str]:
    return (f"{chunk['header']}{chunk['text']}" for chunk in generation.chunks)


def _record_texts(generation: Generation) -> Iterator[str]:
    """The text of each record, put together from its chunks, which may overlap."""
    for first, end in zip(generation.starts[:-1], generation.starts[1:], strict=True):
        yield _joined([generation.chunks[row] for row in range(int(first), int(end))])


def _joined(chunks: list[Mapping[str, Json]]) -> str:
    pieces, at = [], 0
    for chunk in chunks:
        start, end = int(chunk["start"]), int(chunk["end"])
        if end > at:
            pieces.append(" " * (start > at) + chunk["text"][max(0, at - start) :])
            at = end
    return "".join(pieces)
