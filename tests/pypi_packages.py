"""Programs of PyPI that tests start, each set in an environment of its own below build/, made once."""

import subprocess
import sys
from pathlib import Path

import pytest
from samples import ROOT
from waiting import PATIENCE_S


def programs(name: str, *packages: str) -> Path:
    """Return the folder of the programs of these packages; the test is skipped if pip cannot fetch them."""
    folder = ROOT / "build" / name
    done_mark = folder / ".complete"
    if not done_mark.is_file():
        for command in ([sys.executable, "-m", "venv", folder], [folder / "bin" / "pip", "install", "-q", *packages]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            if done.returncode:
                pytest.skip(f"pip cannot fetch {packages[0]}: {done.stderr.strip()[-200:]}")
        done_mark.touch()
    return folder / "bin"
