"""The reference, written from the program and the comments of config.yaml: `make reference`.

docs/reference.md lists the commands and exit codes; docs/reference/ has a page for each command, and one with all keys
of the configuration. A test fails if a file in the repository is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from retrieve_cli.cli.main import program
from retrieve_cli.cli.names import ALIASES, COMMANDS
from retrieve_cli.config.values import takes
from retrieve_cli.errors import Exit

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
_WIDTH = 80
_OF_EVERY_COMMAND = re.compile(r"^  (?:--color|-q, --quiet|-v, --verbose|-h, --help) .*\n", re.MULTILINE)
"""Options that the page of a group does not repeat for each of its commands."""
_SECTION = re.compile(r"([a-z0-9_]+):(?: +([^#]*?))?(?: *# ?(.*))?$")
_KEY = re.compile(r"  ([a-z0-9_]+):(?: +([^#]*?))?(?: *# ?(.*))?$")
_MORE = re.compile(r" +# ?(.*)$")
_ITEM = re.compile(r"- (\{.*?\})\s*(.*)$")
_MARKUP = re.compile(r"[*\[\]<>]|(?<!\w)_|_(?!\w)")
"""Characters that Markdown would interpret as markup."""
_EXITS = {
    Exit.OK: "done; for `query`: an answer was given, even one without results",
    Exit.ERROR: "any other error",
    Exit.USAGE: "usage: an unknown flag, key or value; a file of the wrong kind",
    Exit.NO_RESULT: "no results (`query --exit-status`)",
    Exit.INDEX_MISSING: "there is no index yet",
    Exit.INDEX_CORRUPT: "the index is damaged",
    Exit.UNAVAILABLE: "a model, an optional package or a GPU is missing",
    Exit.LOCKED: "another process is writing the index",
    Exit.PARTIAL: "partial: some records were rejected, some queries have an error, or a web provider failed",
    Exit.GATE_FAILED: "an evaluation gate failed",
    Exit.STALE: "the sources have changed since the build (`--strict-fresh`, `freshness.policy: fail`)",
    Exit.INTERRUPTED: "interrupted",
    Exit.TERMINATED: "terminated",
}


class Key(NamedTuple):
    """A key of config.yaml with its comment."""

    name: str
    default: str
    comment: Sequence[str]


class Section(NamedTuple):
    """A section of config.yaml."""

    name: str
    comment: Sequence[str]
    keys: Sequence[Key]


def pages() -> dict[Path, str]:
    """Return the text of each page by its path."""
    configuration = "\n".join(_configuration((ROOT / "config.yaml").read_text("utf-8")))
    commands = dict(_commands())
    rows = "".join(f"| [`retrieve {name}`](reference/{name}.md) | {COMMANDS[name]} |\n" for name in commands)
    head = f"# Reference\n\nWritten from the program by `make reference`.\n\n| Command | Does |\n|---|---|\n{rows}"
    keys = "Every key of config.yaml, with its default and its bounds: [configuration](reference/configuration.md).\n"
    return {
        FOLDER.with_suffix(".md"): "\n".join((head, keys, _exit_codes(), _help(program(), "retrieve"))),
        FOLDER / "configuration.md": configuration,
        **{FOLDER / f"{name}.md": text for name, text in commands.items()},
    }


# -------------------------------------------------------------------------------------------------- commands


def _commands() -> Iterator[tuple[str, str]]:
    """Yield each command with its page."""
    group: Any = program()
    others = {name: alias for alias, name in ALIASES.items()}
    for name in COMMANDS:
        if name == "help":
            continue
        command = group.commands[name].load()
        also = f"\n`retrieve {others[name]}` is the same.\n" if name in others else ""
        parts = [f"# retrieve {name}\n{also}\n{_help(command, f'retrieve {name}')}"]
        for inner, part in getattr(command, "commands", {}).items():
            text = _OF_EVERY_COMMAND.sub("", _help(part, f"retrieve {name} {inner}"))
            parts.append(f"## retrieve {name} {inner}\n\n{text}")
        yield name, "\n".join(parts)


def _help(command: Any, path: str) -> str:
    context = command.context_class(
        command, info_name=path, terminal_width=_WIDTH, max_content_width=_WIDTH, help_option_names=["-h", "--help"]
    )
    lines = (line.rstrip() for line in command.get_help(context).split("\n"))
    return "```text\n" + "\n".join(lines).strip() + "\n```\n"


def _exit_codes() -> str:
    rows = "".join(f"| {int(code)} | {_EXITS[code]} |\n" for code in Exit)
    return f"## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}"


# --------------------------------------------------------------------------------------------- configuration


def _configuration(text: str) -> Iterator[str]:
    """Yield the head of config.yaml, and its sections."""
    yield "# Configuration\n"
    yield _text([line.removeprefix("#").strip() for line in text.split("\n\n", maxsplit=1)[0].splitlines()]) + "\n"
    for section in sections(text):
        yield f"## {section.name}\n"
        if section.comment:
            yield _text(section.comment) + "\n"
        yield "\n".join(_entry(section.name, key) for key in section.keys) + "\n"


def sections(text: str) -> list[Section]:
    """Return the sections of the commented configuration file, in order."""
    parsed: list[tuple[str, list[str], list[tuple[str, str, list[str]]]]] = []
    for line in text.split("\n\n", 1)[1].splitlines():
        if (match := _SECTION.match(line)) is not None:
            name, value, comment = match.groups()
            parsed.append((name, [comment] if comment and not value else [], []))
            if value:  # `plugins: {}` does not have keys
                parsed[-1][2].append(("", value, [comment or ""]))
        elif (match := _KEY.match(line)) is not None:
            name, value, comment = match.groups()
            parsed[-1][2].append((name, value or "", [comment] if comment else []))
        elif (match := _MORE.match(line)) is not None:
            keys = parsed[-1][2]
            (keys[-1][2] if keys else parsed[-1][1]).append(match[1])
        elif line.strip():  # a value on several lines, below its key
            name, value, comments = parsed[-1][2][-1]
            parsed[-1][2][-1] = (name, f"{value}, {line.strip()}" if value else line.strip(), comments)
    return [Section(name, comment, [Key(*key) for key in keys]) for name, comment, keys in parsed]


def _entry(section: str, key: Key) -> str:
    """Return a key with its default, its bounds and its comment."""
    name = f"{section}.{key.name}" if key.name else section
    lines = [line.strip() for line in key.comment]
    index = bool(lines) and lines[0].startswith("*")
    lines = [lines[0].removeprefix("*").strip(), *lines[1:]] if lines else []
    bounds = takes(name) if key.name else ""
    facts = [
        f"default `{_default(key.default)}`",
        *([bounds] if bounds else []),
        *(["changes the index"] if index else []),
    ]
    return f"- **`{name}`** ({'; '.join(facts)})  \n  {_text(lines)}".rstrip()


def _default(value: str) -> str:
    return f"{{{value}}}" if ": " in value and not value.startswith("{") else value


def _text(lines: Sequence[str]) -> str:
    """Return the lines of a comment as a paragraph, with its examples as a list below."""
    parts: list[str] = []
    for line in (line.strip() for line in lines):
        if (item := _ITEM.match(line)) is not None:
            parts.append(f"\n    - `{item[1]}` {_escaped(item[2])}".rstrip())
        elif parts and parts[-1].startswith("\n    - "):
            parts.append(f"\n\n  {_escaped(line)}")
        else:
            parts.append((" " if parts else "") + _escaped(line))
    return "".join(parts).strip()


def _escaped(text: str) -> str:
    """Return the text of a comment, escaped for Markdown; code between backticks stays unchanged."""
    pieces = text.split("`")
    pieces[::2] = [_MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
    return "`".join(pieces)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, "utf-8")
