"""Packages of npm that tests need, fetched into build/ once."""

import shutil
import subprocess
from pathlib import Path

import pytest
from samples import ROOT
from waiting import PATIENCE_S


def installed(name: str, *packages: str) -> Path:
    """Return the node_modules folder with these packages; the test is skipped if npm cannot fetch them."""
    folder = ROOT / "build" / name
    done_mark = folder / ".complete"
    if not done_mark.is_file():
        if (npm := shutil.which("npm")) is None:
            pytest.skip(f"{packages[0]} is fetched by npm, which is not installed: apt-get install npm")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot fetch {packages[0]}: {done.stderr.strip()[-200:]}")
        done_mark.touch()
    return folder / "node_modules"
