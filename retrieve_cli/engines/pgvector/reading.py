"""Contents of rows, read from their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.engines.pgvector import wire
from retrieve_cli.engines.pgvector.connections import Connections, statement
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from psycopg.sql import Identifier

    from retrieve_cli.contracts.values import Rows, Vectors


def read_vectors(connections: Connections, table: Identifier, rows: Rows, *, dim: int) -> Vectors:
    """Return the vectors of some rows, (m, dim) float32. Raises: IndexCorrupt: a row is missing."""
    wanted, places = np.unique(rows, return_inverse=True)
    found = connections.query(
        statement('SELECT "row", embedding FROM {table} WHERE "row" = ANY(%(rows)b::integer[])', table=table),
        {"rows": wire.integers(wanted)},
    )
    order = located(np.array([row for row, _ in found], dtype=np.int64), wanted)
    return wire.to_vectors([found[place][1] for place in order.tolist()], dim)[places]


def read_weights(connections: Connections, table: Identifier, rows: Rows) -> list[TermWeights]:
    """Return the term weights of some rows, terms ascending. Raises: IndexCorrupt: a row is missing."""
    wanted, places = np.unique(rows, return_inverse=True)
    found = connections.query(
        # As bytes, for the client makes a Python object of each number of an array.
        statement(
            'SELECT "row", array_send(terms), array_send(weights) FROM {table} WHERE "row" = ANY(%(rows)b::integer[])',
            table=table,
        ),
        {"rows": wire.integers(wanted)},
    )
    order = located(np.array([row for row, _, _ in found], dtype=np.int64), wanted)
    read = [TermWeights(wire.to_integers(terms), wire.to_reals(weights)) for _, terms, weights in found]
    return [read[order[place]] for place in places.tolist()]


def located(found: Rows, wanted: Rows) -> NDArray[np.intp]:
    """Return the place in `found` of each of the wanted rows, which ascend. Raises: IndexCorrupt: one is missing."""
    order = np.argsort(found, kind="stable")
    if not np.array_equal(found[order], wanted):
        missing = np.setdiff1d(wanted, found)
        hint = "run `retrieve engines push`, which stores the generation again"
        raise IndexCorrupt(
            f"PostgreSQL lacks {len(missing)} rows of the index, such as {missing[:3].tolist()}", hint=hint
        )
    return order
