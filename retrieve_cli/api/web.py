"""Web and literature search for programs: one JSON object as one search, and results as documents of the index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from retrieve_cli.api.documents import Documents, Receipt, Status
from retrieve_cli.api.fields import Field
from retrieve_cli.api.requests import sound
from retrieve_cli.api.schemas import checked
from retrieve_cli.config.durations import seconds
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.works import Work
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.web_answer import LONGEST_DEADLINE_MS, MOST_RESULTS, MOST_TEXT, WebAnswer, WebOptions
from retrieve_cli.untrusted.nearest import nearest
from retrieve_cli.websearch import dates

_MOST_NAMES = 20
_LONGEST_NAME = 100
_EXAMPLE = 'for example: {"query": "CRISPR off-target effects"}'
_KINDS = ("auto", "web", "literature")
# Behind `$`, `(?!\n)` is for engines in which that also matches before a line feed at the end.
_DATE = r"^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$(?!\n)"
_FLAG: Mapping[str, Json] = {"type": "boolean"}
_NAMES: Mapping[str, Json] = {
    "type": ["array", "string"],
    "items": {"type": "string", "maxLength": _LONGEST_NAME},
    "maxItems": _MOST_NAMES,
    "maxLength": _LONGEST_NAME * _MOST_NAMES,
}
"""Names in a list, or in a text with commas between them."""

FIELDS: Mapping[str, Field] = {
    "query": Field({"type": "string", "maxLength": MOST_TEXT}, "The query, which is sent to the providers."),
    "k": Field({"type": "integer", "minimum": 1, "maximum": MOST_RESULTS}, "Number of results."),
    "kind": Field(
        {"title": "kind", "type": "string", "enum": list(_KINDS)},
        "Providers that are asked: of the web, of literature, or chosen by the query.",
    ),
    "providers": Field(_NAMES, "Providers to ask; by default those of the kind that are configured."),
    "since": Field(
        {"type": ["string", "integer"], "pattern": _DATE, "minimum": 1000, "maximum": 2200},
        "Earliest date: 2024, 2024-03 or 2024-03-05.",
    ),
    "categories": Field(_NAMES, "Categories of arXiv, of which a result must have one: q-bio, cs.AI."),
    "first": Field(_FLAG, "Ask one provider after the other until one has results."),
    "deadline_ms": Field(
        {"type": "number", "minimum": 1, "maximum": LONGEST_DEADLINE_MS}, "Time for all providers together."
    ),
    "max_age": Field(
        {"type": ["number", "string"], "minimum": 0, "maxLength": 20},
        "Greatest age of a stored answer that is used again: seconds, or 24h; 0: none is used.",
    ),
    "offline": Field(_FLAG, "Answer from stored answers alone, whatever their age."),
    "rerank": Field(_FLAG, "Rerank the results by the encoder of the index."),
    "add": Field(_FLAG, "Add the results to the index as documents; needs the scope documents:write."),
}
ALIASES: Mapping[str, str] = {
    "q": "query",
    "text": "query",
    "limit": "k",
    "top_k": "k",
    "max_results": "k",
    "provider": "providers",
    "category": "categories",
}
"""Other spellings of keys."""


class AskedWeb(NamedTuple):
    """A web search that somebody asks for."""

    options: WebOptions
    add: bool = False
    """True: add the results to the index."""


class AnswersWeb(Protocol):
    """A web search that is configured."""

    def answer(self, options: WebOptions, *, owner: str = "") -> WebAnswer:
        """Return the answer to a search. Stored answers are those of an owner alone, such as a tenant.

        Raises:
            RetrieveError: the options do not fit the configuration.
        """


def read_web(
    item: Mapping[str, Json], *, where: str = "the request", keys: Collection[str] = tuple(FIELDS)
) -> AskedWeb:
    """Return the search that a JSON object with some of these keys is.

    Raises:
        UsageError: a key is unknown, or its value is not one that it takes.
    """
    for key in item:
        if ALIASES.get(key, key) not in keys:
            near = nearest(key.casefold(), [*keys, *(alias for alias, name in ALIASES.items() if name in keys)])
            hint = f"did you mean `{near}`?" if near else f"keys: {', '.join(keys)}"
            raise UsageError(f"{where} has an unknown key {quoted(key)}", hint=hint)
    values = {name: _checked(name, value, f"`{key}` of {where}") for name, key, value in _spelt(item, where)}
    text = sound(values.pop("query", "")).strip()
    if not text:
        raise UsageError(f"{where} has no query", hint=_EXAMPLE)
    add = values.pop("add", False)
    if "max_age" in values:
        values["max_age_s"] = values.pop("max_age")
    return AskedWeb(WebOptions(text=text, **values), add)


def _spelt(item: Mapping[str, Json], where: str) -> list[tuple[str, str, Json]]:
    """The keys that have a value: name, spelling, value. Raises: UsageError if two spellings of one key differ."""
    chosen: dict[str, tuple[str, Json]] = {}
    for spelling in (*FIELDS, *ALIASES):
        if (value := item.get(spelling)) is None:
            continue
        first, known = chosen.setdefault(ALIASES.get(spelling, spelling), (spelling, value))
        if first != spelling and known != value:
            message = f"{where} has `{first}` and `{spelling}`, which mean the same, with different values"
            raise UsageError(message, hint="remove one of them")
    return [(name, *chosen[name]) for name in FIELDS if name in chosen]


def _checked(name: str, value: Json, place: str) -> Any:
    """The value of a key as `WebOptions` has it. Raises: UsageError."""
    field = FIELDS[name]
    value = checked(value, field.schema, place, hint=field.description)
    if field.schema is _NAMES:
        return _names(value, place, hint=field.description)
    if name == "max_age":
        return seconds(value, place)
    if name == "since":
        date = str(value)
        if dates.of_text(date) != date:
            raise UsageError(f"{place} is not a date: {quoted(date)}", hint=field.description)
        return date
    return value


def _names(value: str | Sequence[str], place: str, *, hint: str) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    named = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not named:
        raise UsageError(f"{place} is empty", hint="remove the key")
    if len(named) > _MOST_NAMES:
        raise UsageError(f"{place} has {len(named):,} names, more than {_MOST_NAMES}", hint=hint)
    return named


def schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a search with all keys in all their spellings.

    A key with the value null counts as absent; the schema has none, so that a program that follows it sends none.
    """
    properties = {key: _property(key) for key in (*FIELDS, *ALIASES)}
    spellings = [key for key in properties if ALIASES.get(key, key) == "query"]
    required = {"anyOf": [{"required": [key]} for key in spellings]}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _property(key: str) -> dict[str, Json]:
    name = ALIASES.get(key, key)
    described = FIELDS[name].description if name == key else f"Another name of `{name}`."
    return {**FIELDS[name].schema, "description": described}


# --------------------------------------------------------------------------------------------- documents

ORIGIN = "web"
"""Value of the field `origin` of documents that a web search has added. The field `source` of a record is taken: it
names the entry of the configuration, here that of the inbox."""


def add_hits(documents: Documents, answer: WebAnswer, *, tenant: str | None) -> Receipt:
    """Add the results of a search to the index as documents; a later one of the same id replaces an earlier one.

    The receipt has one status for each result, in their order. Results without abstract and snippet are not added,
    with the reason.

    Raises:
        RetrieveError: nothing could be stored.
    """
    works = [hit.work for hit in answer.hits]
    added = [document_of(work) for work in works if _text(work)]
    receipt = documents.add(added, tenant=tenant) if added else Receipt(0, ())
    statuses = iter(receipt.documents)
    reason = "not added: it has neither an abstract nor a snippet"
    return Receipt(
        receipt.sequence, [next(statuses) if _text(work) else Status(work.id, 0, "rejected", reason) for work in works]
    )


def document_of(work: Work) -> dict[str, Json]:
    """Return a work as a document.

    It is the same for every query that finds the work in the same responses: neither the query nor ranks are part of
    it, so that they do not become known to others who may search the index.
    """
    metadata: dict[str, Json] = {
        "origin": ORIGIN,
        "type": work.type,
        "authors": list(work.authors),
        "date": work.date,
        "venue": work.venue,
        **{id_.kind: id_.value for id_ in work.ids if id_.kind != "url"},
        "license": work.license,
        "pdf_url": work.pdf_url,
        "open_access": work.open_access,
        "retracted": work.retracted,
        "provenance": dict(work.provenance),
        "found_by": [
            {"provider": source.provider, "at": source.at, "digest": source.digest} for source in work.found_by
        ],
        "retrieved_at": max((source.at for source in work.found_by), default=""),
    }
    kept = {key: value for key, value in metadata.items() if value is not None and value not in ("", [], {})}
    document = {"id": work.id, "title": work.title, "text": _text(work), "url": work.url, "metadata": kept}
    return {key: value for key, value in document.items() if value}


def _text(work: Work) -> str:
    return (work.abstract or work.snippet).strip()
