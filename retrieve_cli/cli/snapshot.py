"""`retrieve snapshot`: a generation as one file, to keep and to move to another machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.cli.options import Shared, argument, group, option, shared
from retrieve_cli.cli.progress import progress_for
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.operations.snapshots.restore import SnapshotHeader

app = group("Keep a generation as one file: create, list, verify, restore.")


File = Annotated[Path, argument("FILE", "A snapshot, .tar.zst.")]
Force = Annotated[bool, option("--force", "Replace an existing file.")]


@app.command()
@shared("text", "json")
def create(
    file: Annotated[Path | None, argument("[FILE]", "Output file.  [default: GENERATION-MARK.tar.zst here]")] = None,
    to: Annotated[Path | None, option("--to", "Folder for it, under its own name.", "DIR")] = None,
    generation: Annotated[
        str | None, option("--generation", "The generation to keep; by default the current one.", "ID")
    ] = None,
    keep: Annotated[
        int | None, option("--keep", "Then delete all but the last N snapshots of this index there.", "N")
    ] = None,
    force: Force = False,
    *,
    shared: Shared,
) -> None:
    """Write a generation, the inbox, the calibration and the configuration into one compressed file.

    An existing equal snapshot is verified and kept, so that a timer may run this. Keys and passwords are not included;
    neither are models, which are named by their digests.
    """
    from retrieve_cli.operations.snapshots import create as creating

    if file is not None and (to is not None or keep is not None):
        flag = "--to" if to is not None else "--keep"
        raise UsageError(f"{flag} cannot be combined with FILE", hint="leave out FILE")
    if keep is not None and keep < 1:
        raise UsageError(f"--keep is {keep}; it takes a whole number from 1", hint="--keep 7")
    if to is not None and not to.is_dir():
        raise UsageError(f"there is no folder {to}", hint=f"make it: mkdir -p {to}")
    shared.settings()
    config = _config_file(shared)
    target = file or to or Path()
    with progress_for(shared.talk, sys.stderr):
        created = creating.create(shared.store, target, config=config, generation=generation, force=force)
    if keep is not None:
        created = creating.remove_old(created, keep)
    for path in created.removed:
        shared.talk.say(f"deleted {path}: the last {keep} are kept (--keep)")
    size = f"generation {created.header.generation}, {_mib(created.bytes)} MiB"
    existed = " exists already" if created.status == "unchanged" else ""
    shared.show(created.to_json(), [f"{created.path}{existed}: {size}"])


@app.command("list")
@shared("text", "json")
def list_(folder: Annotated[Path, argument("[DIR]", "A folder of snapshots.")] = Path(), *, shared: Shared) -> None:
    """List the snapshots of a folder and the generations of the index, with sizes and dates, the latest first."""
    from retrieve_cli.operations.snapshots.create import listing
    from retrieve_cli.output.formats import document
    from retrieve_cli.output.styled_lines import print_table

    shared.settings()
    entries = listing(shared.store, folder)
    if shared.format == "json":
        print(document(entries))
        return
    console = shared.console()
    kept = (
        (str(entry["generation"]), "current" if entry["current"] else "", str(entry["at"]), _mib(entry["bytes"]))
        for entry in entries["generations"]
    )
    print_table(console, ("snapshot", "", "date", "MiB"), map(_cells, entries["snapshots"]), right=("MiB",))
    print_table(console, ("generation", "", "date", "MiB"), kept, right=("MiB",))


@app.command()
@shared("text", "json")
def verify(file: File, *, shared: Shared) -> None:
    """Verify the checksums of every member of a snapshot, without unpacking it; exit 5 if it is damaged."""
    from retrieve_cli.operations.snapshots.restore import read

    with progress_for(shared.talk, sys.stderr):
        header, _ = read(file)
    text = f"{file} is sound: generation {header.generation}, {_size(header)}"
    shared.show({"ok": True, "file": str(file), **header.summary()}, [text])


@app.command()
@shared("text", "json")
def restore(
    file: File,
    write_config: Annotated[
        Path | None, option("--write-config", "Write the configuration file of the snapshot to FILE.", "FILE")
    ] = None,
    force: Force = False,
    *,
    shared: Shared,
) -> None:
    """Verify and unpack a snapshot, and make its generation the current one; all of it or nothing."""
    from retrieve_cli.operations.snapshots import restore as restoring

    if write_config is not None and not force and os.path.lexists(write_config):
        raise UsageError(f"{write_config} exists already", hint="--force replaces it; or name another file")
    with progress_for(shared.talk, sys.stderr) as progress:
        restored = restoring.restore(file, shared.store, shared.settings(), progress)
    if write_config is not None:
        restoring.write_config(restored, write_config, force=force)
        shared.talk.say(f"wrote the configuration of the snapshot to {write_config}")
    elif restored.config is not None and restored.config != _config_here(shared):
        shared.talk.say("note: the snapshot has another config.yaml; --write-config FILE writes it")
    header = restored.header
    name = f"generation {header.generation}"
    verb = f"restored {name}" if restored.status == "published" else f"{name} existed, was verified, and is current now"
    documents = f", {restored.documents:,} documents of the inbox" if restored.documents else ""
    shared.show(restored.to_json(), [f"{verb}: {_size(header)}{documents}"])


def _config_here(shared: Shared) -> bytes | None:
    """Return the configuration file of this run as a snapshot would have it; None without one."""
    from retrieve_cli.operations.snapshots.create import config_text

    file = _config_file(shared)
    return None if file is None else config_text(file)


def _config_file(shared: Shared) -> Path | None:
    from retrieve_cli.config.loading import DEFAULT_FILE

    return shared.config or (DEFAULT_FILE if os.path.lexists(DEFAULT_FILE) else None)


def _size(header: SnapshotHeader) -> str:
    return f"{header.records:,} records, {header.chunks:,} chunks"


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


def _cells(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    name = os.path.basename(str(entry["file"]))  # noqa: PTH119  any name
    created = str(entry.get("created", ""))[:19]
    return name, str(entry.get("generation", "not a snapshot")), created, _mib(entry["bytes"])
