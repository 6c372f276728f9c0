"""`tenants.pkl`: samples of the chunks of tenants that have many, over which an engine's scores are averaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage import pickles
from retrieve_cli.storage.bitmap import Bitmap, of_members
from retrieve_cli.storage.sampled_groups import POPULATION_ROWS, SampledGroups, sample_of, several

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.records.columns import Columns

FILE = "tenants.pkl"


def write(columns: Columns, starts: Rows, path: Path) -> int:
    """Write the samples of the tenants with more chunks than a sample has, if there are any; return their number."""
    found = {}
    if (column := columns.column(TENANT)) is not None:
        counts = np.bincount(column.values, np.diff(starts)[column.records])
        for name in map(column.text, np.flatnonzero(counts > POPULATION_ROWS).tolist()):
            chunks = of_members(columns.having(TENANT, name), starts)
            groups = (None,) if several(starts) is None else (None, starts)
            found[name] = [list(sample_of(chunks, each)) for each in groups]
    if found:
        pickles.dump(found, path)
    return len(found)


def sampled(generation: Generation, tenant: str, own: Mask) -> Mask:
    """Return the records of a tenant, with its stored samples. Raises: IndexCorrupt: the file is damaged."""
    if isinstance(own, Bitmap) and FILE in generation.manifest.files:
        stored = pickles.load(generation.file(FILE))
        try:
            own.of_chunks = [SampledGroups(*each) for each in stored.get(tenant, ())]
        except (TypeError, AttributeError) as error:
            raise IndexCorrupt(f"{FILE} is damaged ({quoted(error)})", hint="build again: retrieve build") from error
    return own
