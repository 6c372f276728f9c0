"""Registry of retrievers: the built-in ones, one line each, and the retrievers of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from retrieve_cli.config import plugins
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.errors import IndexCorrupt, NotConfigured, Unavailable, quoted
from retrieve_cli.retrieval.retrievers.retriever import TERMS, VECTOR, QueryForm, Retriever
from retrieve_cli.storage.recipe import NAMED

if TYPE_CHECKING:
    from retrieve_cli.retrieval.stages.fusion import Fusion

_MODULES = dict(zip(plugins.retriever_names(), plugins.RETRIEVERS, strict=True))
_WITHOUT_INDEX = {plugins.LLM: "retrieve_cli.retrieval.retrievers.llm"}


@cache
def retriever(name: str) -> Retriever[Any]:
    """Return a retriever by its name.

    Raises:
        IndexCorrupt: no retriever of that name is installed.
        Unavailable: it is a plug-in that cannot be loaded, or its name differs from its entry point.
    """
    if module := _MODULES.get(name) or _WITHOUT_INDEX.get(name):
        builtin: Retriever[Any] = import_module(module).RETRIEVER
        return builtin
    added = plugins.load(name) if name in plugins.installed() else None
    if not isinstance(added, Retriever):
        hint = "install the package that adds it, or build again: retrieve build"
        raise IndexCorrupt(f"the index has a retriever {quoted(name)}, which is not installed", hint=hint)
    if name in NAMED:
        message = f"the plug-in {quoted(name)} has the name of another part of the recipe"
        raise Unavailable(message, hint="give the retriever and its entry point another name")
    if added.name != name:
        message = f"the plug-in {quoted(name)} adds a retriever with another name, {quoted(added.name)}"
        raise Unavailable(message, hint="give its entry point the name of the retriever")
    return added


def loadable(names: Iterable[str]) -> list[Retriever[Any]]:
    """Return the retrievers that can be loaded; an older generation may name others."""
    retrievers = []
    for name in names:
        with suppress(IndexCorrupt, Unavailable):
            retrievers.append(retriever(name))
    return retrievers


def asked_with(form: QueryForm[Any]) -> list[str]:
    """Return the built-in retrievers that take queries of a form."""
    return [name for name in _MODULES if retriever(name).form is form]


def compares_vectors(name: str) -> bool:
    """Return True if a retriever takes a vector as query."""
    return retriever(name).form is VECTOR


def asked_with_vectors() -> list[str]:
    """Return the built-in retrievers that take the vector of a query."""
    return asked_with(VECTOR)


def asked_with_terms() -> list[str]:
    """Return the built-in retrievers that take learned term weights."""
    return asked_with(TERMS)


def ordered(names: Iterable[str]) -> list[str]:
    """Return retrievers in the order in which they run: the built-in ones first."""
    places = {name: place for place, name in enumerate(_MODULES)}
    return sorted(names, key=lambda name: (places.get(name, len(places)), name))


def to_build(settings: Settings) -> list[Retriever[Any]]:
    """Return the retrievers that a build may have, including plug-ins that are not disabled.

    Raises:
        Unavailable: a plug-in cannot be loaded.
    """
    settings.expect_trusted("engines", *sections("index"))
    added = [name for name in plugins.installed() if settings.plugins.get(name, {}).get("enabled", True)]
    names = [*_MODULES, *(name for name in added if isinstance(plugins.load(name), Retriever))]
    if taken := [name for name in names if name in _WITHOUT_INDEX]:
        message = f"the plug-in {quoted(taken[0])} has the name of a retriever"
        raise Unavailable(message, hint="give it and its entry point another name")
    by_file = {added.file: added for added in map(retriever, names)}
    if len(by_file) < len(names):
        twice = next(name for name in reversed(names) if retriever(name) not in by_file.values())
        message = f"two retrievers write {retriever(twice).file}, {quoted(twice)} and another one"
        raise Unavailable(message, hint="give the artifact of the plug-in another name")
    return [retriever(name) for name in names]


def chosen(mode: str, subset: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return the retrievers of an index (`present`) for a mode, or for a request that names a subset of them.

    A retriever without an index can be named; it comes after the others.

    Raises:
        NotConfigured: a named retriever is not in the index.
    """
    wanted = tuple(subset) or (() if mode == plugins.HYBRID else (mode,))
    others = tuple(name for name in dict.fromkeys(wanted) if name in _WITHOUT_INDEX)
    for name in wanted:
        if name not in (*present, *others):
            hint = f"it has {', '.join(present)}; configure {name} and build again: retrieve build"
            raise NotConfigured(f"this index has no {name} retriever", hint=hint)
    return (*(name for name in present if name in wanted), *others) if wanted else tuple(present)


def check_required(present: Sequence[str], settings: Settings) -> None:
    """Check that an index with the retrievers `present` has those that the configuration requires.

    Raises:
        Unavailable: a required built-in retriever is not in the index.
    """
    for name, missing in ((name, retriever(name)) for name in _MODULES if name not in present):
        if missing.required(settings) and missing.configured(settings):
            message = f"this index has no {name} retriever, but the configuration requires it"
            raise Unavailable(message, hint=f"build again: retrieve build; or use the others: --mode {present[0]}")


def fusion_of(settings: Settings, names: Sequence[str]) -> Fusion:
    """Return the configured fusion of some retrievers."""
    from retrieve_cli.retrieval.stages.fusion import Fusion

    chosen = settings.fusion
    weights = {name: chosen.weights.get(name, retriever(name).weight) for name in names}
    return Fusion(method=chosen.method, normalization=chosen.normalization, rrf_k=chosen.rrf_k, weights=weights)
