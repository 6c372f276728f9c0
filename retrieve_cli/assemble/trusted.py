"""Reach of an artifacts folder: it may be part of a clone, and its manifest names paths, servers and plug-ins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.config.settings import TRUST_HINT
from retrieve_cli.config.trust import Reach, Trust, outside
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.manifest import Manifest


def trust_of_artifacts(artifacts: Path, manifest: Manifest) -> Trust:
    """Return what an index reaches outside of the folder in which its artifacts folder lies."""
    return Trust(artifacts, tuple(_reaches(artifacts, manifest)))


def _reaches(artifacts: Path, manifest: Manifest) -> Iterator[Reach]:
    home = artifacts.absolute().parent
    for origin in _origins(manifest):
        for key in ("path", "query"):
            if isinstance(path := origin.get(key), str) and "\0" not in path and outside(path, home):
                yield Reach("source", "path", path)
        for key in ("url", "endpoint"):
            if isinstance(address := origin.get(key), str):
                yield Reach("source", "address", address)
    yield from (Reach("retriever", "code", name) for name in _added(manifest))
    for folder in (artifacts, artifacts / "generations" / manifest.id):
        yield from (Reach("link", "path", path) for path in _links(folder) if outside(path, home))


def expect_own(generation: Generation) -> None:
    """Hold an index to what the user agreed to, before anything of it is loaded or read besides its manifest.

    Raises:
        UsageError: it has links to files outside of its folder, or a retriever of a plug-in.
    """
    manifest, folder = generation.manifest, generation.folder
    if not (_added(manifest) or _links(folder) or _links(folder.parent.parent)):
        return
    trust = trust_of_artifacts(folder.parent.parent, manifest)
    strange = [reach.value for reach in trust.reaches if reach.key in ("link", "retriever")]
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


def _links(folder: Path) -> list[str]:
    """The symbolic links directly in a folder."""
    try:
        return [str(path) for name in os.listdir(folder) if (path := folder / name).is_symlink()]  # noqa: PTH208  faster
    except OSError:
        return []
