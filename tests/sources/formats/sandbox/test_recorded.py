"""The system calls that parsers are granted cover those of a run over files of all formats, recorded by strace."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REFUSED = {"ioctl", "epoll_create1", "mbind"}
"""Calls that libraries try and do without: is this a terminal, is there epoll, where is the memory."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_parser_is_refused_a_system_call_that_it_needs(tmp_path: Path) -> None:
    trace, tests = tmp_path / "trace", Path(__file__).parents[3]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tier=all"]
    words += ["sources/formats/sandbox/test_same_results.py"]
    done = subprocess.run(["strace", "-f", "-qq", "-o", trace, *words], cwd=tests, capture_output=True, text=True)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stdout
    confined, calls, refused = set(), set(), set()
    for line in trace.read_text(errors="replace").splitlines():
        pid, _, said = line.partition(" ")
        if "PR_SET_SECCOMP" in said:
            confined.add(pid)
        elif pid in confined and (call := re.match(r"\s*(\w+)\(", said)):
            calls.add(call[1])
            refused |= {call[1]} if said.endswith("EPERM (Operation not permitted)") else set()
    assert "mmap" in calls
    assert refused <= REFUSED
