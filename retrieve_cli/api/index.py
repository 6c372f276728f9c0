"""An open index: what the command line, servers and programs search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.requests import Choices, Filters, conditions, ids, options_of, request_of, under_choices
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json, Request
from retrieve_cli.errors import UsageError
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation


class Index:
    """An index that is open for searching. Threads may share one; models load at the first search that needs them.

    `with retrieve_cli.open("artifacts") as index:` closes it at the end; it also closes when it is forgotten.
    """

    def __init__(
        self, store: Store, settings: Settings, generation: str | None = None, *, before: Index | None = None
    ) -> None:
        """Open the current generation of a store, or the one named; the models of `before` serve again if they are its
        own.

        Raises:
            IndexMissing: nothing was built there yet.
            IndexCorrupt: the index is damaged.
            UsageError: there is no generation of that name.
        """
        self._store = store
        self._pinned = generation
        self._settings = settings
        self._opening = Lock()
        models = None if before is None else before.opened
        self._open: Opened | None = Opened.of(store, settings, generation, before=models)

    # ------------------------------------------------------------------------------------------ searching

    def search(self, text: str, **choices: Unpack[Choices]) -> IndexAnswer:
        """Return the answer to a query; see `Choices` for what one may choose.

        Raises:
            UsageError: the query is empty, or a choice is unknown or takes another value.
            Unavailable: a model or package that the search needs is missing.
            Stale: the sources have changed and `freshness.policy` is `fail`.
        """
        return self.search_many([text], **choices)[0]

    def search_many(self, queries: Iterable[str | Request], **choices: Unpack[Choices]) -> list[IndexAnswer]:
        """Return an answer to each query, in order, as one batch. Texts get the ids 1, 2, …; a
        `retrieve_cli.contracts.Request` has its own id, filters and tenant, and the choices do not narrow it.

        Raises:
            UsageError: as `search` does, for any of them.
        """
        requests = [
            query if isinstance(query, Request) else request_of(query, choices, id_=str(number))
            for number, query in enumerate(queries, 1)
        ]
        options = self.options(**choices)
        return [IndexAnswer.of(answer) for answer in self.answer(requests, options)] if requests else []

    def answer(self, requests: Sequence[Request], options: SearchOptions) -> list[Answer]:
        """Return the answers to requests under options that `options()` made."""
        return Searcher(self.opened, options).answer(requests)

    def options(self, **choices: Unpack[Choices]) -> SearchOptions:
        """Return the options of a search: the configuration's, with the choices in their place.

        Raises:
            UsageError: a choice is unknown or takes another value.
        """
        return SearchOptions.of(under_choices(self._settings, choices), **options_of(choices))

    def at(self, generation: str | None) -> Index:
        """Return the index of a generation, by its id or the start of it; None: this one.

        Raises:
            UsageError: there is no generation of that name.
            IndexCorrupt: it is damaged.
        """
        return self if generation is None else Index(self._store, self._settings, generation)

    @property
    def opened(self) -> Opened:
        """The open generation. Raises: UsageError if the index is closed."""
        if (opened := self._open) is None:
            raise UsageError("the index is closed", hint='open it again: retrieve_cli.open("artifacts")')
        return opened

    # ------------------------------------------------------------------------------------------- contents

    @property
    def generation(self) -> str:
        """The id of the generation that answers: an immutable version of the index."""
        return self.opened.generation.id

    @property
    def status(self) -> dict[str, Json]:
        """The contents of the index, as `retrieve inspect status --json` prints them."""
        from retrieve_cli.operations.status import status

        with self.reading() as generation:
            return status(generation, self._store.path, self._settings)

    def records(self, *, filters: Filters = (), limit: int | None = None) -> list[dict[str, Json]]:
        """Return the records of all tenants that pass every filter, at most `limit`.

        Raises:
            UsageError: a filter cannot be read, or names a field that no record has.
        """
        from retrieve_cli.operations import views

        if limit is not None and limit < 1:
            return []
        with self.reading() as generation:
            found = views.records(generation, filters=conditions(filters, "filters"), limit=limit or 0)
            return list(found["records"])

    def record(self, record_id: str | int) -> dict[str, Json]:
        """Return a record with its text and chunks, as `retrieve inspect record ID --json` prints it.

        Raises:
            UsageError: there is no record of that id; the hint names the nearest.
        """
        from retrieve_cli.operations import views

        with self.reading() as generation:
            return views.record(generation, *ids(record_id, "record_id"))

    def __len__(self) -> int:
        """Number of records."""
        return self.opened.generation.size

    # ------------------------------------------------------------------------------------------- lifetime

    def refresh(self) -> bool:
        """Open the generation that is current now, if a build or sync has published another one. Return True if so.

        Searches under way in other threads end on the generation that they began with. An index that was opened at a
        given generation stays there.

        Raises:
            IndexCorrupt: the current generation is damaged; the one before stays open.
        """
        with self._opening:
            before = self.opened
            if self._pinned is not None or self._store.live() in (None, before.generation.id):
                return False
            self._open = Opened.of(self._store, self._settings, before=before)
            return True

    def close(self) -> None:
        """Let go of the index; a search afterwards is a UsageError."""
        self._open = None

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Generation]:
        """Yield the open generation; an error while it is read is the index's fault if one of its files is damaged."""
        generation = self.opened.generation
        with self._store.reading(generation.id):
            yield generation
