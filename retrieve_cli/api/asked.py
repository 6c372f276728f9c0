"""One JSON object as one request: lines of a batch, bodies of HTTP and arguments of MCP mean the same.

Several requests of which some may be wrong: each gets its answer or its error, in order.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from retrieve_cli.api.choices import HEAD_BYTES, SEARCH
from retrieve_cli.api.requests import IN_REQUEST, checked, kinds_of, request_of, sound
from retrieve_cli.api.table import ALONE, Choice, Schema
from retrieve_cli.contracts import FileHead, Json, Question, Request
from retrieve_cli.errors import STEP_FAILURES, Forbidden, RetrieveError, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.plan import check
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.untrusted.nearest import nearest

_EXAMPLE = 'for example: {"query": "segment lungs in CT"}, or "filters" alone for a list'
_EXAMPLES = {"retrievers": '["bm25"]', "files": '[{"name": "scan.nii.gz", "head_base64": "…"}]'}
_ALIKE = 0.8
"""Least similarity at which an unknown key counts as a misspelt one: `filtr` does, `fields` (of `filter`) does not."""
_SHORTEST = 5
"""Characters from which on it may: `model` is not `mode`."""
Local = Callable[[str], str]
_OWN_KEYS = ("query", "id", "files", "generation", "at_least")
"""Keys of a request that are no arguments in Python, or others."""
_PREFERRED = ("query", "id")
"""Keys of which a line may have several spellings: the first one counts, as files of queries have further texts."""


class Asked(NamedTuple):
    """A request, and its choices."""

    request: Request
    choices: Mapping[str, Any]
    """Choices by the names of `api.requests.Choices`, those that are part of the request excepted."""
    generation: str | None = None
    """Id of the generation that answers; None: the current one."""
    at_least: int | None = None
    """Sequence of a document that the generation must include."""


def read_asked(
    item: Mapping[str, Json], *, where: str = "the request", tenant: str | None = None, local: Local | None = None
) -> Asked:
    """Return the request in a JSON object; `tenant` belongs to the credential, and the object may only repeat it.

    `local` returns the path of a file that `files` names, or raises UsageError if it may not; None: none may be named.

    Raises:
        UsageError: a key is unknown, or its value is not one that it takes.
        Forbidden: it names another tenant.
    """
    return _read(SEARCH.spelt(item, where), where, tenant=tenant, local=local)


def read_line(item: Mapping[str, Json], *, where: str, id_: str, folder: Path = Path()) -> Asked:
    """Return the request that a line of a file or of standard input is.

    Unlike `read_asked`: a key that is not nearly a known one is ignored, an id is any value, by default `id_`, and
    `files` may have paths, relative to `folder`.

    Raises:
        UsageError: a key is nearly one of a request, or its value is not one that it takes.
    """
    known = SEARCH.of_json
    for key in item:
        near = nearest(key.casefold(), [name for name in known if len(name) >= _SHORTEST], cutoff=_ALIKE)
        if near and SEARCH.aliases.get(key, key) not in known:
            raise UsageError(f"{where} has an unknown key {quoted(key)}", hint=f"did you mean `{near}`?")
    given = SEARCH.spelt(item, where, preferred=_PREFERRED, what="")
    named = [(row, spelling, str(value) or id_ if row.name == "id" else value) for row, spelling, value in given]
    return _read(named, where, id_=id_, local=lambda path: str(folder / path) if path else "")


def _read(
    given: Sequence[tuple[Choice, str, Json]],
    where: str,
    *,
    tenant: str | None = None,
    local: Local | None = None,
    id_: str = "1",
) -> Asked:
    values: dict[str, Json] = {}
    paths: tuple[str, ...] = ()
    for row, spelling, value in given:
        if row.name == "files" and local:
            if not isinstance(value, list):
                hint = 'for example: "files": ["scan.nii.gz"]'
                raise UsageError(f"`files` of {where} must be a list of paths", hint=hint)
            paths = tuple(local(path) for entry in value if (path := _path_of(entry)) is not None)
            values[row.name] = _heads([entry for entry in value if _path_of(entry) is None], where)
        elif row.name == "files":
            values[row.name] = _heads(value, where)
        else:
            values[row.name] = _checked(row, value, f"`{spelling}` of {where}")
    asked = _asked({"id": id_, **values}, where, tenant)
    _expect_different([*dict.fromkeys(paths), *(head.name for head in asked.request.heads)], where)
    return asked._replace(request=replace(asked.request, files=paths))


SWITCHES: Mapping[str, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
"""Words for true and false in a link."""


def of_text(row: Choice, key: str, text: str) -> Json:
    """Return the value that a text is in a link; of a list, one entry.

    Raises:
        UsageError: the value is not of its kind; names the parameter.
    """
    kind = "string" if row.several else kinds_of(row.schema)[0]
    try:
        if kind == "boolean":
            return SWITCHES[text.casefold()]
        return {"integer": int, "number": float}.get(kind, str)(text)
    except (KeyError, ValueError):
        if "string" in kinds_of(row.schema):  # a share is one: 60%
            return text
        raise UsageError(f"the parameter {quoted(key)} is not a {kind}: {quoted(text)}", hint=row.about) from None


def _checked(row: Choice, value: Json, place: str) -> Json:
    example = _EXAMPLES.get(row.name, '["…"]')
    hint = f'for example: "{row.name}": {example}' if row.schema.get("type") == "array" else row.description
    return checked(value, _schema_of(row, value), place, hint=hint)


def _schema_of(row: Choice, value: Json) -> Schema:
    """The schema of a key; if it lists retrievers and another one is named, with the retrievers of plug-ins."""
    schema = row.schema
    if row.name not in ("mode", "retrievers"):
        return schema
    known = schema["items"]["enum"] if row.several else schema["enum"]
    if all(each in known for each in (value if isinstance(value, list) else [value])):
        return schema
    from retrieve_cli.config.plugins import installed

    names = [*known, *installed()]
    return {**schema, "items": {**schema["items"], "enum": names}} if row.several else {**schema, "enum": names}


def _asked(values: Mapping[str, Json], where: str, tenant: str | None) -> Asked:
    if not any(values.get(name) for name in ALONE) and "query" not in values:
        raise UsageError(f"{where} has no query", hint=_EXAMPLE)
    if tenant is not None and values.get("tenant", tenant) != tenant:
        message = f"{where} asks for the tenant {quoted(values['tenant'])}, and its credential is for {quoted(tenant)}"
        raise Forbidden(message, hint="remove `tenant`")
    named = {name: value for name, value in values.items() if name in IN_REQUEST and name not in _OWN_KEYS}
    request = request_of(
        values.get("query", ""),
        {**named, "tenant": values.get("tenant", tenant)},
        id_=str(values["id"]),
        heads=values.get("files", ()),
        named=lambda row: f"`{row.name}` of {where}",
    )
    request = request if tenant is None else replace(request, confined=True)
    choices = {SEARCH.rows[name].chosen: value for name, value in values.items() if name not in IN_REQUEST}
    return Asked(request, choices, values.get("generation"), values.get("at_least"))


def _heads(value: Json, where: str) -> tuple[FileHead, ...]:
    """The beginnings of files that a request brings along. Raises: UsageError: it names a file instead, or two have the
    same name."""
    if isinstance(value, list) and any(_path_of(entry) is not None for entry in value):
        hint = 'its first bytes: "files": [{"name": "scan.nii.gz", "head_base64": "…"}]; local MCP takes paths'
        raise UsageError(f"`files` of {where} names a file, and no file of this machine is opened", hint=hint)
    entries = _checked(SEARCH.rows["files"], value, f"`files` of {where}")
    heads = tuple(FileHead(sound(entry["name"]), _decoded(entry, where)) for entry in entries)
    _expect_different([head.name for head in heads], where)
    return heads


def _decoded(entry: Mapping[str, Json], where: str) -> bytes:
    place = f"`head_base64` of {quoted(entry['name'])} in {where}"
    try:
        data = binascii.a2b_base64(entry["head_base64"].encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise UsageError(f"{place} is not Base64", hint="base64 of the first bytes of the file") from error
    if len(data) > HEAD_BYTES:
        raise UsageError(f"{place} has more than {HEAD_BYTES:,} bytes", hint=f"send the first {HEAD_BYTES:,}")
    return data


def _path_of(entry: Json) -> str | None:
    """The path of an entry of `files` that has one: `"scan.dcm"` or `{"path": "scan.dcm"}`."""
    path = entry["path"] if isinstance(entry, dict) and list(entry) == ["path"] else entry
    return path if isinstance(path, str) else None


def _expect_different(names: list[str], where: str) -> None:
    if len(set(names)) < len(names):
        raise UsageError(f"`files` of {where} has two files of one name", hint="rename one of them")


Outcome = Answer | RetrieveError
_SOME_TEXT = "text"
Answering = Callable[[Sequence[Request]], list[Answer]]


def answer_groups(asked: Sequence[Asked], answer: Callable[[Sequence[Asked]], Sequence[Outcome]]) -> list[Outcome]:
    """Return the answer to each request or its error, in order. `answer` answers as one batch those that are answered
    alike, so that none depends on the others: of equal choices, generation and tenant.
    """
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(asked):
        alike = (one.generation, one.request.tenant, sorted(one.choices.items()))
        groups.setdefault(repr(alike), []).append(place)
    outcomes: dict[int, Outcome] = {}
    for places in groups.values():
        outcomes.update(zip(places, answer([asked[place] for place in places]), strict=True))
    return [outcomes[place] for place in range(len(asked))]


def answer_each(
    searcher: Searcher, requests: Sequence[Request], *, common: Request, answer: Answering
) -> list[Outcome]:
    """Return the answer to each request, or the error of the request itself, in order.

    `common` is what all requests have in common: an error of that is the caller's and is raised. `answer` answers
    several requests as one batch, as `searcher` does.

    Raises:
        RetrieveError: no request at all can be answered: the index is damaged or stale, or a model is missing.
    """
    if not requests:
        return []
    try:
        return list(answer(requests))
    except (UsageError, *STEP_FAILURES):
        outcomes = {place: error for place, request in enumerate(requests) if (error := _fault(searcher, request))}
    if outcomes:
        expect_sound(searcher, common)
    for retrievers in dict.fromkeys(request.retrievers for request in requests):
        alike = [place for place, request in enumerate(requests) if request.retrievers == retrievers]
        places = [place for place in alike if place not in outcomes]
        try:
            answers = answer([requests[place] for place in places]) if places else []
            outcomes.update(zip(places, answers, strict=True))
        except STEP_FAILURES as error:
            if retrievers == common.retrievers:
                raise
            outcomes.update(dict.fromkeys(places, error))
    return [outcomes[place] for place in range(len(requests))]


def expect_sound(searcher: Searcher, common: Request, *, facets: Sequence[str] = ()) -> None:
    """Hold what all requests have in common to the index.

    Raises:
        UsageError: its filters, records, tenant or facets cannot be read, or the index does not have them.
    """
    _expect_facets(searcher, searcher.read([replace(common, text=_SOME_TEXT)]), facets)


def _fault(searcher: Searcher, request: Request) -> Outcome | None:
    try:
        searcher.check([request])
        questions = searcher.read([request])
        check([question.query for question in questions], replace(searcher.options, k=1))
        _expect_facets(searcher, questions, searcher.options.facets)
    except UsageError as error:
        return error
    return None


def _expect_facets(searcher: Searcher, questions: Sequence[Question], facets: Sequence[str]) -> None:
    """Raises: UsageError: no record that a question may find has one of the fields."""
    if facets:
        from retrieve_cli.search.facets import expect_fields

        expect_fields(searcher.opened.generation, [question.query for question in questions], facets)
