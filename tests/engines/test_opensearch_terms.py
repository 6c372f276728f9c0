"""Lists of term weights through OpenSearch: exact, though its rank features keep nine bits, and with one request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from engines.contents import TERMS
from engines.opensearch_server import osmem_process
from told_servers import Answer, Asked, serving

from retrieve_cli.config.index_settings import OpensearchSettings
from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Part
from retrieve_cli.engines.opensearch.collections import IndexReader, OpensearchTerms
from retrieve_cli.engines.opensearch.server import OpensearchServer

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Vectors

__all__ = ["osmem_process"]

PART = Part(TERMS, "chunk", 1)


def truncated(weights: Vectors) -> Vectors:
    """Return weights as Lucene keeps rank features."""
    return (weights.astype(np.float32).view(np.int32) & ~0x7FFF).view(np.float32)


@dataclass
class Lucene:
    """A server that lists rows of weights in the order of rank features, and the searches that it got."""

    weights: Vectors
    """(rows, terms) float32, above 0."""
    asked: list[Any]
    url: str = ""

    def answer(self, request: Asked) -> Answer:
        body = json.loads(request.body)
        self.asked.append(body)
        boosts = np.zeros(self.weights.shape[1])
        for clause in body["query"]["bool"]["should"]:
            boosts[int(clause["rank_feature"]["field"].rpartition(".t")[2])] = clause["rank_feature"]["boost"]
        scores = truncated(self.weights) @ boosts
        fields = {int(name.removeprefix("weights.t")) for name in body["_source"] if name != "exact"}
        hits = [
            {"_id": str(row), "_source": {"weights": {f"t{term}": self.weights[row, term] for term in fields}}}
            for row in np.lexsort((np.arange(len(scores)), -scores))[: body["size"]].tolist()
        ]
        said = {"hits": {"hits": hits}, "timed_out": False}
        return Answer(orjson.dumps(said, option=orjson.OPT_SERIALIZE_NUMPY), 200, {"content-type": "application/json"})


@pytest.fixture
def lucene() -> Iterator[Callable[[Vectors], tuple[Lucene, OpensearchTerms]]]:
    pytest.importorskip("opensearchpy", reason="pip install 'retrieve-cli[opensearch]'")
    with ExitStack() as servers:

        def start(weights: Vectors) -> tuple[Lucene, OpensearchTerms]:
            made = Lucene(weights.astype(np.float32), [])
            settings = OpensearchSettings(url=servers.enter_context(serving(made.answer)))
            reader = IndexReader(OpensearchServer(settings, user=None, password=None), "i")
            return made, OpensearchTerms(reader, PART, lowered=False)

        yield start


QUERY = TermWeights(np.arange(4, dtype=np.int32), np.array([1, 0.3, 2.5, 0.7], np.float32))


@pytest.mark.parametrize(("spread", "requests"), [(1.0, 1), (0.03, 2)])
def test_a_list_has_the_best_rows_though_the_server_rounds(lucene: Any, spread: float, requests: int) -> None:
    """Of scores that are close to one another, those that the server rounds away decide; it is asked once more."""
    weights = 1 + spread * np.random.default_rng(0).random((2000, 4))
    server, terms = lucene(weights)
    rows, scores = terms.nearest(QUERY, 100)
    exact = server.weights.astype(np.float64) @ QUERY.weights
    best = np.lexsort((np.arange(2000), -exact.astype(np.float32)))[:100]
    assert rows.tolist() == best.tolist()
    assert np.allclose(scores, exact[best], rtol=1e-6)
    assert len(server.asked) == requests
    assert server.asked[0]["size"] < 140


def test_rows_that_are_all_alike_are_not_read_without_end(lucene: Any) -> None:
    server, terms = lucene(np.ones((5000, 4)))
    rows, _ = terms.nearest(QUERY, 100)
    assert rows.tolist() == list(range(100))
    assert [body["size"] for body in server.asked] == [132, 264]
