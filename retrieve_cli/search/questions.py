"""Requests to questions: control tags, files and filters read, names looked up, the records that may be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Query, Question, Request
from retrieve_cli.errors import UsageError
from retrieve_cli.queries.tags import Tagged, read_tags
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.queries.filters import Condition
    from retrieve_cli.records.columns import Columns

    Conditions = Sequence[tuple[str, str, Mask]]
    """Of each: its field, the whole as the filter language writes it, and (records,) bool which records satisfy it."""

TENANT = "tenant"
"""The field that says whose a record is."""
_NAMED = 3
"""How many unknown names a notice lists."""


class RequestReader:
    """Understands requests to one generation."""

    def __init__(self, generation: Generation, *, file_tokens: bool = True) -> None:
        """`file_tokens` says whether what files say of themselves counts."""
        self._generation = generation
        self._file_tokens = file_tokens

    def read(self, request: Request) -> Question:
        """The question that a request is.

        Raises:
            UsageError: it says nothing but tags; a filter is none, or names a field that no record has; an id is no
                record's that its tenant has.
        """
        texts = [read_tags(text) for text in (request.text, *request.also)]
        tagged = _together(texts)
        formats, notices = self._formats(request, tagged)
        asked = _asked(request, [each.text for each in texts], formats)
        conditions = self._conditions(request, tagged)
        excluded, unknown = self._named(request, tagged.excluded, "EXCLUDE")
        included, unknown_too = self._named(request, tagged.included, "INCLUDE")
        return Question(
            request=request,
            query=replace(
                asked[0],
                also=tuple(asked[1:]),
                records=self._records(conditions, excluded, included if tagged.included else None),
            ),
            clean=tagged.text,
            formats=formats,
            excluded=tuple(self._generation.record_id(row) for row in excluded),
            filters=tuple((field, written) for field, written, _ in conditions),
            notices=(*tagged.problems, *notices, *unknown, *unknown_too),
        )

    def conditions(self, request: Request) -> Conditions:
        """All that a record must be like: the filters of flags and tags, the tenant, the ids.

        Raises:
            UsageError: as `read` does.
        """
        return self._conditions(request, _together([read_tags(text) for text in (request.text, *request.also)]))

    def _formats(self, request: Request, tagged: Tagged) -> tuple[tuple[str, ...], list[str]]:
        """The tokens of files and tags, each once, and what is wrong with the files."""
        tokens = [f"format:{name}" for name in tagged.formats]
        notices: list[str] = []
        for name in request.files if self._file_tokens else ():
            if not name:
                notices.append("a file without a name is no file")
                continue
            from retrieve_cli.queries.formats.read import read_file

            found = read_file(Path(name))
            tokens += found.tokens
            notices += found.warnings
        return tuple(dict.fromkeys(tokens)), notices

    def _named(self, request: Request, names: Sequence[str], tag: str) -> tuple[list[int], list[str]]:
        """The rows of the records that a tag names by id or name, and a word on names that nobody has.

        Where a tenant asks, the records of others are nobody's: not even their ids are told.
        """
        rows: dict[int, None] = {}
        unknown = []
        own = None if request.tenant is None else self._columns.having(TENANT, request.tenant)
        for name in dict.fromkeys(names):
            found = self._columns.select("id", "=", [name]) | self._columns.select("name", "=", [name])
            if own is not None:
                found &= own
            if not found.any():
                unknown.append(name)
            rows |= dict.fromkeys(found.nonzero()[0].tolist())
        return list(rows), [f"no record has the id or name {_listed(unknown)} of [{tag}:…]"] if unknown else []

    def _records(self, conditions: Conditions, excluded: Sequence[int], included: Sequence[int] | None) -> Mask | None:
        """(records,) bool: which records may be found; None for all."""
        if not conditions and not excluded and included is None:
            return None
        import numpy as np

        allowed = np.ones(len(self._generation.records), np.bool_)
        for _, _, passes in conditions:
            allowed &= passes
        if included is not None:
            allowed &= _only(included, len(allowed))
        allowed[list(excluded)] = False
        return allowed

    def _conditions(self, request: Request, tagged: Tagged) -> Conditions:
        filters = (*request.filters, *tagged.filters)
        if not filters and request.tenant is None and not request.doc_ids:
            return []
        from retrieve_cli.queries.filters import Condition, parse

        parsed = list(map(parse, filters))
        found = [(each.field, str(each), _satisfying(self._generation, each)) for each in parsed]
        own = None
        if request.tenant is not None:
            if not request.tenant.strip():
                raise UsageError("the tenant is empty", hint="name it: --tenant X")
            own = self._columns.having(TENANT, request.tenant)
            found.append((TENANT, str(Condition(TENANT, "=", (request.tenant,))), own))
        if request.doc_ids:
            names = tuple(dict.fromkeys(request.doc_ids))
            rows = [self._row(name, request.tenant, own) for name in names]
            found.append(("id", str(Condition("id", "=", names)), _only(rows, len(self._generation.records))))
        return found

    def _row(self, name: str, tenant: str | None, own: Mask | None) -> int:
        """The row of a record by its id; that of another tenant is none, and no like one is suggested."""
        if own is None:
            return self._generation.find_record(name)
        try:
            row = self._generation.find_record(name)
        except UsageError:
            row = None
        if row is None or not own[row]:
            raise UsageError(f"the tenant {tenant!r} has no record {name!r}", hint="leave it out of --doc-id")
        return row

    @property
    def _columns(self) -> Columns:
        from retrieve_cli.records.columns import columns_of  # a query without conditions does without it

        return columns_of(self._generation)


def _together(texts: Sequence[Tagged]) -> Tagged:
    """The first text, with the tags of all of them: a tag holds for the question, whichever text has it."""
    own, *others = texts
    if not others:
        return own
    said = {
        field.name: tuple(dict.fromkeys(value for each in texts for value in getattr(each, field.name)))
        for field in fields(Tagged)
        if field.name != "text"
    }
    return Tagged(own.text, **said)


def _asked(request: Request, texts: Sequence[str], formats: Sequence[str]) -> list[Query]:
    """What the legs are asked: each text once, for legs of words with the tokens behind it.

    Raises:
        UsageError: one of the texts has no words.
    """
    if any(not text.strip() for text in texts[1:]):
        raise UsageError(f"query {request.id!r} has another text that is empty", hint="leave it out: --also TEXT")
    if request.text.strip() and not texts[0].strip() and not formats:
        hint = 'for example: retrieve query "segment lungs in CT [EXCLUDE:name]"'
        raise UsageError(f"query {request.id!r} is empty besides its tags", hint=hint)
    different = dict.fromkeys(text.strip() for text in texts)
    return [Query(" ".join([text, *formats]).strip(), request.id) for text in different]


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them, the first few of many."""
    shown = [repr(name) for name in names[:_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" (or any of {more} more)" if more else "")


def _only(rows: Sequence[int], length: int) -> Mask:
    """(length,) bool: true for these rows."""
    import numpy as np

    mask = np.zeros(length, np.bool_)
    mask[list(rows)] = True
    return mask


def _satisfying(generation: Generation, condition: Condition) -> Mask:
    from retrieve_cli.records.columns import columns_of

    found = columns_of(generation).select(condition.field, condition.operator, condition.values, globs=condition.globs)
    return ~found if condition.negated else found


def allowed_by(generation: Generation, filters: Sequence[str]) -> Mask | None:
    """(records,) bool: the records that satisfy every condition; None where there is none.

    Raises:
        UsageError: a filter is none, or names a field that no record has.
    """
    if not filters:
        return None
    import numpy as np

    from retrieve_cli.queries.filters import parse

    allowed = np.ones(len(generation.records), np.bool_)
    for condition in map(parse, filters):
        allowed &= _satisfying(generation, condition)
    return allowed
