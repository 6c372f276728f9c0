"""The process: `python -m retrieve_cli`, and the script `retrieve`.

Imports nothing of the program before an interruption (Ctrl-C) has an answer: until the command line runs there is
nothing to clean up, and an interruption anywhere in an import would otherwise print a traceback.
"""

from __future__ import annotations

import os
import signal
import sys

_CODE = 130
"""`errors.Exit.INTERRUPTED`, which is not imported yet."""


def run() -> None:
    """Entry point of the script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
        signal.signal(signal.SIGINT, _end)
    from retrieve_cli.cli.main import main

    code = main()
    if signal.getsignal(signal.SIGINT) is _end:  # all is done: an interruption of the clearing up would change nothing
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == _CODE:  # an extension that was interrupted may have left a mark by which Python ends itself by signal
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _end(*_: object) -> None:
    """Say in one line that it was interrupted, and end at once."""
    as_json = any(word.startswith(("--json", "--format=json", "jsonl", "json")) for word in sys.argv[1:])
    said = b'{"error": {"code": 130, "kind": "interrupted", "message": "interrupted", "hint": ""}}\n'
    os.write(2, said if as_json else b"error: interrupted\n")
    os._exit(_CODE)


if __name__ == "__main__":
    run()
