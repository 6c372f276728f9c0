"""The choices of one request by name: those that narrow it, and those that stand for a key of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import FileHead, Request
from retrieve_cli.errors import UsageError, quoted

Texts = str | Sequence[str]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Choices(TypedDict, total=False):
    """Choices of one request, as the flags of `retrieve query` of the same name.

    k                   number of results (the configuration's `search.k` by default, as for all keys below)
    mode                `hybrid`, or the name of the only retriever that answers
    retrievers          the only retrievers that answer: `["bm25", "dense"]`
    engine              `advanced`, or `naive`: the dense retriever alone
    filters             conditions on records, all of which must hold: `["license=MIT", "dims>=3"]`
    boosts              factors for matching records: `["section=Results:1.2"]`
    doc_ids             the only records that may be found; an empty list: none
    tenant              the only tenant whose records take part
    files               files whose format, modality and dimensions count
    also                query variants, searched along with the text
    rerank              rerank the top results (by default in hybrid mode)
    expand              add records linked to the top results (by default in hybrid mode)
    route               search only the groups that a first pass picks
    dependencies        add the dependencies of each result
    context             neighbouring chunks before and after each hit
    max_chunks          most chunks of an answer
    max_tokens          most tokens of an answer
    min_score           drop results that score below this
    min_confidence      drop results of less confidence; needs `retrieve eval --calibrate`
    deadline_ms         skip optional steps that do not fit into this time
    chunks              rank chunks instead of whole records
    offset              results to pass over: those of earlier pages
    facets              fields of which the values of matching records are counted: `["license", "modality"]`
    explain             say of each result why it stands where it does: the key `why` of its JSON
    grade               drop results less similar to the query (cosine), unless a reranker scored them
    similarity_top_k    candidates of the dense retriever; of the engine `naive`, results
    rerank_keep         results that the reranker passes on: nothing that it has not scored
    rerank_min_score    drop results with a lower score of the reranker, on its own scale
    rerank_depth        results that the reranker scores
    rerank_interpolate  share of the reranker's score in the final one: 1 takes its order alone
    """

    k: int
    mode: str
    retrievers: Texts
    engine: str
    filters: Texts
    boosts: Texts
    doc_ids: Texts
    tenant: str | None
    files: Paths
    also: Texts
    rerank: bool | None
    expand: bool | None
    route: bool
    dependencies: bool
    context: int
    max_chunks: int | None
    max_tokens: int | None
    min_score: float | None
    min_confidence: float | None
    deadline_ms: float | None
    chunks: bool
    offset: int
    facets: Texts
    explain: bool
    grade: float | None
    similarity_top_k: int | None
    rerank_keep: int | None
    rerank_min_score: float | None
    rerank_depth: int | None
    rerank_interpolate: float | None


KEYS: Mapping[str, str] = {
    "k": "search.k",
    "mode": "search.mode",
    "retrievers": "search.retrievers",
    "engine": "search.engine",
    "deadline_ms": "search.deadline_ms",
    "min_score": "search.min_score",
    "route": "gating.enabled",
    "expand": "expansion.enabled",
    "dependencies": "expansion.bundle",
    "context": "context.window",
    "max_chunks": "budget.max_chunks",
    "max_tokens": "budget.max_tokens",
    "grade": "search.grade",
    "similarity_top_k": "search.similarity_top_k",
    "rerank_keep": "rerank.keep",
    "rerank_min_score": "rerank.min_score",
    "rerank_depth": "rerank.depth",
    "rerank_interpolate": "rerank.interpolate",
}
"""Choices that stand for a key of the configuration, which checks them."""
MOST_OFFSET = 10_000
"""Results before the last page that can be asked for."""
_BY_STAGES = (
    "grade",
    "similarity_top_k",
    "rerank_keep",
    "rerank_min_score",
    "rerank_depth",
    "rerank_interpolate",
)
"""Choices for which a stage reads its key: the options of a search have them only if a request chooses them."""
_NARROWING = ("filters", "boosts", "doc_ids", "also")


def under_choices(settings: Settings, choices: Mapping[str, Any]) -> Settings:
    """Return the settings with the choices in place of the keys that they stand for; None leaves a key as it is.

    Raises:
        UsageError: a choice is unknown, or its value is not one that it takes.
    """
    from retrieve_cli.config.loading import override

    for name, value in choices.items():
        if name not in Choices.__annotations__:
            from retrieve_cli.config.values import unknown

            raise unknown(f"argument {quoted(name)} of a search", name, Choices.__annotations__)
        if name in KEYS and value is not None:
            section, _, key = KEYS[name].partition(".")
            chosen = list(texts(value, name)) if name == "retrievers" else value
            settings = override(settings, {section: {key: chosen}}, where=f"the argument {name}")
    return settings


def request_of(text: str, choices: Mapping[str, Any], *, id_: str = "1", heads: Sequence[FileHead] = ()) -> Request:
    """Return the request that a text and its choices are.

    Raises:
        UsageError: a choice that narrows the search has a value of another kind, or one that is not UTF-8.
    """
    if not isinstance(text, str):
        raise UsageError(f"a query is a text, not {quoted(text)}", hint='for example: index.search("segment lungs")')
    narrowing = {name: texts(choices.get(name), name) for name in _NARROWING}
    selected = choices.get("doc_ids") is not None
    tenant = choices.get("tenant")
    return Request(
        text=sound(text),
        id=sound(id_),
        also=tuple(map(sound, narrowing["also"])),
        files=_paths(choices.get("files")),
        heads=tuple(heads),
        filters=exact(narrowing["filters"], "filters"),
        doc_ids=exact(narrowing["doc_ids"], "doc_ids") if selected else None,
        tenant=None if tenant is None else exact(texts(tenant, "tenant")[:1], "tenant")[0],
        retrievers=tuple(dict.fromkeys(texts(choices.get("retrievers"), "retrievers"))),
    )


def options_of(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return `k`, the choices of stages, and those that no key of the configuration stands for, by their names in
    `SearchOptions`."""
    chunks = choices.get("chunks")
    return {
        "k": choices.get("k"),  # one that is given also holds where `search.similarity_top_k` replaces the default
        "unit": None if chunks is None else "chunk" if chunks else "record",
        "rerank": choices.get("rerank"),
        "min_confidence": choices.get("min_confidence"),
        "boosts": exact(texts(choices.get("boosts"), "boosts"), "boosts") or None,
        "offset": _offset(choices.get("offset")),
        "facets": exact(texts(choices.get("facets"), "facets"), "facets") or None,
        "explain": choices.get("explain"),
        **{name: choices.get(name) for name in _BY_STAGES},
    }


def _offset(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_OFFSET):
        return value
    hint = "0 for the first page, then the offset of the page before plus its number of results"
    raise UsageError(f"offset takes a whole number from 0 to {MOST_OFFSET:,}, not {quoted(value)}", hint=hint)


def texts(value: Any, name: str) -> tuple[str, ...]:
    """Return a text, or several, as several.

    Raises:
        UsageError: it is neither.
    """
    if value is None:
        return ()
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, Sequence) or not all(isinstance(each, str) for each in several):
        raise UsageError(f"{name} takes a list of strings, not {quoted(value)}", hint=f'for example: {name}=["…"]')
    return tuple(several)


def _paths(value: Any) -> tuple[str, ...]:
    several = (value,) if isinstance(value, str | Path) else () if value is None else value
    return tuple(os.fspath(path) for path in several)


def names(text: str | None) -> list[str] | None:
    """Return the names of a list with commas; None if there is none."""
    return None if text is None else [name.strip() for name in text.split(",")]


def sound(text: str) -> str:
    """Return the text as UTF-8 can hold it: bytes of another encoding and halves of characters become U+FFFD."""
    if text.isascii():
        return text
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def exact(given: Iterable[str] | None, where: str) -> tuple[str, ...]:
    """Return texts that decide which records may be found, unchanged.

    Raises:
        UsageError: UTF-8 cannot hold one of them, and with another in its place it would mean something else.
    """
    several = tuple(given or ())
    for text in several:
        if sound(text) != text:
            raise UsageError(f"{where} is not UTF-8: {quoted(sound(text))}", hint="write it in UTF-8")
    return several
