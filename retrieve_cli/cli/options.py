"""Options that every command takes, and output to the user: stdout carries data, stderr everything else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand

from retrieve_cli.errors import UsageError, printable, quoted

if TYPE_CHECKING:
    from rich.console import Console
    from typer._click import Context, HelpFormatter

    from retrieve_cli.api.table import Choice, Table
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.config.trust import Trust
    from retrieve_cli.contracts import Json
    from retrieve_cli.output.styled_lines import LineRenderer
    from retrieve_cli.storage.store import Store


_PAGE, _NARROWEST, _WIDEST = 100, 40, 120
"""Columns of text that goes into a file or a pipe, and the fewest and the most that text is laid out for."""
_WIDTH = 120
"""Columns of a table that goes into a file or a pipe."""


class Color(StrEnum):
    """Use of colours."""

    auto = "auto"
    always = "always"
    never = "never"


class OutputFlags(NamedTuple):
    """Flags on how answers are printed, in addition to their format."""

    ids: bool
    explain: bool
    timing: bool | None
    """None: times are in JSON alone."""
    batch: bool
    facets: bool = False

    @classmethod
    def of(cls, chosen: Mapping[str, Any], *, batch: bool) -> OutputFlags:
        """Return the flags among the given choices."""
        ids, explain, facets = (name in chosen for name in ("ids", "explain", "facets"))
        return cls(ids, explain, chosen.get("timing"), batch, facets)

    def check(self, form: str) -> None:
        """Raises: UsageError if a flag does not apply to the format."""
        shown = ("text", "table", "json", *(["jsonl"] if self.batch else []))
        if self.facets and (self.ids or form not in shown):
            what = "--list" if self.ids else f"--format {form}"
            raise UsageError(f"{what} has no place for --facet", hint=f"formats with facets: {', '.join(shown)}")


class Talk(NamedTuple):
    """Messages to the user, configured before the command line is parsed, so that parsing errors obey it too."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Talk:
        """Read the flags that matter from a raw command line."""
        words = ("--json", "--format=json", "--format=jsonl")
        as_json = any(word in words or (word, after) in _JSON_PAIRS for word, after in pairwise([*arguments, ""]))
        return cls(as_json, bool({"-q", "--quiet"} & set(arguments)), bool({"-v", "--verbose"} & set(arguments)))

    def say(self, sentence: str) -> None:
        """Print a sentence on stderr, unless quiet or in JSON mode, where the JSON has the same facts."""
        if not self.quiet and not self.json:
            sys.stderr.write(f"{printable(sentence)}\n")  # one write: workers of a server share the stream

    def detail(self, sentence: str) -> None:
        """Print a sentence on stderr with --verbose."""
        if self.verbose:
            self.say(sentence)

    def error(self, code: int, kind: str, message: str, hint: str) -> int:
        """Print a failure on stderr, as one JSON object or as `error:` and `hint:` lines; return the code."""
        if self.json:
            value = {"error": {"code": int(code), "kind": kind, "message": message, "hint": hint}}
            print(json.dumps(value), file=sys.stderr)
        else:
            print(f"error: {printable(message)}", file=sys.stderr)
            if hint:
                print(f"hint: {printable(hint)}", file=sys.stderr)
        return int(code)


_JSON_PAIRS = (("--format", "json"), ("--format", "jsonl"))


class Shared(NamedTuple):
    """Values of the options that every command takes."""

    artifacts: Path
    config: Path | None
    format: str
    color: Color
    talk: Talk

    @property
    def store(self) -> Store:
        from retrieve_cli.assemble.trusted import own_store  # as the configuration: not on the way to --help

        return own_store(self.artifacts)

    @property
    def config_flags(self) -> list[str]:
        """The flags by which another command finds this configuration."""
        return [] if self.config is None else ["--config", str(self.config)]

    @property
    def place_flags(self) -> list[str]:
        """The flags by which another command finds this index and this configuration."""
        folder = [] if self.artifacts == Path("artifacts") else ["--artifacts", str(self.artifacts)]
        return [*folder, *self.config_flags]

    def show(self, value: Mapping[str, Json], lines: Iterable[str]) -> None:
        """Print a value as JSON, or lines with the same meaning for people."""
        if self.format == "json":
            from retrieve_cli.output.formats import document

            print(document(value))
        else:
            for line in lines:
                print(printable(line))

    def settings(self, section: str = "", **flags: object) -> Settings:
        """Return the configuration, with the given flags in place of keys of `section`."""
        return self.over(self._loaded(), section, **flags)

    def with_keys(self, keys: Mapping[str, tuple[str, object]], *, given: dict[str, str] | None = None) -> Settings:
        """Return the configuration with values in place of its keys, each with the flag that sets it.

        `given` receives the keys that the configuration itself sets, and where.
        """
        from retrieve_cli.config.loading import override

        settings = self._loaded(given)
        for key, (flag, value) in keys.items():
            section, _, name = key.partition(".")
            settings = override(settings, {section: {name: value}}, where=flag)
        return settings

    def _loaded(self, given: dict[str, str] | None = None) -> Settings:
        from retrieve_cli.config.loading import load

        def ask(trust: Trust) -> bool:
            from retrieve_cli.cli.agreement import asked

            return asked(trust, quiet=self.talk.json or self.talk.quiet)

        return load(self.config, say=self.talk.say, given=given, ask=ask)

    @staticmethod
    def over(settings: Settings, section: str, **flags: object) -> Settings:
        """Return the settings, with the given flags in place of keys of `section`."""
        from retrieve_cli.config.loading import override

        for key, value in flags.items():
            if value is not None:
                flag = f"-{key}" if len(key) == 1 else f"--{key.replace('_', '-')}"
                settings = override(settings, {section: {key: value}}, where=flag)
        return settings

    @property
    def page(self) -> LineRenderer:
        """Surface of lines on stdout: as wide as the terminal, styled unless that is unwanted, linked on a terminal."""
        from retrieve_cli.output.styled_lines import LineRenderer

        terminal = sys.stdout.isatty()
        forced = {"FORCE_COLOR", "TTY_COMPATIBLE"}.intersection(os.environ)
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
        wanted = not plain and (terminal or bool(forced))
        styled = {Color.always: True, Color.never: False, Color.auto: wanted}[self.color]
        return LineRenderer(_columns(terminal=terminal), styled=styled, linked=styled and terminal)

    def console(self) -> Console:
        """Return a rich console on stdout, as wide as the terminal, or 120 columns without one."""
        from rich.console import Console

        class Pipe(Console):
            """Leave a broken pipe to the one place that ends the program; rich itself would exit with 1."""

            def on_broken_pipe(self) -> None:
                raise BrokenPipeError

        terminal = {Color.always: True, Color.never: False, Color.auto: None}[self.color]
        width = None if sys.stdout.isatty() else _WIDTH
        return Pipe(force_terminal=terminal, no_color=self.color is Color.never or None, width=width, highlight=False)


def _columns(*, terminal: bool) -> int:
    """Columns of a line on stdout: COLUMNS, else the width of the terminal, else 100; within readable bounds."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        width = int(given)
    else:
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns if terminal else _PAGE
        except (OSError, ValueError):
            width = _PAGE
    return min(max(width or _PAGE, _NARROWEST), _WIDEST)


def group(help_: str) -> typer.Typer:
    """Return a command that only has subcommands: without one it prints its help."""
    made = typer.Typer(help=help_, rich_markup_mode=None)

    @made.callback(invoke_without_command=True)
    def show(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return made


def shared(*formats: str, table: Table | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the shared options to a command that takes them as `shared`; `formats` lists its formats, default first.

    With a table, add its flags as well; the command takes the given values as `chosen`, by the names of the choices.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        added = ("shared", "chosen") if table else ("shared",)
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)
            for name, parameter in signature(command).parameters.items()
            if name not in added
        ]
        rows = table.flagged if table else []
        options = _options(formats)

        @wraps(command)
        def run(**given: Any) -> None:
            picked = {option.name: given.pop(option.name) for option in options}
            if rows:
                given["chosen"] = _chosen(rows, {row.name: given.pop(row.name) for row in rows})
            command(**given, shared=_shared(formats, picked))

        parameters = [*own, *map(_flag, rows), *options]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def option(flags: str, about: str | None = None, metavar: str | None = None, **bounds: Any) -> Any:
    """Return an option of a command: its flags, its line of help, and the name of its value."""
    return typer.Option(*flags.split(), metavar=metavar, help=about, **bounds)


def argument(metavar: str, about: str | None = None) -> Any:
    """Return an argument of a command: its name in help, and its line there."""
    return typer.Argument(metavar=metavar, help=about)


def option_of(row: Choice) -> Any:
    """Return the flag of a row of a table of choices."""
    words = row.flags.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(flags) :]) or None
    return typer.Option(*flags, metavar=metavar, help=row.help, rich_help_panel=row.panel or None)


def flag_of(row: Choice) -> str:
    """Return the name of a choice in an error."""
    return row.flag


def keys_of(table: Table, chosen: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the configuration keys that flags set, each with its flag and value."""
    rows = [row for row in table.flagged if row.key and row.chosen in chosen]
    return {row.key: (row.flag, chosen[row.chosen]) for row in rows}


_TYPES: Mapping[str, Any] = {"boolean": bool, "integer": int, "number": float}


def _flag(row: Choice) -> Parameter:
    single: Any = Path if "format" in row.schema else _TYPES.get(str(row.schema["type"]), str)
    kind = list[str] if row.several else single
    return Parameter(row.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option_of(row)])


def _chosen(rows: Sequence[Choice], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were given, by the names under which they reach the stages; the configuration checks keys.
    Raises: UsageError: a value is invalid for its choice."""
    chosen: dict[str, Any] = {}
    for row in rows:
        if (value := given[row.name]) is None or value == []:
            continue
        if row.several:
            value = [name.strip() for text in value for name in text.split(",")] if row.is_names else value
        elif not row.key and type(value) is not bool:
            from retrieve_cli.api.requests import checked

            value = value if isinstance(value, Path) else checked(value, row.schema, row.flag, hint=row.about)
        chosen[row.chosen] = value
    return chosen


class Panels(TyperCommand):
    """A command whose help groups the options under the headings of its table of choices."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options below their headings, in the order in which these come first."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (line := parameter.get_help_record(ctx)) is not None:
                otherwise = _OF_SHARED.get(str(parameter.name), "Output")
                panel = getattr(parameter, "rich_help_panel", None) or otherwise
                panels.setdefault("Arguments" if parameter.param_type_name == "argument" else panel, []).append(line)
        for heading, lines in panels.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


_OF_SHARED = dict.fromkeys(("artifacts", "config", "help"), "Scripts and index")
"""Headings of options that every command takes, if they are not about output."""
_ARTIFACTS = typer.Option("--artifacts", metavar="DIR", readable=False, help="Folder of the index.")
"""The store reports a folder that cannot be read, not the parser."""
_CONFIG = typer.Option("--config", metavar="FILE", help="Configuration.  [default: ./config.yaml]")


def _options(formats: Sequence[str]) -> list[Parameter]:
    declared: list[tuple[str, Any, Any, Any]] = [
        ("artifacts", Path, Path("artifacts"), _ARTIFACTS),
        ("config", Path | None, None, _CONFIG),
        ("format_", str, formats[0], typer.Option("--format", metavar="|".join(formats), help="Output format.")),
        ("json_", bool, False, typer.Option("--json", help="Short for --format json.")),
        ("color", Color, Color.auto, typer.Option("--color", metavar="auto|always|never", help="Colours on stdout.")),
        ("quiet", bool, False, typer.Option("--quiet", "-q", help="Print errors only on stderr.")),
        ("verbose", bool, False, typer.Option("--verbose", "-v", help="Print more on stderr.")),
    ]  # fmt: skip
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
        for name, kind, default, option in declared
    ]


def _shared(formats: Sequence[str], given: Mapping[str, Any]) -> Shared:
    chosen = "json" if given["json_"] else given["format_"]
    if chosen not in formats:
        from retrieve_cli.config.values import unknown

        raise unknown(f"value {quoted(chosen)} of --format", chosen, formats)
    talk = Talk(chosen in ("json", "jsonl"), given["quiet"], given["verbose"])
    return Shared(given["artifacts"], given["config"], chosen, given["color"], talk)


def nearest(error: Exception) -> str:
    """Return the hint for a usage error of the parser: what does the same, the nearest flag, or where to find help."""
    from retrieve_cli.cli.names import ADVICE, ALIKE
    from retrieve_cli.untrusted import nearest as names

    context, flag = getattr(error, "ctx", None), str(getattr(error, "option_name", ""))
    path = context.command_path if context is not None else "retrieve"
    advice, params = ADVICE.get(flag, ""), context.command.params if context is not None else ()
    if advice and (advice[0] != "-" or any(advice.split()[0] in param.opts for param in params)):
        return f"{advice}; {path} --help"
    flags = [name.lstrip("-") for name in getattr(error, "possibilities", None) or ()]
    near = names.nearest(flag.lstrip("-"), flags, cutoff=ALIKE)
    return f"did you mean --{near}? {path} --help" if near else f"{path} --help"
