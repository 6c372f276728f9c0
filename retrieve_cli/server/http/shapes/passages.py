"""`POST /retrieve`: passages for a program that writes an answer from them, and the same as one numbered context."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.output.places import citation, numbered, page_keys, span_of
from retrieve_cli.output.prompt import fitting
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.server.http.shapes.shape import Read, asked_of

_OMITTED = ("chunks", "dependencies", "expand", "explain", "facets", "id", "offset")
"""Keys of a search that have no meaning here: passages are chunks, and nothing else is returned."""
_NAMES = [name for name in SEARCH.of_json if name not in _OMITTED]
_TOP_K: Json = {**SEARCH.rows["limit"].schema, "description": "Number of passages."}
_REQUEST = SEARCH.body(_NAMES)
SCHEMA: dict[str, Json] = {**_REQUEST, "properties": {**_REQUEST["properties"], "top_k": _TOP_K}}


def read(payload: Json, tenant: str | None, settings: Settings) -> Read:
    """Return a request. Raises: UsageError."""
    del settings
    SEARCH.spelt(payload, "the body", among=_NAMES)
    return Read(asked_of({**payload, "chunks": True}, tenant), passages_json)


_LIKELY = 0.5
"""Confidence below which a passage is more likely irrelevant than relevant."""


def passages_json(answer: Answer) -> dict[str, Json]:
    """Return the passages of an answer, and the same as one text for a prompt.

    `context` numbers the passages from 1 in the order of `passages`; a budget of tokens holds for the whole text,
    headings included, and later passages that do not fit are omitted from both. `no_answer` is true if nothing was
    found, or if the best passage is more likely irrelevant than relevant (below `min_confidence`, if the request has
    one), which only a calibration knows; otherwise it is null.
    """
    kept = fitting(answer, answer.results, _context)
    no_answer = True if answer.before_budget == 0 else None
    if answer.before_budget != 0 and answer.confidence is not None and answer.results:
        least = float(answer.confidence.get("min_confidence", _LIKELY))
        no_answer = max(result.confidence or 0.0 for result in answer.results) < least
    return {
        "query": answer.query.text,
        "passages": [_passage(result) for result in kept],
        "context": _context(kept),
        "no_answer": no_answer,
        "spent": _spent(answer, kept),
        "generation": answer.generation,
        **({"notices": list(answer.notices)} if answer.notices else {}),
    }


def _context(results: Sequence[Result]) -> str:
    return "\n".join(numbered(number, _place(result), result.text) for number, result in enumerate(results, 1))


def _place(result: Result) -> str:
    section = result.chunk["section"]
    return citation(result, span_of(result), (str(section),) if section else ())


def _passage(result: Result) -> dict[str, Json]:
    record, chunk, span = result.record, result.chunk, span_of(result)
    return {
        "id": result.id,
        "doc_id": result.doc_id,
        "text": result.text,
        "score": result.score,
        "relevance": result.relevance,
        "source": {
            "title": record["name"],
            "url": record["url"],
            "path": chunk["source"],
            "lines": [span.start_line, span.end_line] if span.place is None else None,
            **page_keys(span.place),
            "section": chunk["section"],
        },
        "citation": _place(result),
    }


def _spent(answer: Answer, kept: Sequence[Result]) -> dict[str, Json]:
    """The use of the budget; `tokens` counts the context, None if the request does not limit it."""
    chunks, spent = sum(len(span_of(result)) for result in kept), answer.spent
    if spent is None:
        return {"chunks": chunks, **dict.fromkeys(("max_chunks", "max_tokens", "tokens", "tokenizer")), "omitted": []}
    shown = {result.id for result in kept}
    omitted = [skipped.id for skipped in spent.skipped]
    return {
        "chunks": chunks,
        "max_chunks": spent.max_chunks,
        "max_tokens": spent.max_tokens,
        "tokens": None if spent.count is None else spent.count(_context(kept)),
        "tokenizer": spent.tokenizer,
        "omitted": omitted + [result.id for result in answer.results if result.id not in shown],
    }
