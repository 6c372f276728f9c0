"""What is built and what is scored with the hashed encoder has the same bits whichever processor NumPy sees.

A process of its own for each kernel of OpenBLAS and each set of NumPy's instructions. What a neural encoder makes of a
text does depend on the processor in its last bits; its model card does not say which one that was, so that vectors
from the cache may come from another: all laws hold for the vectors that an index has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.bits

KERNELS = ["Haswell", "SkylakeX", "Zen", "Prescott"]
PROGRAM = """
import hashlib, sys
from pathlib import Path
import numpy as np
from retrieve_cli.cli.main import main
from retrieve_cli.retrieval.retrievers.vector_index import open_index

assert main(["build", "--catalog", "tools.jsonl", "--quiet"]) == 0
(folder,) = Path("artifacts/generations").iterdir()
files = sorted(path for path in folder.iterdir() if path.name != "manifest.json")
print(folder.name, hashlib.sha1(b"".join(path.read_bytes() for path in files)).hexdigest())
index = open_index(folder / "dense.faiss", hnsw_ef_search=1)
query = np.random.default_rng(0).standard_normal(index.dim).astype(np.float32)
(found,) = index.search([query], depth=50)
print(hashlib.sha1(found.rows.tobytes() + found.scores.tobytes()).hexdigest())
"""


def environments() -> list[dict[str, str]]:
    """Kernels of OpenBLAS, then the instructions that NumPy may do without."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[attr-defined]

    known = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    fewer = [" ".join(known[at:]) for at in range(len(known))]
    return [{"OPENBLAS_CORETYPE": name} for name in KERNELS] + [{"NPY_DISABLE_CPU_FEATURES": names} for names in fewer]


def test_an_index_and_its_scores_are_the_same_on_every_processor(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(300)]
    generator = np.random.default_rng(0)
    lines = [
        {"id": f"t{n}", "name": f"tool {n}", "description": " ".join(generator.choice(words, 40))} for n in range(400)
    ]
    seen = {}
    for place, environment in enumerate(environments()):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "tools.jsonl").write_text("\n".join(map(json.dumps, lines)))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "RETRIEVE_BM25__UNIT": "chunk", **environment},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen[str(environment)] = done.stdout.splitlines()[-2:]
    assert all(lines == seen[str(environments()[0])] for lines in seen.values()), seen
