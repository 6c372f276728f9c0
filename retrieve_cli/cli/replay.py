"""`retrieve replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, argument, shared
from retrieve_cli.errors import Exit

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.operations.replay import Replay


@shared("text", "json")
def replay(
    run: Annotated[str, argument("RUN", "A run saved by --save-run: its id or folder.")], *, shared: Shared
) -> None:
    """Repeat a saved run on its generation, under its settings, and compare the answers byte by byte.

    Times, deadlines, run ids and the freshness of sources are not compared. Servers, credentials and folders of models
    come from the current configuration. A web search is answered again from its own exchanges; nothing is sent.
    Exit with 0 if the answers are identical, 1 if not.
    """
    from retrieve_cli.output import journal

    settings = shared.settings()
    folder = Path(run) if "/" in run or Path(run).is_dir() else journal.folder_of(shared.store.runs, run)
    found = _replayed(folder, settings, shared)
    for note in found.notes:
        shared.talk.say(f"note: {note}")
    shared.show(found.as_json(), ["identical"] if found.identical else found.lines())
    if not found.identical:
        raise typer.Exit(Exit.ERROR)


def _replayed(folder: Path, settings: Settings, shared: Shared) -> Replay:
    """Return the outcome of a replay: of a web search from its exchanges, of other runs from their generation."""
    from retrieve_cli.output import journal

    saved = journal.read(folder)
    if saved.get("kind") == "web":
        from retrieve_cli.operations import web_replay

        return web_replay.replay(folder, settings)
    from retrieve_cli.cli import requests
    from retrieve_cli.operations import replay as replaying

    run = replaying.SavedRun.of(saved, f"run {folder.resolve().name}")
    numbered = enumerate(run.requests, 1)
    requested = [requests.from_run(item, f"request {number} of {run.name}") for number, item in numbered]
    return replaying.replay(shared.store, settings, run, requested)
