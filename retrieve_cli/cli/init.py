"""`retrieve init`."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieve_cli.assemble.trusted import record
from retrieve_cli.cli.agreement import of_configuration
from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import UsageError, printable


@shared("text", "json")
def init(
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="imaging|biocortex|rag|cities|modular",
            help="Settings for one kind of use.  [default: minimal]",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    *,
    shared: Shared,
) -> None:
    """Write a commented configuration file to start from."""
    from retrieve_cli.config import starters
    from retrieve_cli.config.loading import DEFAULT_FILE
    from retrieve_cli.output.formats import dump
    from retrieve_cli.storage import durable

    path = shared.config or DEFAULT_FILE
    text = starters.starter(preset)
    if path.is_dir():
        raise UsageError(f"{path} is a folder; --config takes a file", hint=f"--config {path / 'config.yaml'}")
    if path.exists() and not force:
        raise UsageError(f"{path} already exists", hint="name another file with --config, or replace it with --force")
    try:
        durable.put(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name another file with --config") from error
    for written in of_configuration(shared.config):
        record(written, "agreed")
    if shared.format == "json":
        print(dump({"path": str(path), "preset": preset}))
        return
    print(printable(f"wrote {path}" + (f" (preset {preset})" if preset else "")))
    shared.talk.say("next: edit its sources, then run: retrieve build")
