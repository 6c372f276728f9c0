"""Lists of term weights through OpenSearch: exact, though its rank features keep nine bits, and with one request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from engines.contents import GENERATION, TERMS, Content, content, parts_of, put, send
from engines.opensearch_server import Osmem, osmem_process
from engines.suite_base import words
from engines.test_opensearch import emptied
from hypothesis import given, strategies as st
from told_servers import Answer, Asked, serving

from retrieve_cli.config.index_settings import OpensearchSettings
from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Batch, Label, Part
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.collections import IndexReader, OpensearchTerms
from retrieve_cli.engines.opensearch.engine import OpensearchEngine
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


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=8))
def test_weights_are_the_same_to_the_bit_after_a_way_as_json(drawn: list[float]) -> None:
    weights = TermWeights(np.arange(len(drawn), dtype=np.int32), np.array(drawn, np.float32))
    batch = Batch(np.arange(1), [Label("a", "a")], weights=[weights])
    ((_, document),) = documents.documents(PART, batch, with_text=False)
    read = documents.read_weights(orjson.loads(document))
    assert read.terms.tolist() == weights.terms.tolist()
    assert read.weights.tobytes() == weights.weights.tobytes()


def before(part: Part, weights: TermWeights) -> dict[str, Any]:
    """Return term weights as the release before kept them."""
    terms, values = weights.terms.astype("<i4"), weights.weights.astype("<f4")
    document = AS_NOW(part, weights)
    del document["weights"]
    return document | {"exact": documents.base64.b64encode(terms.tobytes() + values.tobytes()).decode()}


def mapping_before(*arguments: Any, **options: Any) -> Any:
    """Return the mapping of the release before."""
    mapping = MAPPING_NOW(*arguments, **options)
    del mapping["properties"]["weights"]
    mapping["properties"]["exact"] = {"type": "binary"}
    return mapping


AS_NOW, MAPPING_NOW = documents._weighted, documents.mapping


@pytest.mark.parametrize("sent", [60, 30])
def test_generations_of_the_release_before_are_searched_and_completed(
    osmem_process: Osmem, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """All of its rows, or the first ones of a generation that this release completes."""
    osmem_process.start()
    engine = emptied(osmem_process.url)()
    made = below_zero(content(60))
    parts = parts_of(made, vectors=False, terms=True)
    monkeypatch.setattr(documents, "_weighted", before)
    monkeypatch.setattr(documents, "mapping", mapping_before)
    staging = engine.stage(GENERATION, parts)
    put(staging, made, parts, np.arange(sent))
    monkeypatch.undo()
    put(staging, made, parts, np.arange(sent, 60))
    sample = staging.finish().sample
    compare(engine, made)
    engine.drop(GENERATION)
    assert send(engine, made, parts).sample == sample
    compare(engine, made)
    engine.close()


def below_zero(made: Content) -> Content:
    """Return rows of which one has a weight of 0 and one a weight below it."""
    weights = list(made.weights)
    for row, weight in ((3, 0.0), (8, -0.5)):
        weights[row] = TermWeights(words(2).terms[:1], np.array([weight], np.float32))
    return replace(made, weights=weights)


def compare(engine: OpensearchEngine, made: Content) -> None:
    """Compare what is stored and found with the rows themselves."""
    terms = engine.open(GENERATION).terms(TERMS)
    asked, rows = np.sort(words(2).terms), np.arange(60)
    for stored, wanted in zip(terms.weights(rows, np.arange(2**16, dtype=np.int32)), made.weights, strict=True):
        assert stored.terms.tolist() == wanted.terms.tolist()
        assert stored.weights.tobytes() == wanted.weights.astype(np.float32).tobytes()
    found, scores = terms.nearest(words(2), 60)
    assert sorted(found.tolist()) == terms.matching(asked, 60).tolist()
    assert len(found) == terms.count(asked, 60) > 2
    assert np.allclose(scores, made.sparse.score(words(2), found), rtol=1e-6, atol=1e-6)
    assert np.allclose(terms.scores(words(2), rows), made.sparse.score(words(2), rows), rtol=1e-6, atol=1e-6)
