"""Reach of an artifacts folder: it may be part of a clone, and its manifest names paths, servers and plug-ins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.config.settings import TRUST_HINT
from retrieve_cli.config.trust import COMMAND, OutsideValue, Trust, answers, is_model_folder, outside, state_file
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, UsageError, shortened, unwritable
from retrieve_cli.frozen import asdict
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.sources.remote.client_files import ConfiguredServers
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.manifest import Manifest

_NAMED = 5
"""Servers that an error names."""


def own_store(artifacts: Path) -> Store:
    """Return the store of an artifacts folder.

    Raises:
        UsageError: it has links out of its folder, through which it would be read and written, that the user did not
            agree to; or the path cannot be a folder of artifacts.
    """
    store = Store(artifacts)
    if next(_folder_links(artifacts), None):
        _expect_agreed(trust_of_artifacts(artifacts), "link")
    return store


def trust_of_artifacts(artifacts: Path, manifest: Manifest | None = None) -> Trust:
    """Return what an index, by default the current one, reaches outside of the folder of its artifacts folder."""
    if manifest is None:
        with suppress(IndexMissing, IndexCorrupt):
            manifest = Store(artifacts).open().manifest
    return Trust(artifacts, tuple(_reaches(artifacts, manifest)))


def agree(artifacts: Path, say: Callable[[str], object]) -> None:
    """Keep that the user trusts an index: its sources were named, or agreed to before."""
    try:
        record(trust_of_artifacts(artifacts), "agreed")
    except RetrieveError as error:
        say(f"note: cannot store that you trust this index ({error.message}): {COMMAND}")


def record(trust: Trust, answer: Literal["agreed", "declined", "forgotten"]) -> None:
    """Keep an answer.

    Raises:
        RetrieveError: the folder of the user's state cannot be written.
    """
    import json

    from retrieve_cli.storage import durable
    from retrieve_cli.storage.lock import hold_for_writing

    if trust.agreed and answer == "agreed":
        return
    file = state_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_for_writing(file.with_suffix(".lock"), wait=10.0):
            kept = {name: {**answers().get(name, {})} for name in ("agreed", "declined")}
            for places in kept.values():
                places.pop(trust.name, None)
            if answer != "forgotten":
                kept[answer][trust.name] = trust.digest
            durable.replace(file, json.dumps({"version": 1, **kept}, indent=1) + "\n", mode=0o600)
    except OSError as error:
        raise unwritable(file, error) from error


def _reaches(artifacts: Path, manifest: Manifest | None) -> Iterator[OutsideValue]:
    home = artifacts.absolute().parent
    for origin in _origins(manifest) if manifest else ():
        for key in ("path", "query"):
            if isinstance(path := origin.get(key), str) and "\0" not in path and outside(path, home):
                yield OutsideValue.at("source", "path", path)
        if isinstance(command := origin.get("command"), str):
            yield OutsideValue("source", "code", command)
        for key in ("url", "endpoint"):
            if isinstance(address := origin.get(key), str):
                yield OutsideValue("source", "download", address)
    yield from (OutsideValue("retriever", "code", name) for name in (_added(manifest) if manifest else ()))
    links = [*_folder_links(artifacts), *(_links(artifacts / "generations" / manifest.id) if manifest else ())]
    yield from (OutsideValue.at("link", "path", path) for path in links if outside(path, home))
    yield from (OutsideValue.at("model", "code", name) for name in (_models(manifest, home) if manifest else ()))


def trust_of_servers(path: Path) -> tuple[Trust, ConfiguredServers]:
    """Return the servers of tools that a client's configuration names, and the agreement that they need.

    Raises:
        UsageError: it cannot be read, or names no server.
    """
    from retrieve_cli.sources.remote.client_files import described, servers_in

    configured = servers_in(path)
    usable = [server for server in configured.servers if not server.problem]
    reaches = tuple(OutsideValue(f"server {server.name}", "server", described(server)) for server in usable)
    covers = canonical([asdict(server) for server in usable]).decode()
    return Trust(Path(os.path.realpath(path)), reaches, covers), configured


def agreed_servers(path: Path) -> ConfiguredServers:
    """Return the servers of tools that a client's configuration names.

    Raises:
        UsageError: the user did not agree to starting and contacting them, as the file names them now.
    """
    trust, configured = trust_of_servers(path)
    if not trust.agreed:
        named = [f"{reach.key.removeprefix('server ')} ({shortened(reach.value)})" for reach in trust.reaches]
        listed = "; ".join([*named[:_NAMED], *([f"{len(named) - _NAMED} more"] if len(named) > _NAMED else [])])
        message = f"{path} names servers of tools that you did not agree to: {listed}"
        raise UsageError(message, hint=f"look at them and agree: {COMMAND} {quote(str(path))}")
    return configured


def expect_own(generation: Generation) -> None:
    """Hold an index to what the user agreed to, before any of its parts is opened.

    Raises:
        UsageError: it has links to files outside of its folder, a retriever of a plug-in, or a folder as its model.
    """
    manifest, folder = generation.manifest, generation.folder
    artifacts = folder.parent.parent
    if _added(manifest) or _links(folder) or _models(manifest, artifacts.absolute().parent):
        _expect_agreed(trust_of_artifacts(artifacts, manifest), "link", "retriever", "model")


def _expect_agreed(trust: Trust, *keys: str) -> None:
    strange = [reach.value for reach in trust.reaches if reach.key in keys]
    if strange and not trust.agreed:
        message = f"the index {trust.place} uses {', '.join(strange)}, which you did not agree to"
        raise UsageError(message, hint=TRUST_HINT)


def expect_own_sources(artifacts: Path, manifest: Manifest) -> None:
    """Raises: UsageError: the sources that an index names are elsewhere, and the user did not agree to reading them."""
    if places := strange_sources(artifacts, manifest):
        message = f"the index {artifacts} was built from {', '.join(places)}, which you did not agree to read"
        raise UsageError(message, hint=TRUST_HINT)


def strange_sources(artifacts: Path, manifest: Manifest) -> list[str]:
    """Return the places of sources outside of an index's folder that the user did not agree to read."""
    trust = trust_of_artifacts(artifacts, manifest)
    return [] if trust.agreed else [reach.value for reach in trust.reaches if reach.key == "source"]


def _origins(manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    sources = manifest.built.get("sources")
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, dict) and isinstance(origin := source.get("origin"), dict):
            yield origin


def _added(manifest: Manifest) -> list[str]:
    """The retrievers of an index that are not built in."""
    return [name for name in manifest.recipe.retrievers if name not in retriever_names()]


def _models(manifest: Manifest, home: Path) -> list[str]:
    """Return the models of an index that are folders, whose code may be run."""
    recipe = manifest.recipe
    cards = [card for card in (recipe.encoder, *recipe.retrievers.values()) if isinstance(card, dict)]
    names = [str(card["name"]) for card in cards if card.get("name") and card.get("family") != "remote"]
    return [name for name in names if is_model_folder(name, home)]


def _folder_links(artifacts: Path) -> Iterator[str]:
    """Yield the links of an artifacts folder outside of generations; one in the working folder may be a link itself."""
    if artifacts.is_symlink() and not artifacts.is_absolute():
        yield str(artifacts)
        return  # nothing of the folder elsewhere is looked at before the user agreed
    for folder in (artifacts, artifacts / "inbox", artifacts / "sources"):
        if folder == artifacts or not folder.is_symlink():
            yield from _links(folder)


def _links(folder: Path) -> list[str]:
    """The symbolic links directly in a folder."""
    try:
        return [str(path) for name in os.listdir(folder) if (path := folder / name).is_symlink()]  # noqa: PTH208  faster
    except OSError:
        return []
