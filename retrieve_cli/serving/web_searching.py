"""The web search of a server, in threads of its own: it waits for others, and local searches must not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from retrieve_cli.errors import NotConfigured
from retrieve_cli.serving.pool import Pool

if TYPE_CHECKING:
    from starlette.requests import Request

    from retrieve_cli.api.web import AnswersWeb
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.search.web_answer import WebAnswer, WebOptions
    from retrieve_cli.serving.credentials.scopes import Caller

T = TypeVar("T")

_AT_ONCE, _WAITING = 8, 32
"""Searches at once in one process, and those that may wait for their turn."""


class WebSearching(Pool):
    """A web search behind a queue; none if the configuration does not enable it."""

    def __init__(self, search: AnswersWeb | None, *, deadline_ms: float) -> None:
        """`deadline_ms` is that of a search that names none."""
        super().__init__(_AT_ONCE, _WAITING)
        self._search = search
        self._deadline_ms = deadline_ms

    @property
    def enabled(self) -> bool:
        """True if searches are answered."""
        return self._search is not None

    @property
    def search(self) -> AnswersWeb:
        """The search.

        Raises:
            NotConfigured: it is not enabled.
        """
        if self._search is None:
            hint = "enable it: retrieve config set web.enabled true"
            raise NotConfigured("web search is not enabled on this server", hint=hint)
        return self._search

    def expect_enabled(self) -> None:
        """Raises: NotConfigured: no searches are answered."""
        _ = self.search

    async def answer(self, request: Request, options: WebOptions, caller: Caller) -> WebAnswer:
        """Return the answer to a search of a caller.

        Raises:
            RetrieveError: it is not enabled, or the options do not fit the configuration.
            Rejected: too many searches wait already, or the deadline would pass while it waits.
        """
        answer = partial(self.search.answer, options, owner=caller.owner)
        return await self.run(request, answer, deadline_ms=options.deadline_ms)

    async def run(
        self, request: Request, function: Callable[..., T], *arguments: Any, deadline_ms: float | None = None
    ) -> T:
        """Return what a function that searches returns. Raises: Rejected: it would have to wait for too long."""
        return await super().run(request, function, *arguments, deadline_ms=deadline_ms or self._deadline_ms)


def web_search_of(settings: Settings, artifacts: Path) -> AnswersWeb | None:
    """Return the web search of a configuration; None if it does not enable one."""
    if not settings.web.enabled:
        return None
    from retrieve_cli.search.web import WebSearch

    search: AnswersWeb = WebSearch(settings, artifacts)
    return search
