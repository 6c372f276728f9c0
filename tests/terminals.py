"""The program at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

from samples import ROOT


def at_terminal(width: int, *words: str, **environment: str) -> str:
    """What a command prints at a terminal of a width."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    env = {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}
    with subprocess.Popen([sys.executable, "-m", "retrieve_cli", *words], stdout=terminal, env=env) as started:
        os.close(terminal)
        parts = []
        while True:
            try:
                part = os.read(controller, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        os.close(controller)
    assert started.returncode == 0
    return b"".join(parts).decode().replace("\r\n", "\n")
