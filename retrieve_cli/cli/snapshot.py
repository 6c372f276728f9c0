"""`retrieve snapshot`: a generation as one file, to keep and to move to another machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.cli.options import Shared, argument, group, option, shared
from retrieve_cli.cli.progress import progress_for
from retrieve_cli.contracts.terms.figures import size
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.operations.snapshots.archive import SnapshotHeader

app = group("Keep a generation as one file: create, list, verify, restore.")


File = Annotated[Path, argument("FILE", "A snapshot, .tar.zst.")]


@app.command()
@shared("text", "json")
def create(
    place: Annotated[Path, argument("[PLACE]", "Output file, or a folder for GENERATION-MARK.tar.zst.")] = Path(),
    generation: Annotated[
        str | None, option("--generation", "The generation to keep; by default the current one.", "ID")
    ] = None,
    keep: Annotated[
        int | None,
        option("--keep", "Then delete all but the last N snapshots of this index in the folder.", "N", min=1),
    ] = None,
    force: Annotated[bool, option("--force", "Replace an existing file.")] = False,
    *,
    shared: Shared,
) -> None:
    """Write a generation, the inbox and the calibration into one compressed file.

    In a folder, an existing equal snapshot is verified and kept, so that a timer may run this. Configuration, keys and
    models are not included; models are named by their digests.
    """
    from retrieve_cli.operations.snapshots import create as creating

    if keep is not None and not place.is_dir():
        raise UsageError(f"--keep takes a folder, and {place} is not one", hint=f"make it: mkdir -p {place}")
    shared.settings()
    with progress_for(shared.talk, sys.stderr):
        created = creating.create(shared.store, place, generation=generation, force=force)
    if keep is not None:
        created = creating.remove_old(created, keep)
    for path in created.removed:
        shared.talk.say(f"deleted {path}: the last {keep} are kept (--keep)")
    report = created.to_json()
    about = f"generation {created.header.generation}, {size(report['bytes'])}"
    existed = " exists already" if created.status == "unchanged" else ""
    shared.show(report, [f"{created.path}{existed}: {about}"])


@app.command("list")
@shared("text", "json")
def list_(folder: Annotated[Path, argument("[DIR]", "A folder of snapshots.")] = Path(), *, shared: Shared) -> None:
    """List the snapshots of a folder with sizes and dates, the latest first."""
    from retrieve_cli.operations.snapshots.create import listing
    from retrieve_cli.output.formats import document
    from retrieve_cli.output.styled_lines import print_table

    snapshots = listing(folder)
    if shared.format == "json":
        print(document({"schema_version": 1, "snapshots": snapshots}))
        return
    rows = map(_cells, snapshots)
    print_table(shared.console(), ("snapshot", "generation", "date", "size"), rows, right=("size",))


@app.command()
@shared("text", "json")
def verify(file: File, *, shared: Shared) -> None:
    """Verify the checksums of every member of a snapshot, without unpacking it; exit 5 if it is damaged."""
    from retrieve_cli.operations.snapshots.archive import read

    with progress_for(shared.talk, sys.stderr):
        header = read(file)
    text = f"{file} is sound: generation {header.generation}, {_size(header)}"
    shared.show({"ok": True, "file": str(file), **header.summary()}, [text])


@app.command()
@shared("text", "json")
def restore(file: File, *, shared: Shared) -> None:
    """Verify and unpack a snapshot, and make its generation the current one; all of it or nothing."""
    from retrieve_cli.operations.snapshots import restore as restoring

    with progress_for(shared.talk, sys.stderr) as progress:
        restored = restoring.restore(file, shared.store, shared.settings(), progress)
    documents = f", {restored.documents:,} documents of the inbox" if restored.documents else ""
    text = f"restored generation {restored.header.generation}: {_size(restored.header)}{documents}"
    shared.show(restored.to_json(), [text])


def _size(header: SnapshotHeader) -> str:
    return f"{header.records:,} records, {header.chunks:,} chunks"


def _cells(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    created = str(entry.get("created", ""))[:19]
    generation = str(entry.get("generation", "not a snapshot"))
    return Path(entry["file"]).name, generation, created, size(entry["bytes"])
