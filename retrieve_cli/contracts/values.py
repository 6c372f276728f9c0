"""Names of types and limits that all parts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Terms = NDArray[np.int32]
    Mask = NDArray[np.bool_]

Json = Any
"""A value that JSON can hold."""

Freshness = Literal["fresh", "changed", "deleted"]
"""Freshness of a hit, compared with the current state of its source."""

SourceKind = Literal["catalog", "docs"]

Unit = Literal["record", "chunk"]
"""Unit of a row in an index, or of a hit in a ranking."""

Card = Mapping[str, Json]
"""Parameters of one part that change its answers; hashed into the recipe as canonical JSON."""

Kind = Literal["retrieve", "fuse", "merge", "rerank", "expand", "boost", "cut"]
"""The task of a stage in a pipeline."""

LONGEST_FACET = 300
"""Characters of a facet; longer ones are cut."""

HEAD = 4096
"""First bytes of a file by which a reader of documents recognises its format."""

HIGHEST_BOOST = 10.0
"""The largest factor by which a request or the configuration may boost hits."""

Q_contra = TypeVar("Q_contra", contravariant=True)
"""Form of the query that an index takes: a text, a vector, term weights."""
