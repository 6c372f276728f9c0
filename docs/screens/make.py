"""Pictures of the program: at a terminal and in an MCP client as SVG by rich; of its pages in Chromium as PNG.

    python docs/screens/make.py [--out DIR]

The same sources give the same bytes of the SVG: nothing in a picture tells a time, a folder or a generation. The PNG
depend on the fonts of the machine; without Chromium they stay as they are.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
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
    Screen("why", ("inspect", "why", "segment lungs in CT", "itk-snap"), (80,)),
    Screen("mcp", ("search", '{"query": "segment lungs in CT", "k": 3}'), (100,)),
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
                text = (
                    called(screen.words, work) if screen.name == "mcp" else at_terminal(screen.words, work, width=width)
                )
                for theme in THEMES:
                    name = f"{screen.name}-{theme}-{width}"
                    (out / f"{name}.svg").write_text(picture(screen.words, text, width=width, name=name), "utf-8")
        for name, page in pages(work):
            photograph(page, out / f"{name}.png")
    return 0


def build(work: Path) -> None:
    """Make the indexes that are searched, of the sample catalog and of a folder of guides."""
    for path, text in GUIDES.items():
        file = work / "docs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    guides = ("build", "docs", "--artifacts", "guides")
    for words in (("init", "--sample"), ("build",), guides):
        subprocess.run([*PROGRAM, *words], cwd=work, env=environment(), check=True, capture_output=True)


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


def called(words: tuple[str, ...], work: Path) -> str:
    """Return the text that an MCP client gets for a call: the name of a tool, and its arguments as JSON."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pictures", "version": "1"}}
    call = {"name": words[0], "arguments": json.loads(words[1])}
    sent = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [*PROGRAM, "mcp"], cwd=work, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in sent:
            print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)
        answers = (json.loads(line) for line in server.stdout)
        found = next(answer["result"] for answer in answers if answer.get("id") == 2)
        server.stdin.close()
    return str(found["content"][0]["text"])


def pages(work: Path) -> Iterator[tuple[str, str]]:
    """Yield a name and the address of each page while it is served."""
    with subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0", "--json"], cwd=work, env=environment(), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["url"]
        yield "page", f"{address}/?q=segment+lungs+in+CT"
        server.terminate()


def photograph(page: str, path: Path) -> None:
    """Write a picture of a page, if there is Chromium."""
    if (chromium := shutil.which("chromium")) is None:
        print(f"{path.name} stays as it is: Chromium is not installed", file=sys.stderr)
        return
    options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1200,900", f"--screenshot={path}")
    subprocess.run([chromium, *options, page], check=True, capture_output=True)


def picture(words: tuple[str, ...], text: str, *, width: int, name: str) -> str:
    """Return an SVG of a command line and its output."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, highlight=False)
    mcp = name.startswith("mcp-")
    line = Text.assemble(("> " if mcp else "$ retrieve ", "dim"), " ".join(words if mcp else map(shown, words)))
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
