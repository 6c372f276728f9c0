"""A process that parses documents reaches neither the network nor other processes, and changes no file."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sources.formats.sandbox.asking import request, text_of
from sources.formats.sandbox.odd_parsers import ATTEMPTS, FORBIDDEN, OF_PROCESSES

from retrieve_cli.sources.formats.processes import kernel_rules, process
from retrieve_cli.sources.formats.processes.pool import ParserPool
from retrieve_cli.sources.formats.processes.process import Process

BY_SYSTEM_CALL = ("socket", "udp", "unix", "chmod", "run", "fork", "kill")
"""Deeds that the filter of system calls forbids; Landlock forbids the others."""
COMPLETE = 3
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these rules")


def arguments(deed: str, file: Path) -> list[str]:
    """Return the arguments of a deed."""
    return {"kill": [str(os.getpid())], "socket": [], "udp": [], "unix": [], "run": [], "fork": []}.get(
        deed, [str(file)]
    )


@LINUX
@pytest.mark.parametrize("deed", FORBIDDEN)
def test_native_code_that_a_document_has_taken_over_is_stopped_by_the_kernel(
    pool: ParserPool, tmp_path: Path, deed: str
) -> None:
    if deed not in BY_SYSTEM_CALL and kernel_rules.landlock() < COMPLETE:
        pytest.skip("this kernel has no Landlock that covers all changes of files (version 3, Linux 6.2)")
    file = tmp_path / "victim"
    file.write_text("as it was")
    mode = file.stat().st_mode
    said = text_of(pool, request(tmp_path, "attempt", [deed, "native", *arguments(deed, file)]))
    assert said.startswith("rejected: [Errno ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.odd", "victim"]
    assert (file.read_text(), file.stat().st_mode) == ("as it was", mode)


@LINUX
@pytest.mark.parametrize("deed", ATTEMPTS)
def test_native_code_reaches_no_file_terminal_or_process_of_the_user(
    pool: ParserPool, tmp_path: Path, deed: str
) -> None:
    if lacks := kernel_rules.missing():
        pytest.skip("; ".join(lacks))
    file = tmp_path / "secret"
    file.write_text("a secret")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with other:
        argument = str(other.pid) if deed in OF_PROCESSES else str(file)
        said = text_of(pool, request(tmp_path, "attempt", [deed, "native", argument]))
        assert other.poll() is None
    assert said.startswith(("rejected: [Errno 1] ", "rejected: [Errno 13] ")), said


@LINUX
def test_a_process_that_parses_has_a_session_of_its_own(pool: ParserPool, tmp_path: Path) -> None:
    pid = int(text_of(pool, request(tmp_path, "pid")))
    assert os.getsid(pid) == pid != os.getsid(0)


GUARDED = """
import sys
from sources.formats.sandbox import odd_parsers
from retrieve_cli.sources.formats.processes import confinement
sys.addaudithook(confinement._guard)
print(odd_parsers._attempt([sys.argv[1], "", *sys.argv[2:]]))
"""


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_python_code_is_stopped_by_a_guard_where_the_kernel_has_no_rules(tmp_path: Path, deed: str) -> None:
    file = tmp_path / "victim"
    file.write_text("as it was")
    paths = os.pathsep.join([str(Path(__file__).parents[3]), str(Path(__file__).parents[4])])
    words = [sys.executable, "-c", GUARDED, deed, *arguments(deed, file)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.stdout.startswith("rejected: a process that parses documents"), done.stderr
    assert file.read_text() == "as it was"


def test_what_a_kernel_lacks_is_said_once(monkeypatch, capsys) -> None:
    monkeypatch.setattr(kernel_rules, "landlock", lambda: 0)
    process.report_missing_protection.cache_clear()
    for _ in range(2):
        with closing(Process(256 << 20)):
            pass
    said = capsys.readouterr().err
    assert said.count("Documents are parsed with less protection here: files are not protected") == 1
    process.report_missing_protection.cache_clear()
