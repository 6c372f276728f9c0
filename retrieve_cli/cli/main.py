"""The program `retrieve`: its commands, and the one place where failures become sentences and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

# One product of a query is memory bound; OpenBLAS's second thread only spins, and costs most where cores are busy.
# It must be said before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from retrieve_cli.cli.names import ADVICE, ALIASES, COMMANDS, command_for
from retrieve_cli.cli.options import Talk
from retrieve_cli.errors import Exit, Terminated, UsageError, quoted

if TYPE_CHECKING:
    from typer._click import Command, Context


class OnDemand(TyperCommand):
    """A command of which only the name and the short help are known until it is called: then its file is imported."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Return the context of the command itself, as its file defines it."""
        return self.load().make_context(info_name, args, parent, **extra)

    def load(self) -> Command:
        """Return the command itself."""
        return command_of(str(self.name))


class Program(TyperGroup):
    """Commands under their names and aliases; the hint for an unknown word names the command that it may mean."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the command that the first argument names, and the others.

        Raises:
            UsageError: the command does not exist.
        """
        if args[0] not in self.commands and not args[0].startswith("-"):
            meant = command_for(args[0])
            hint = "list the commands: retrieve --help" if meant is None else f"did you mean `retrieve {meant}`?"
            hint = ADVICE.get(args[0].casefold(), hint)
            raise UsageError(f"there is no command {quoted(args[0])}", hint=hint)
        return super().resolve_command(ctx, args)


@cache
def command_of(name: str) -> Command:
    """Return the command that a file defines."""
    module = import_module(f"{__package__}.{name}")
    holder = typer.Typer(rich_markup_mode=None)
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name)
    else:
        function = getattr(module, name, None) or module.command  # `eval` is a function of Python
        holder.command(name, cls=getattr(module, "CLASS", None))(function)
    return get_group(holder).commands[name]


def program(given: Sequence[str] = ()) -> TyperGroup:
    """Return the program with all its commands, without importing them; if a command is `given`, without the options
    that install completion, which take a millisecond."""
    group = cast("TyperGroup", get_group(app) if given and given[0] in COMMANDS else get_command(app))
    for name, short_help in COMMANDS.items():
        group.add_command(OnDemand(name, short_help=short_help))
    for alias, name in ALIASES.items():
        group.add_command(OnDemand(name, short_help=COMMANDS[name], hidden=True), alias)
    return group


def with_shared_last(arguments: Sequence[str]) -> list[str]:
    """Return a command line whose options before the command, which every command takes, are behind it."""
    at = 0
    while at < len(arguments) and arguments[at].partition("=")[0] in (*_VALUED, *_SWITCHES):
        at += 2 if arguments[at] in _VALUED else 1
    words = list(arguments[at:])
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *arguments[:at], *words[end:]] if words else list(arguments)


_VALUED = ("--config", "--artifacts", "--format", "--color")
_SWITCHES = ("--json", "-q", "--quiet", "-v", "--verbose")
"""Options of every command."""

app = typer.Typer(
    name="retrieve",
    help="Hybrid search over catalogs and documents, with an explanation for every result, fully offline.",
    cls=Program,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help appears in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from retrieve_cli.version import __version__

        print(f"retrieve {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit code."""
    if _COMPLETE in os.environ:
        return _complete()
    given = with_shared_last(sys.argv[1:] if arguments is None else arguments)
    talk = Talk.of(given)
    _open_streams()
    try:
        with _interruptible():
            return _run(given, talk)
    except (KeyboardInterrupt, Terminated) as error:
        from retrieve_cli.cli.failures import failure_of

        return talk.error(*failure_of(error))


_COMPLETE = "_RETRIEVE_COMPLETE"
"""Variable by which the script of --install-completion asks for the words that a shell may complete."""


def _complete() -> int:
    """Print the words that may complete a command line; none if it is not one."""
    from typer.completion import shell_complete

    with suppress(Exception):
        return shell_complete(program(), {}, "retrieve", _COMPLETE, os.environ[_COMPLETE])
    return Exit.OK


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into exceptions, so that scratch folders are removed and locks released."""

    def end(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(given: list[str], talk: Talk) -> int:
    try:
        # Not `.main()`: typer's own would turn a broken pipe and an interruption into exits without a word.
        command = program(given)
        with command.make_context("retrieve", given) as context:
            command.invoke(context)
        sys.stdout.flush()
        return Exit.OK
    except typer.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        # The reader has stopped reading (`| head`). Python would complain again when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:
        from retrieve_cli.cli.failures import failure_of, from_parser

        failure = failure_of(error)
        if failure.kind == "internal" and talk.verbose:
            raise
        if given[:1] == ["sync"] and talk.json and from_parser(error):
            from retrieve_cli.cli.sync_line import failed_before  # a log has one line of a sync that never began too

            return failed_before(failure, talk)
        return talk.error(*failure)


def _open_streams() -> None:
    """Write UTF-8 wherever output goes; discard output to a stream that the caller closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
