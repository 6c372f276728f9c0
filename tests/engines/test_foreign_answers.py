"""Engines whose server answers nonsense: every call ends in an answer or in an error that names the server."""

from collections.abc import Callable, Iterator
from inspect import getmembers, isfunction, signature
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from raw_servers import serving
from told_servers import NONSENSE

from retrieve_cli.config.index_settings import OpensearchSettings, QdrantSettings
from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Collection, Engine, Part
from retrieve_cli.engines.opensearch.collections import IndexReader, OpensearchTerms, OpensearchVectors
from retrieve_cli.engines.opensearch.engine import OpensearchEngine
from retrieve_cli.engines.opensearch.server import OpensearchServer
from retrieve_cli.engines.qdrant.engine import QdrantEngine
from retrieve_cli.engines.qdrant.parts import TermPart, VectorPart
from retrieve_cli.engines.qdrant.server import QdrantServer
from retrieve_cli.errors import RetrieveError

STATUSES = (200, 400, 404, 429, 500)
WAITS = ("-1e400", "nonsense", "9" * 400)
GENERATION = "0123456789ab"
VECTORS, TERMS = Part("dense", "record", 3, 4), Part("bm25", "record", 3, None)
QUERY = np.ones(4, np.float32)
WEIGHTS = TermWeights(np.array([1, 2], np.int32), np.array([1.0, 0.5], np.float32))
ARGUMENTS: dict[str, Any] = {
    "parts": [VECTORS, TERMS], "generation": GENERATION, "query": QUERY, "limit": 3,
}  # fmt: skip


def calls(made: object, promise: type) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield every method of a promise, bound to its arguments."""
    for name, method in getmembers(promise, lambda each: isfunction(each) and not each.__name__.startswith("_")):
        needed = [each for each in signature(method).parameters.values() if each.name != "self"]
        given = [ARGUMENTS[each.name] for each in needed if each.default is each.empty]
        if isinstance(made, TermPart | OpensearchTerms) and name == "nearest":
            given[0] = WEIGHTS
        yield name, lambda name=name, given=given: getattr(made, name)(*given)  # type: ignore[misc]


def qdrant(url: str) -> Iterator[tuple[object, type]]:
    server = QdrantServer(url, api_key=None, timeout_s=5)
    yield QdrantEngine(QdrantSettings(url=url, timeout_s=5), api_key=None), Engine
    yield VectorPart(server, "c", ef=1), Collection
    yield TermPart(server, "c"), Collection


def opensearch(url: str) -> Iterator[tuple[object, type]]:
    settings = OpensearchSettings(url=url, timeout_s=5)
    reader = IndexReader(OpensearchServer(settings, user=None, password=None), "i")
    yield OpensearchEngine(settings, user=None, password=None), Engine
    yield OpensearchVectors(reader, ef_search=1), Collection
    yield OpensearchTerms(reader), Collection


def said_by(call: Callable[[], object]) -> str:
    """Return the message of the error of a call; empty if it gives an answer."""
    try:
        call()
    except RetrieveError as error:
        return error.message
    return ""


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("made", [qdrant, opensearch])
def test_nonsense_of_an_engine_is_an_answer_or_an_error_that_names_it(
    made: Callable[[str], Iterator[tuple[object, type]]], status: int
) -> None:
    said: list[bytes] = [b""]
    waits = cycle(WAITS)
    kind = "Content-Type: application/json"
    with serving(lambda talk: talk.answer(said[0], kind, f"Retry-After: {next(waits)}", status=status)) as server:
        asked = [one for thing, promise in made(server.url) for one in calls(thing, promise)]
        assert {"live", "generations", "open", "nearest", "stage"} <= {name for name, _ in asked}
        for body in NONSENSE:
            said[0] = body
            for _, call in asked:
                told = said_by(call)
                assert not told or made.__name__ in told.casefold() or server.url.rstrip("/") in told
