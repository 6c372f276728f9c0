"""Pictures of the program at a terminal: it is run in a pseudo-terminal, and its output rendered as SVG by rich.

    python docs/screens/make.py [--out DIR]

The same sources give the same bytes: nothing in a picture tells a time, a folder or a generation.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""What rich fills in; its own format loads fonts from the network."""
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DARK = TerminalTheme(
    (24, 26, 31), (208, 211, 217),
    [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123),
     (97, 175, 239), (198, 120, 221), (86, 182, 194), (208, 211, 217)],
)  # fmt: skip
LIGHT = TerminalTheme(
    (255, 255, 255), (36, 41, 47),
    [(36, 41, 47), (207, 34, 46), (17, 99, 41), (133, 77, 0),
     (9, 105, 218), (130, 80, 223), (27, 124, 131), (110, 119, 129)],
)  # fmt: skip
PROGRAM = (sys.executable, "-m", "retrieve_cli")
THEMES = {"dark": DARK, "light": LIGHT}
LUNGS = ("query", "segment lungs in CT", "-k", "4")
GUIDE = ("query", "how do I rotate a password", "-k", "3", "--artifacts", "guides")


class Screen(NamedTuple):
    """A command, and the widths that it is shown at."""

    name: str
    words: tuple[str, ...]
    widths: tuple[int, ...]


SCREENS = (
    Screen("query", LUNGS, (60, 80, 120)),
    Screen("documents", GUIDE, (80,)),
)
GUIDES = {
    "accounts/passwords.md": """# Passwords

## Rotate a password

A password is rotated every ninety days, and at once if it may have leaked. Run `account rotate NAME`: it makes a new
password, writes it to the vault and ends all sessions of the account.

## Recover an account

A user who has lost a password asks the desk for a link. The link is valid for an hour.
""",
    "accounts/keys.md": """# Keys of services

A service has a key and no password. Keys are rotated by the scheduler; to rotate one by hand, remove it from the
vault and restart the service.
""",
    "storage/backups.md": """# Backups

## Restore a database

Stop the writers, choose a snapshot, and run `restore SNAPSHOT`. The password of the archive is kept in the vault.
""",
}


def main() -> int:
    """Write the pictures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="Folder of the pictures.")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        work = Path(folder)
        build(work)
        for screen in SCREENS:
            for width in screen.widths:
                text = at_terminal(screen.words, work, width=width)
                for theme in THEMES:
                    name = f"{screen.name}-{theme}-{width}"
                    (out / f"{name}.svg").write_text(picture(screen.words, text, width=width, name=name), "utf-8")
    return 0


def build(work: Path) -> None:
    """Make the indexes that are searched: of the sample catalog, and of a folder of guides."""
    for path, text in GUIDES.items():
        file = work / "docs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    shutil.copy(ROOT / "catalogs" / "tools.jsonl", work)
    for words in (("--catalog", "tools.jsonl"), ("--docs-dir", "docs", "--artifacts", "guides")):
        subprocess.run([*PROGRAM, "build", *words], cwd=work, env=environment(), check=True, capture_output=True)


def environment() -> dict[str, str]:
    """Return the environment of the program: this process's environment, for a terminal with colours."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH", "")]))
    return {**kept, "PYTHONPATH": path, "TERM": "xterm-256color"}


def at_terminal(words: tuple[str, ...], work: Path, *, width: int) -> str:
    """Run a command in a terminal of a width and return its output."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    started = subprocess.Popen([*PROGRAM, *words], cwd=work, env=environment(), stdin=terminal, stdout=terminal)
    os.close(terminal)
    read = []
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        read.append(part)
    os.close(controller)
    if started.wait():
        raise SystemExit(f"{' '.join(words)} failed")
    return b"".join(read).decode().replace("\r\n", "\n")


def picture(words: tuple[str, ...], text: str, *, width: int, name: str) -> str:
    """Return an SVG of a command line and its output."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, highlight=False)
    line = Text.assemble(("$ ", "dim"), f"retrieve {' '.join(map(shown, words))}")
    console.print(line, soft_wrap=True)
    console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=True)
    theme = THEMES[name.split("-")[-2]]
    svg = console.export_svg(title="", theme=theme, unique_id=f"retrieve-{name}", code_format=FORMAT)
    svg = svg.replace("rgba(255,255,255,0.35)", "rgba(128,128,128,0.5)")  # a frame that is visible on white too
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def shown(word: str) -> str:
    """Return a word as typed in a shell."""
    return f'"{word}"' if " " in word else word


if __name__ == "__main__":
    sys.exit(main())
