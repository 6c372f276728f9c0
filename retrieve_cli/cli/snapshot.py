"""`retrieve snapshot`: a generation as one file, to keep and to carry to another machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Keep a generation as one file: create, list, verify, restore.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def snapshot(context: typer.Context) -> None:
    """Keep a generation as one file: create, list, verify, restore."""
    if context.invoked_subcommand is None:
        print(context.get_help())


File = Annotated[Path, typer.Argument(metavar="FILE", help="A snapshot, .tar.zst.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]


@app.command()
@shared("text", "json")
def create(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where it goes.  [default: GENERATION.tar.zst here]")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Put it there under its own name.")] = None,
    generation: Annotated[
        str | None, typer.Option("--generation", metavar="ID", help="Another one than the current one.")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", help="Then delete the oldest snapshots of this index there, but N."),
    ] = None,
    force: Force = False,
    *,
    shared: Shared,
) -> None:
    """Write a generation with its manifest, calibration and configuration into one compressed file.

    A snapshot that is there already and says the same is verified and left as it is, so that a timer may run this.
    Keys and passwords are not in it; models are not either, and are named by their digests.
    """
    from retrieve_cli.config.loading import DEFAULT_FILE
    from retrieve_cli.output.formats import dump
    from retrieve_cli.snapshots import create as creating

    if file is not None and (to is not None or keep is not None):
        flag = "--to" if to is not None else "--keep"
        raise UsageError(f"{flag} goes with a name that is chosen here, not with FILE", hint="leave FILE out")
    if keep is not None and keep < 1:
        raise UsageError(f"--keep is {keep}; it takes a whole number from 1", hint="--keep 7")
    if to is not None and not to.is_dir():
        raise UsageError(f"there is no folder {to}", hint=f"make it: mkdir -p {to}")
    settings = shared.settings()
    config = shared.config or (DEFAULT_FILE if os.path.lexists(DEFAULT_FILE) else None)
    target = file or to or Path()
    created = creating.create(shared.store, settings, target, config=config, generation=generation, force=force)
    if keep is not None:
        created = creating.remove_old(created, keep)
    for path in created.removed:
        shared.talk.say(f"{path} is deleted: the last {keep} are kept (--keep)")
    size = f"generation {created.header.generation}, {created.bytes / 2**20:.1f} MiB"
    there = " was there already" if created.status == "unchanged" else ""
    print(dump(created.to_json()) if shared.format == "json" else printable(f"{created.path}{there}: {size}"))


@app.command("list")
@shared("text", "json")
def list_(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder of snapshots.")] = Path(),
    *,
    shared: Shared,
) -> None:
    """List the snapshots of a folder and the generations of the index, with sizes and dates, the latest first."""
    from retrieve_cli.output.formats import dump
    from retrieve_cli.snapshots.listing import listing

    shared.settings()
    found = listing(shared.store, folder)
    if shared.format == "json":
        print(dump(found))
        return
    console = shared.console()
    console.print(_table("snapshot", [_cells(entry) for entry in found["snapshots"]]))
    rows = [
        (str(entry["generation"]), "current" if entry["current"] else "", str(entry["at"]), entry["bytes"])
        for entry in found["generations"]
    ]
    console.print(_table("generation", rows))


@app.command()
@shared("text", "json")
def verify(file: File, *, shared: Shared) -> None:
    """Read all of a snapshot and hold every member to its sums, without unpacking it; exit 5 if it is damaged."""
    from retrieve_cli.output.formats import dump
    from retrieve_cli.snapshots import reading
    from retrieve_cli.snapshots.create import summary

    found = reading.verify(file)
    value = {"schema_version": 1, "ok": True, "file": str(file), **summary(found.header)}
    header = found.header
    text = f"{file} is sound: generation {header.generation}, {header.records} records, {header.chunks} chunks"
    print(dump(value) if shared.format == "json" else printable(text))


@app.command()
@shared("text", "json")
def restore(
    file: File,
    write_config: Annotated[
        Path | None, typer.Option("--write-config", metavar="FILE", help="Write its configuration file there.")
    ] = None,
    force: Force = False,
    *,
    shared: Shared,
) -> None:
    """Verify a snapshot while it is unpacked, and make its generation the current one; all of it or nothing."""
    from retrieve_cli.cli.progress import Lines
    from retrieve_cli.output.formats import dump
    from retrieve_cli.snapshots import restore as restoring

    if write_config is not None and not force and os.path.lexists(write_config):
        raise UsageError(f"{write_config} exists already", hint="--force replaces it; or name another file")
    restored = restoring.restore(file, shared.store, shared.settings(), Lines(shared.talk))
    if write_config is not None:
        restoring.write_config(restored, write_config, force=force)
        shared.talk.say(f"the configuration of the snapshot is in {write_config}")
    elif restored.differing:
        keys = ", ".join(restored.differing)
        hint = "; --write-config FILE writes that of the snapshot" if restored.config is not None else ""
        shared.talk.say(f"note: answers may differ, because the configuration does: {keys}{hint}")
    header = restored.header
    what = "is live" if restored.status == "published" else "was there already, is sound, and is live"
    text = f"generation {header.generation} {what}: {header.records} records, {header.chunks} chunks"
    print(dump(restored.to_json()) if shared.format == "json" else text)


def _cells(entry: dict[str, Any]) -> tuple[str, str, str, int]:
    name = os.path.basename(str(entry["file"]))  # noqa: PTH119  as it is written, whatever it holds
    created = str(entry.get("created", ""))[:19]
    return name, str(entry.get("generation", "not a snapshot")), created, entry["bytes"]


def _table(first: str, rows: list[tuple[str, str, str, int]]) -> Table:
    """A table of names, dates and sizes."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in (first, "", "date", "MiB"):
        table.add_column(column, justify="right" if column == "MiB" else "left", overflow="fold")
    for name, what, date, size in rows:
        table.add_row(*(Text(printable(cell)) for cell in (name, what, date, f"{size / 2**20:.1f}")))
    return table
