"""`retrieve init`."""

from __future__ import annotations

from typing import Annotated

from retrieve_cli.assemble.trusted import record
from retrieve_cli.cli.agreement import of_configuration
from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.errors import UsageError


@shared("text", "json")
def init(
    preset: Annotated[
        str | None,
        option("--preset", "Settings for one kind of use.  [default: minimal]", "imaging|biocortex|rag|cities|modular"),
    ] = None,
    sample: Annotated[
        bool, option("--sample", "Write a sample beside it: tools.jsonl and judged queries in gold.jsonl.")
    ] = False,
    force: Annotated[bool, option("--force", "Replace existing files.")] = False,
    *,
    shared: Shared,
) -> None:
    """Write a commented configuration file to start from."""
    from retrieve_cli.config import starters
    from retrieve_cli.config.loading import DEFAULT_FILE
    from retrieve_cli.storage import durable

    path = shared.config or DEFAULT_FILE
    texts = {path: starters.starter(preset)}
    if path.is_dir():
        raise UsageError(f"{path} is a folder; --config takes a file", hint=f"--config {path / 'config.yaml'}")
    if sample:
        texts |= {path.with_name(name): text for name, text in starters.sample().items()}
    if not force and (there := next((file for file in texts if file.exists()), None)):
        raise UsageError(f"{there} already exists", hint="name another file with --config, or replace it with --force")
    for file, text in texts.items():
        try:
            durable.put(file, text)
        except OSError as error:
            hint = "name another file with --config"
            raise UsageError(f"cannot write {file}: {error.strerror}", hint=hint) from error
    for written in of_configuration(shared.config):
        record(written, "agreed")
    files = list(map(str, texts))
    said = f"wrote {', '.join(files)}{f' (preset {preset})' if preset else ''}"
    shared.show({"path": str(path), "preset": preset, "files": files}, [said])
    shared.talk.say("next: retrieve build" if sample else "next: edit its sources, then run: retrieve build")
