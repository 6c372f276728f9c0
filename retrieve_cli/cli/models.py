"""`retrieve models`: the models that the configuration needs, on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, argument, group, option, shared
from retrieve_cli.errors import Exit, printable

if TYPE_CHECKING:
    from rich.console import Console

app = group("List, pull, verify or export the models that the configuration needs.")


Name = Annotated[str | None, argument("[NAME]", "A stage (encoder, splade, rerank) or a model.  [default: all]")]


@app.command("list")
@shared("text", "json")
def list_(*, shared: Shared) -> None:
    """List the model of each configured stage: whether it is installed, its path, size, licence and revision."""
    from retrieve_cli.operations.models.needs import listing
    from retrieve_cli.output import formats

    found = listing(shared.settings())
    if shared.format == "json":
        print(formats.document(found))
        return
    _table(found["models"], shared.console())
    for model in found["models"]:
        if model["state"] != "here":
            shared.talk.say(f"{model['stage']}: {model['problem']}")
            shared.talk.say(f"hint: {model['hint']}")
    for server in found["servers"]:
        print(printable(f"server      {server['stage']:8}  {server['model']} at {server['base_url']}"))
        if server["hint"]:
            shared.talk.say(f"{server['stage']}: its key is not set")
            shared.talk.say(f"hint: {server['hint']}")
    if not (found["models"] or found["servers"]):
        shared.talk.say("no configured stage needs a model")


@app.command()
@shared("text", "json")
def pull(
    name: Name = None,
    from_dir: Annotated[Path | None, option("--from-dir", "Copy this folder into models.dir.", "DIR")] = None,
    force: Annotated[bool, option("--force", "Fetch it again even if it is intact.")] = False,
    *,
    shared: Shared,
) -> None:
    """Download missing models from the Hugging Face hub, or copy one from a folder."""
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.operations.models.pull import pull as bring

    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # one of the program's own is shown
    with progress_for(shared.talk, sys.stderr) as progress:
        done = bring(shared.settings(), name, from_dir=from_dir, force=force, say=progress.say)
    _print(done, shared, "{action}  {model}  {path}  {MiB} MiB  license {license}  revision {revision:.12}")
    for model in done:
        if model["shadowed_by"] is not None:
            shared.talk.say(f"note: {model['model']} is still read from {model['shadowed_by']}, which takes precedence")


@app.command()
@shared("text", "json")
def verify(name: Name = None, *, shared: Shared) -> None:
    """Check every byte of the models and their exports; exit with 5 if one is damaged, 6 if one is missing."""
    from retrieve_cli.operations.models.verify import verify as check
    from retrieve_cli.output import formats

    report = check(shared.settings(), name)
    if shared.format == "json":
        print(formats.document(report))
    for model in report["models"]:
        if shared.format == "text":
            export = f"  export: {model['export']['state']}" if model["export"] else ""
            print(printable(f"{model['state']}  {model['stage']}  {model['model']}  {model['path'] or ''}{export}"))
        for problem in model["problems"]:
            shared.talk.say(problem)
        if model["hint"]:
            shared.talk.say(f"hint: {model['hint']}")
    states = {model["state"] for model in report["models"]}
    if not report["ok"]:
        raise typer.Exit(Exit.INDEX_CORRUPT if "damaged" in states else Exit.UNAVAILABLE)


@app.command()
@shared("text", "json")
def export(name: Name = None, *, shared: Shared) -> None:
    """Export models to ONNX in the model cache; exit with 6 if the named model cannot be exported."""
    from retrieve_cli.operations.models.needs import export as write

    done = write(shared.settings(), name, say=shared.talk.say)
    _print(done, shared, "{action}  {model}  {path}  {MiB} MiB  {seconds} s")
    for model in done:
        if model["reason"]:
            shared.talk.say(f"{model['model']} is not exported: {model['reason']}")
    if name is not None and any(model["action"] == "not_exported" for model in done):
        raise typer.Exit(Exit.UNAVAILABLE)


def _print(done: Sequence[dict[str, Any]], shared: Shared, line: str) -> None:
    lines = []
    for model in done:
        shown = {key: "-" if value is None else value for key, value in model.items()}
        lines.append(line.format(**shown, MiB=_mib(model["bytes"])))
    shared.show({"models": done}, lines)


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**20:.1f}"


def _table(rows: Sequence[dict[str, Any]], console: Console) -> None:
    from rich.text import Text

    for row in rows:
        style = "green" if row["state"] == "here" else "bold red"
        said = f"  {row['stage']:8}  {row['model']}"
        console.print(Text.assemble((f"{row['state']:10}", style), printable(said)), soft_wrap=True)
        if row["path"] is None:
            continue
        facts = f"{_mib(row['bytes'])} MiB, license {row['license']}, revision {row['revision'][:12]}"
        export = row["export"]["path"] or row["export"]["why_not"] or "none yet: retrieve models export"
        for name, value in (("path", row["path"]), ("holds", facts), ("export", export)):
            console.print(Text(f"            {name:6}  {printable(value)}"), soft_wrap=True)
