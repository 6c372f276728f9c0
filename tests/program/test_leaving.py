"""The end of the process: nothing is taken apart that the system frees anyway, and nothing is lost."""

import subprocess
import sys
from pathlib import Path

RUN = "from retrieve_cli.__main__ import run; sys.argv = ['retrieve', *sys.argv[1:]]; run()"
LATER = "import atexit\natexit.register(print, 'at exit')"
THREAD = "import threading as t\nt.Thread(target=lambda: (t.main_thread().join(), print('thread'))).start()"
"""Prints when the main thread has ended, which waits for it."""


def python(*lines: str, arguments: tuple[str, ...] = ("--version",)) -> subprocess.CompletedProcess[str]:
    """The end of a process that runs some lines, then the program."""
    code = "\n".join(("import sys", *lines, RUN))
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def test_what_was_to_run_at_exit_runs() -> None:
    assert python(LATER).stdout.endswith("at exit\n")


def test_threads_are_waited_for() -> None:
    assert python(THREAD, LATER).stdout.endswith("thread\nat exit\n")


def test_the_exit_code_of_an_error_and_its_sentence_arrive() -> None:
    done = python(arguments=("query", "x", "--artifacts", "nowhere"))
    assert done.returncode == 4
    assert done.stderr.startswith("error: there is no index in nowhere yet")


def test_output_that_cannot_be_written_is_no_success() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "retrieve_cli", "--version"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode != 0
