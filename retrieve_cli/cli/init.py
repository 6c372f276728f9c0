"""`retrieve init`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from retrieve_cli.assemble.trusted import record
from retrieve_cli.cli.agreement import of_configuration
from retrieve_cli.cli.config import as_yaml, values_of
from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from retrieve_cli.config.settings import SourceSetting


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
    from retrieve_cli.config.settings import Settings, SourceSetting, SourcesSettings
    from retrieve_cli.storage import durable

    path = shared.config or DEFAULT_FILE
    sources = [SourceSetting("catalog", path=Path("tools.jsonl"))] if sample else _sources(shared, path.parent)
    listed = values_of(replace(Settings(), sources=SourcesSettings(list=sources)))["sources.list"]
    texts = {path: starters.starter(preset, [as_yaml(entry) for entry in listed])}
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
    shared.talk.say("next: retrieve build" if sources else "next: list its sources, then run: retrieve build")


def _sources(shared: Shared, folder: Path) -> Sequence[SourceSetting]:
    """Return the sources of the index, or else the catalogs and folders of documents beside the configuration."""
    from retrieve_cli.api.named_sources import sources_in
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.ingest.sync import entries

    with suppress(RetrieveError):  # no index, or one whose sources the user did not agree to
        listed = entries(Settings(), shared.store, shared.talk.say)
        return [entry for entry in listed if entry.kind != "inbox"] or sources_in(folder)
    return sources_in(folder)
