"""Entry point of the process: `python -m retrieve_cli`, and the script `retrieve`.

It handles interruptions (Ctrl-C) before it imports the rest of the program: until the command line runs there is
nothing to clean up, and an interruption during an import would otherwise print a traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

_CODE = 130
"""`errors.Exit.INTERRUPTED`, which is not imported yet."""
_OBJECTS = 100_000
"""New containers between two runs of the garbage collector: a query and its imports create 52,000 and drop few."""


def run() -> None:
    """Entry point of the script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # ignored in background jobs
        signal.signal(signal.SIGINT, _end)
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    from retrieve_cli.cli.main import main

    code = main()
    if signal.getsignal(signal.SIGINT) is _end:  # the work is done: an interruption would change nothing
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == _CODE:  # an interrupted extension may have set a mark with which Python would exit by signal
        sys.stdout.flush()
        os._exit(code)
    _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process without freeing every module and array first, which takes as long as a search.

    Functions registered with `atexit` run and output is flushed, as at a normal exit. Return if there is more to do:
    threads to wait for, an active profiler, an output that cannot be flushed; or if a plug-in was loaded, which may
    leave files for Python to flush and close.
    """
    import threading

    from retrieve_cli.config.plugins import load

    if threading.active_count() > 1 or load.cache_info().misses or sys.flags.inspect or _watched():
        return
    atexit._run_exitfuncs()  # noqa: SLF001  there is no public way to run them before `os._exit`
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # Python reports it at exit, with another exit code
        return
    os._exit(code)


def _watched() -> bool:
    """Return True if a profiler, a debugger or a coverage tool traces this thread."""
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    tools = map(monitoring.get_tool, range(6)) if monitoring is not None else ()
    return sys.getprofile() is not None or sys.gettrace() is not None or any(tools)


def _end(*_: object) -> None:
    """Report the interruption in one line, and exit immediately."""
    as_json = any(word.startswith(("--json", "--format=json", "jsonl", "json")) for word in sys.argv[1:])
    message = b'{"error": {"code": 130, "kind": "interrupted", "message": "interrupted", "hint": ""}}\n'
    os.write(2, message if as_json else b"error: interrupted\n")
    os._exit(_CODE)


if __name__ == "__main__":
    run()
