"""What a forked child runs: the program within limits. Importing this module loads what every child needs."""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from program.clones import Watch

import retrieve_cli
from retrieve_cli.cli.main import main

ADDRESSES = 3 << 30
"""Bytes of address space: memory, and libraries, which take 0.8 GB of it before a child begins."""
CPU_S = 20
FILE = 256 << 20
"""Bytes of any file that a child writes, its output included."""
WATCHED = "WATCHED"
"""Names the variable with a folder that a child must not open; nor may it connect to anything."""
_LOADED = ("Stemmer", "rich.table", "yaml", "pydicom", "nibabel", "tifffile", "nrrd", "PIL.Image", "pyoxigraph",
           "obonet", "ir_measures", "scipy.stats", "jinja2", "matplotlib.figure")  # fmt: skip
_ROOMS = ("cli", "evaluation", "http", "ingest", "operations", "output", "retrieval", "search", "sources", "storage",
          "untrusted")  # fmt: skip


def limited(arguments: list[str]) -> int:
    """Run the program within the limits. What a watched child must not do is noted in `canary`."""
    apply()
    watch = Watch(Path(os.environ[WATCHED])) if WATCHED in os.environ else None
    code = main(arguments)
    if watch and watch.found:
        Path("canary").write_text(str(watch.found[0]))
    return code


def planted(arguments: list[str]) -> int:
    """Be a program with a fault: Python statements, the first argument, run within the limits."""
    apply(cpu_s=1)
    exec(arguments[0], {"os": os})  # the test's own text
    return 0


def apply(*, cpu_s: int = CPU_S) -> None:
    """Limit what this process may use from now on."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))


def _modules() -> Iterator[str]:
    yield from (name for name in _LOADED if find_spec(name.partition(".")[0]))
    for room in _ROOMS:
        folder = Path(retrieve_cli.__file__).with_name(room)
        yield from (info.name for info in pkgutil.walk_packages([str(folder)], f"retrieve_cli.{room}."))


def _load() -> None:
    """Load the modules, and spaCy without torch, which it looks for: 200 MB for every fork to copy."""
    for name in _modules():
        importlib.import_module(name)
    if find_spec("spacy"):
        sys.modules["torch"] = None  # type: ignore[assignment]
        importlib.import_module("spacy")
        del sys.modules["torch"]


_load()
