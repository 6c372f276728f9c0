"""Requests to questions: control tags, files and filters read, names looked up, the records that may be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble.registry import loadable
from retrieve_cli.config.bounds import LONGEST_TEXT
from retrieve_cli.contracts import Examples, KnownFile, Query, Question, Request
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.contracts.terms.words import has_words
from retrieve_cli.errors import STEP_FAILURES, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.queries.tags import Tagged, has_operator, read_tags
from retrieve_cli.search.access import Access, of_tenant, of_tenant_or_none, only
from retrieve_cli.search.conditions import Passing, satisfying, together
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.config.settings import SearchSettings, Settings
    from retrieve_cli.contracts import Mask
    from retrieve_cli.contracts.engines import Filter
    from retrieve_cli.search.rewording import Rewording
    from retrieve_cli.search.word_search import WordSearch
    from retrieve_cli.storage.records.view import RecordView

_EXAMPLE = 1000
"""Characters of a record that words and rerankers compare others with; vectors compare all of it."""


def check_requests(requests: Sequence[Request], search: SearchSettings) -> None:
    """Hold requests to what the configuration demands of them.

    Raises:
        UsageError: a tenant is required and none is named, or a request is too long or has too many variants.
    """
    for request in requests:
        if search.require_tenant and request.tenant is None:
            message = "this index is searched for one tenant at a time (search.require_tenant)"
            raise UsageError(message, hint="name it: --tenant X")
        if max(map(len, (request.text, *request.also))) > LONGEST_TEXT:
            message = f"query {quoted(request.id)} has more than {LONGEST_TEXT:,} characters"
            raise UsageError(message, hint="ask with the part that matters: models read a few hundred words")
        if len(request.also) > search.max_also:
            message = f"query {quoted(request.id)} has {len(request.also)} variants, more than search.max_also"
            raise UsageError(message, hint=f"give at most {search.max_also}, or raise it")


class RequestReader:
    """Understands requests to one generation."""

    def __init__(
        self,
        generation: Generation,
        *,
        file_tokens: bool = True,
        settings: Settings | None = None,
        indexes: Indexes | None = None,
        rewording: Rewording | None = None,
        sorts: bool = False,
    ) -> None:
        """`file_tokens` is False if the headers of files are ignored; `settings` have the limits of documents; without
        `indexes`, quotation marks and dashes are text; without `rewording`, the words stay as typed. `sorts` is True if
        records are ordered by a field, which needs no words."""
        self._generation = generation
        self._settings = settings
        self._file_tokens = file_tokens
        self._indexes = indexes
        self._rewording = rewording
        self._sorts = sorts
        self._tenants: dict[str | None, RecordView] = {}
        """The records of each tenant: the requests of a batch share them."""

    def read(self, request: Request) -> Question:
        """Return the question of a request.

        Raises:
            UsageError: it consists of tags only; a file cannot be read; a filter is invalid, or names a field that no
                record has; an id that a person typed belongs to no record of the tenant.
        """
        texts = self._texts(request)
        tagged = _together(texts)
        access, unknown = self._access(request, tagged)
        access, like, not_like = self._examples(request, access)
        files = (*self._files(request), *map(self._example, like))
        formats = _formats(tagged, files)
        texts = texts if self._rewording is None else self._rewording.of(texts, access.visible)
        tagged = _together(texts)
        beside = [*(file.text for file in files if file.text), *formats]
        lists = not (like or beside or request.also or tagged.text.strip()) and self._lists(request, tagged)
        asked = _asked(request, texts, beside, lists=lists)
        conditions = self._conditions(request, tagged, access)
        included, unknown_too = self._named(access, tagged.included, "INCLUDE")
        wordless = not (lists or any(has_words(each.text) for each in asked))
        selected = [] if wordless else (included if tagged.included else None)
        records, chunks = self._allowed(conditions, access, selected)
        unselected = self._unselected(request, access)
        said = [*_reading_notices(tagged, files, wordless=wordless), *unknown, *unknown_too, *unselected]
        said += self._empty(request, conditions, access, None if unselected or wordless else records)
        return Question(
            request=request,
            query=replace(
                asked[0],
                also=tuple(asked[1:]),
                lists=lists,
                named=() if lists else self._names(request.text, tagged.text, access.visible, records),
                records=records,
                narrowed=access.visible.is_restricted or bool(conditions) or selected is not None,
                chunks=chunks,
                conditions=self._stated(request, tagged, access, selected),
                visible=access.visible.rows,
                own=access.own.rows,
                examples=Examples(tagged.text.strip(), like, not_like) if like or not_like else None,
            ),
            clean=tagged.text,
            formats=formats,
            excluded=tuple(self._generation.record_id(row) for row in access.excluded),
            filters=tuple((each.field, each.written) for each in conditions),
            without=tagged.without,
            corrections=tagged.corrections,
            synonyms=tuple(dict(tagged.synonyms)),
            notices=tuple(said),
            files=files,
        )

    def _names(self, typed: str, text: str, view: RecordView, records: Mask | None) -> tuple[int, ...]:
        """Return the rows of the tools that a text names as `typed`, or else of the records that it lists by their
        names, if they may be found."""
        from retrieve_cli.search.named import named_records, named_tools

        def lexical() -> Any:
            indexes: Mapping[str, Any] = self._indexes or {}
            with suppress(*STEP_FAILURES):  # which the retriever reports
                return next((indexes[one.name] for one in loadable(indexes) if one.role == "lexical"), None)
            return None

        rows = named_tools(view, read_tags(typed).text) or named_records(view, text, lexical)
        return rows if records is None else tuple(row for row in rows if records[row])

    def _examples(self, request: Request, access: Access) -> tuple[Access, tuple[int, ...], tuple[int, ...]]:
        """Return the rows of the examples of a request, and the records that exist for it without them."""
        typed = replace(request, typed_ids=True)
        like, not_like = (self._rows(names, typed, access) for names in (request.like, request.not_like))
        return access.excluding([*like, *not_like]), like, not_like

    def _lists(self, request: Request, tagged: Tagged) -> bool:
        """Return True if a request without words names the records that it is about."""
        return bool(self._sorts or request.filters or request.doc_ids or tagged.filters or tagged.included)

    def conditions(self, request: Request) -> Sequence[Passing]:
        """Conditions that a record must satisfy: the filters of flags and tags, the tenant, the ids. Raises as
        `read` does."""
        tagged = _together(self._texts(request))
        access, _ = self._access(request, tagged)
        return self._conditions(request, tagged, access)

    def beside(self, request: Request, field: str) -> tuple[Mask | None, ...] | None:
        """Return the records and the chunks that match without the filters on a field: the tenant, exclusions, ids and
        other filters apply. None if no filter concerns the field. Raises as `read` does."""
        from retrieve_cli.retrieval.queries.filters import parse

        tagged = _together(self._texts(request))
        access, _ = self._access(request, tagged)
        filters, columns = (*request.filters, *tagged.filters), access.visible.columns
        column = columns.column(field)
        kept = tuple(each for each in filters if column is None or columns.column(parse(each).field) is not column)
        if kept == filters:
            return None
        conditions = self._conditions(replace(request, filters=kept), replace(tagged, filters=()), access)
        included, _ = self._named(access, tagged.included, "INCLUDE")
        return self._allowed(conditions, access, included if tagged.included else None)

    def own(self, request: Request) -> RecordView:
        """Return the records of the request's tenant; all, if it has none. Raises as `read` does."""
        if request.tenant not in self._tenants:
            of = of_tenant_or_none if request.confined else of_tenant
            self._tenants[request.tenant] = of(self._generation, request.tenant)
        return self._tenants[request.tenant]

    def _access(self, request: Request, tagged: Tagged) -> tuple[Access, list[str]]:
        """Return the records that exist for a request, and notices on excluded names that no record has."""
        own = self.own(request)
        access = Access(own, own)
        excluded, unknown = self._named(access, tagged.excluded, "EXCLUDE")
        hidden = None
        for words in tagged.without:
            found = self._wording.having(words, own)
            hidden = found.records if hidden is None else hidden | found.records
            unknown += [found.notice] if found.notice else []
        return access.excluding(excluded, hidden), unknown

    def _texts(self, request: Request) -> list[Tagged]:
        """Return the texts of a request, their tags and operators read."""
        texts = [read_tags(text) for text in (request.text, *request.also)]
        if self._indexes is None or not any(has_operator(text.text) for text in texts):
            return texts
        return [self._wording.read(text, self.own(request)) for text in texts]

    @cached_property
    def _wording(self) -> WordSearch:
        from retrieve_cli.search.word_search import WordSearch

        return WordSearch(self._generation, self._indexes or {})

    def _files(self, request: Request) -> Iterator[KnownFile]:
        for name in request.files if self._file_tokens else ():
            from retrieve_cli.search.attachments import known_file

            if not name:
                message = f"query {quoted(request.id)} names a file without a name"
                raise UsageError(message, hint="remove it")
            yield known_file(name, self._settings)
        for head in request.heads if self._file_tokens else ():
            from retrieve_cli.search.attachments import known_head

            yield known_head(head, self._settings)

    def _rows(self, names: Sequence[str], request: Request, access: Access) -> tuple[int, ...]:
        """Return the rows of records by their ids. Raises as `_row` does."""
        return tuple(row for name in dict.fromkeys(names) if (row := self._row(name, request, access)) is not None)

    def _example(self, row: int) -> KnownFile:
        """Return the beginning of a record's text as a file of the query."""
        record, first = self._generation.records[row], int(self._generation.starts[row])
        text = " ".join(f"{record['name']} {self._generation.chunks[first]['text']}"[:_EXAMPLE].split())
        return KnownFile(f"record {record['id']}", text=text)

    def _named(self, access: Access, names: Sequence[str], tag: str) -> tuple[list[int], list[str]]:
        """Return the rows of the records that a tag names by id or name, and notices on names that no record has.

        For a tenant the records of others do not exist: not even their ids are printed.
        """
        rows: dict[int, None] = {}
        unknown = []
        for name in dict.fromkeys(names):
            columns = access.own.columns
            found = columns.select("id", "=", [name]) | columns.select("name", "=", [name])
            if not found.any():
                unknown.append(name)
            rows |= dict.fromkeys(found.nonzero()[0].tolist())
        return list(rows), self._unknown(unknown, "id or name {} of [" + tag + ":…]", access)

    def _unknown(self, names: Sequence[str], what: str, access: Access) -> list[str]:
        """Return a notice on names that no record has; an empty list without names."""
        return [access.visible.unknown_names(names, what)] if names else []

    def _allowed(
        self, conditions: Sequence[Passing], access: Access, included: Sequence[int] | None
    ) -> tuple[Mask | None, ...]:
        """The records that may be found, and the chunks by which they may be; None for all."""
        masks = [] if access.visible.rows is None else [access.visible.rows]
        masks += [] if included is None else [only(self._generation, included)]
        others = [each for each in conditions if each.records is not access.own.rows]
        return together(access.visible, masks, others)

    def _empty(
        self, request: Request, conditions: Sequence[Passing], access: Access, records: Mask | None
    ) -> Iterable[str]:
        """Return notices on the conditions, or reasons why none of the `records` passes them, if none does."""
        notices = [each.notice for each in conditions if each.notice]
        if not conditions or records is None or records.any() or notices:
            return notices
        from retrieve_cli.search.empty_filters import explain

        return explain(access.visible, request, conditions)

    def _stated(
        self, request: Request, tagged: Tagged, access: Access, selected: Sequence[int] | None
    ) -> Callable[[], Filter | None] | None:
        """Return a function that expresses the records that pass all filters and are selected as a filter of engines;
        None without engines, or if words decide."""
        if tagged.phrases or tagged.without or self._settings is None or not self._settings.engines.in_use:
            return None
        from retrieve_cli.retrieval.queries.filters import parse
        from retrieve_cli.search.engine_filters import filter_on

        named = None if request.doc_ids is None else self._rows(request.doc_ids, request, access)
        ids = [None if rows is None else self._ids(rows) for rows in (named, selected)]
        filters = (*request.filters, *tagged.filters)
        stated = partial(
            filter_on,
            access.visible,
            [parse(text) for text in filters],
            tenant=request.tenant,
            ids=[each for each in ids if each is not None],
            excluded=self._ids(access.excluded),
        )
        return cache(stated)  # each retriever asks

    def _ids(self, rows: Sequence[int]) -> list[str]:
        return [self._generation.record_id(row) for row in rows]

    def _conditions(self, request: Request, tagged: Tagged, access: Access) -> Sequence[Passing]:
        filters = (*request.filters, *tagged.filters)
        if not filters and access.own.rows is None and request.doc_ids is None and not tagged.phrases:
            return []
        from retrieve_cli.retrieval.queries.filters import Condition, parse

        found = [satisfying(access.visible, each) for each in map(parse, filters)]
        if request.tenant is not None and access.own.rows is not None:
            found.append(Passing(TENANT, str(Condition(TENANT, "=", (request.tenant,))), access.own.rows))
        if request.doc_ids is not None:
            selected = only(self._generation, self._rows(request.doc_ids, request, access))
            found.append(Passing("id", str(Condition("id", "=", request.doc_ids or ("",))), selected))
        among = together(access.own, [], found)[0]
        for phrase in (f'"{phrase}"' for phrase in tagged.phrases):
            held = self._wording.having(phrase, access.own)
            held = self._wording.having(phrase, access.own, among) if held.notice else held
            found.append(Passing("phrase", phrase, held.records, held.chunks, held.notice))
        return found

    def _row(self, name: str, request: Request, access: Access) -> int | None:
        """Return the row of a record by its id, even if it is excluded; None if the tenant does not have the id.
        Raises: UsageError: the id is unknown, and a person typed it; a tenant gets no suggestion."""
        row = access.own.row_of(name)
        if row is not None or not request.typed_ids:
            return row
        if request.tenant is not None:
            message = f"the tenant {quoted(request.tenant)} has no record {quoted(name)}"
            raise UsageError(message, hint="remove this id")
        return access.visible.find_record(name)

    def _unselected(self, request: Request, access: Access) -> list[str]:
        """Return notices on selected ids that no record has, or on an empty selection."""
        if request.doc_ids is None:
            return []
        if not request.doc_ids:
            return ["the request selects no record: its list of ids is empty"]
        unknown = [name for name in dict.fromkeys(request.doc_ids) if self._row(name, request, access) is None]
        return self._unknown(unknown, "id {}, which the request selects", access)


WORDLESS = "the query has no words, so that nothing matches: describe what you look for in words"
"""Notice of an answer to a text of punctuation alone: by its vector, every record would be a match."""


def _reading_notices(tagged: Tagged, files: Sequence[KnownFile], *, wordless: bool) -> Iterator[str]:
    if wordless:
        yield WORDLESS
    yield from tagged.problems
    yield from (f"records with {words} are excluded" for words in tagged.without)
    yield from tagged.reworded
    yield from (said for file in files for said in file.warnings)


def _formats(tagged: Tagged, files: Sequence[KnownFile]) -> tuple[str, ...]:
    """Return the format tokens of tags and files."""
    tokens = (token for file in files for token in file.tokens)
    return tuple(dict.fromkeys([*(f"format:{name}" for name in tagged.formats), *tokens]))


def _together(texts: Sequence[Tagged]) -> Tagged:
    """Return the first text with the tags of all texts: a tag applies to the whole question."""
    if len(texts) == 1:
        return texts[0]
    fields = (field for field in Tagged.__struct_fields__ if field != "text")
    said = {field: tuple(dict.fromkeys(value for each in texts for value in getattr(each, field))) for field in fields}
    return Tagged(texts[0].text, **said)


def _asked(request: Request, texts: Sequence[Tagged], formats: Sequence[str], *, lists: bool) -> list[Query]:
    """Texts for the retrievers: each once, for retrievers of words with the tokens behind it. Raises: UsageError: one
    of the texts has no words."""
    if any(not each.text.strip() for each in texts[1:]):
        raise UsageError(f"query {quoted(request.id)} has a variant that is empty", hint="remove it: --also TEXT")
    if request.text.strip() and not (lists or formats or texts[0].text.strip()):
        hint = "for example: segment lungs in CT [EXCLUDE:name]"
        raise UsageError(f"query {quoted(request.id)} has only tags and no text", hint=hint)
    beside: dict[str, tuple[tuple[str, float], ...]] = {}
    for each in texts:
        text = each.text.strip()
        beside[text] = beside.get(text, ()) + each.beside
    return [Query(" ".join([text, *formats]).strip(), request.id, beside=words) for text, words in beside.items()]
