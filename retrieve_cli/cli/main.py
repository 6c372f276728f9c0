"""The program `retrieve`: its commands, and the one place where failures become sentences and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

# One product of a query is memory bound; OpenBLAS's second thread only spins, and costs most where cores are busy.
# It must be said before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer
from typer.core import TyperCommand
from typer.main import get_group

from retrieve_cli.cli.options import Talk
from retrieve_cli.errors import Exit, Terminated

if TYPE_CHECKING:
    from typer._click import Context


class OnDemand(TyperCommand):
    """A command of which only the name and the short help are known until it is called: then its file is imported."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Return the context of the command itself, as its file defines it."""
        name = str(self.name)
        module = import_module(f"{__package__}.{name}")
        holder = typer.Typer(rich_markup_mode=None)
        if hasattr(module, "app"):
            holder.add_typer(module.app, name=name)
        else:
            holder.command()(getattr(module, name))
        given = with_values(args, getattr(module, "WITHOUT_VALUE", {}))
        return get_group(holder).commands[name].make_context(info_name, given, parent, **extra)


def with_values(arguments: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the arguments, flags without their value with the one that they have then: the parser would take the next
    argument for it, though that is the question."""
    flags = list(arguments)
    for at, word in enumerate(flags):
        if word == "--":
            break
        if word in values:
            flags[at] = f"{word}={values[word]}"
    return flags


app = typer.Typer(
    name="retrieve",
    help="Build a hybrid index from a catalog or a folder of documents, and query it, offline and fast.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help appears in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = {
    "init": "Write a configuration file to start from.",
    "build": "Build an index and make it the live one.",
    "sync": "Bring the live index up to its sources.",
    "query": "Answer a question from the live index.",
    "doctor": "Check all that can keep it from answering well.",
    "serve": "Serve the configured models to other machines.",
    "eval": "Measure the answers to judged queries.",
    "models": "See to the models: list, pull, verify, export.",
    "inspect": "Look into the live index.",
    "snapshot": "Keep an index as one file: create, list, verify, restore.",
    "replay": "Answer a kept run again and compare.",
}
"""Each command and what `retrieve --help` says of it; the file beside this one that is called like it defines it."""


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from retrieve_cli import __version__

        print(f"retrieve {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    talk = Talk.of(given)
    _open_streams()
    try:
        with _interruptible():
            return _run(given, talk)
    except (KeyboardInterrupt, Terminated) as error:
        from retrieve_cli.cli.failures import failure_of

        return talk.error(*failure_of(error))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Makes SIGTERM and SIGINT exceptions in this context, so that scratch folders are removed and locks let go."""

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
    """The command, its failures as sentences and exit codes."""
    try:
        # Not `.main()`: typer's own would turn a broken pipe and an interruption into exits without a word.
        command = get_group(app)
        for name, short_help in _COMMANDS.items():
            command.add_command(OnDemand(name, short_help=short_help))
        with command.make_context("retrieve", given) as context:
            command.invoke(context)
        sys.stdout.flush()
        return Exit.OK
    except typer.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python would complain again when it closes stdout at exit.
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
    """Output is UTF-8 wherever it goes; a stream that the caller closed swallows what is written."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
