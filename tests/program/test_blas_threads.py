"""A program that uses the library keeps its own setting of OpenBLAS, and an answer stays on one core."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are told by /proc")

PROGRAM = """
import os, sys
from pathlib import Path

def switches(threads):
    tasks = ((name, Path(f"/proc/self/task/{name}/status").read_text()) for name in threads)
    return {name: [line for line in text.splitlines() if line.startswith("voluntary_ctxt")] for name, text in tasks}

before = set(os.listdir("/proc/self/task"))
import numpy as np
blas = set(os.listdir("/proc/self/task")) - before

import json
from concurrent.futures import ThreadPoolExecutor
import retrieve_cli.cli.main  # says in the environment that one thread is enough, too late for NumPy
from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.cores import openblas
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

def asleep():
    while not all("\\nState:\\tS" in Path(f"/proc/self/task/{name}/status").read_text() for name in blas):
        os.sched_yield()
    return switches(blas)

opened = Opened.of(Store(Path(sys.argv[1])), load(None))
texts = ["segment lungs in chest CT", "register two brain scans", "count cells in microscopy images", "read DICOM"]
count = openblas()[0]() if openblas() else 0
idle = asleep()
for given in ({}, {"unit": "chunk"}, {"mode": "dense"}, {"route": True}, {"expand": True, "dependencies": True}):
    for text in (*texts, "how to " + "segment the lungs and the liver in a scan of the chest " * 9):
        Searcher(opened, opened.options(**given)).answer([Request(text)])
Searcher(opened).answer([Request(text, id=f"{text}{at}") for at, text in enumerate(texts * 5)])
with ThreadPoolExecutor(2) as threads:
    list(threads.map(lambda text: Searcher(opened).answer([Request(text)]), texts * 5))
answered = asleep()
after = openblas()[0]() if openblas() else 0
np.ones((600, 600)) @ np.ones((600, 600))
print(json.dumps({"threads": len(blas), "counts": [count, after], "woken by answers": answered != idle,
                  "woken by the program": asleep() != answered}))
"""


def test_no_thread_of_openblas_wakes_for_an_answer_and_the_program_keeps_its_setting(sample_index: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(sample_index)],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        | {"RETRIEVE_ENCODER__KIND": "auto"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["threads"]:
        pytest.skip("this NumPy, or this machine, has one thread")
    both = [found["threads"] + 1] * 2
    expected = {"counts": both, "woken by answers": False, "woken by the program": True}
    assert found == {"threads": found["threads"], **expected}
