"""What tests ask of the processor: one thread for each worker, and the kernels that OPENBLAS_CORETYPE names.

OpenBLAS does not check: told to use the kernels of a processor that this one is not like, it ends with an illegal
instruction. A name that it does not know is ignored, and it takes what it would have taken anyway.
"""

import os
from pathlib import Path

for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # imported before NumPy: the workers side by side are the threads
    os.environ.setdefault(f"{pool}_NUM_THREADS", "1")

NEEDED = {
    "Prescott": {"pni"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"},
}
"""Flags of /proc/cpuinfo, by kind of kernels."""


def lacking(core: str) -> set[str]:
    """What this processor lacks to run the kernels of another; nothing for a name that is not listed."""
    info = Path("/proc/cpuinfo")
    if core not in NEEDED or not info.exists():
        return set()
    lines = [line for line in info.read_text().splitlines() if line.startswith("flags")]
    return NEEDED[core] - set(lines[0].split()) if lines else set()


def found() -> str:
    """The kernels that OpenBLAS takes by itself here."""
    import numpy  # noqa: F401, ICN001  it loads the library that is asked
    from threadpoolctl import threadpool_info

    return next((str(pool["architecture"]) for pool in threadpool_info() if pool["internal_api"] == "openblas"), "")


if __name__ == "__main__":
    print(found())
