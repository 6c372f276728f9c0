"""Engines whose server answers nonsense: each request ends in an answer or in an error that names the server."""

from collections.abc import Callable
from contextlib import suppress
from itertools import cycle

import pytest
from web.servers import serving

from retrieve_cli.config.engine_settings import OpensearchSettings
from retrieve_cli.engines.opensearch.server import Server as Opensearch
from retrieve_cli.engines.qdrant.server import Server as Qdrant
from retrieve_cli.errors import RetrieveError

BODIES = (b"", b"[" * 100_000, b"null", b"[]", b"1e400", b'"\xff"', b'{"error": 1}', b"\x1b[2J", b"{}", b"NaN")
BODIES += (b'{"status": []}', b'{"status": {"error": {}}}', b'{"error": {"root_cause": 3, "caused_by": [1]}}')
STATUSES = (200, 400, 404, 429, 500)
WAITS = ("-1e400", "nonsense", "9" * 400)


def qdrant(url: str) -> object:
    return Qdrant(url, api_key=None, timeout_s=5).call("GET", "/collections")


def opensearch(url: str) -> object:
    return Opensearch(OpensearchSettings(url=url, timeout_s=5), user=None, password=None).ask("GET", "/index")


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("ask", [qdrant, opensearch])
def test_nonsense_of_an_engine_is_an_answer_or_an_error(ask: Callable[[str], object], status: int) -> None:
    pairs = [(body, f"Retry-After: {wait}") for body in BODIES for wait in WAITS]
    waiting = cycle(pairs)
    kind = "Content-Type: application/json"
    with serving(lambda talk: talk.answer((said := next(waiting))[0], kind, said[1], status=status)) as server:
        for _ in pairs:
            with suppress(RetrieveError):
                ask(server.url)
