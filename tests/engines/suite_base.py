"""Attributes of an engine, and what all tests of its promises share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.request import Request, urlopen

import numpy as np
import pytest
from engines.contents import DIM, GENERATION, ODD, TERMS, VECTORS, Content, content, parts_of, send, terms
from hypothesis import HealthCheck, given, settings, strategies as st
from profiles import examples

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import AnyOf, Engine, EngineGeneration, Part, Within
from retrieve_cli.engines.index import EngineIndex, TermEngineIndex

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

NewEngine = Callable[[], Engine]

plain_conditions = st.builds(
    AnyOf,
    st.sampled_from(["modality", "decile", "absent"]),
    st.lists(
        st.sampled_from([f"kind {kind}" for kind in range(7)] + [str(decile) for decile in range(11)]), max_size=4
    ),
    st.booleans(),
)


def vector(seed: int) -> Vectors:
    """A query, of L2 norm 1."""
    drawn = np.random.default_rng(seed).normal(size=DIM)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def words(seed: int, count: int = 6) -> TermWeights:
    """A query of terms, not in order."""
    random = np.random.default_rng(seed)
    drawn = terms(random, count)
    order = random.permutation(len(drawn.terms))
    return TermWeights(drawn.terms[order], drawn.weights[order])


def in_order(rows: Rows, count: int, *, unit: str) -> Rows:
    """Return the first rows by their numbers, in place of their ids."""
    return np.sort(rows)[:count]


def told(method: str, url: str, body: object = None) -> Any:
    """Return the answer of a server to a request of the test itself."""
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, content, {"Content-Type": "application/json"}, method=method)) as answer:
        return json.load(answer)


class Base:
    """What is said of an engine by its subclass of the suite, and what its tests share."""

    has_vectors: ClassVar[bool] = True
    has_terms: ClassVar[bool] = True
    share: ClassVar[float] = 0.5
    """Number of examples of a law, as a share of those of the profile."""
    precision: ClassVar[float] = 1e-5
    """Largest difference of a score from that of a local index, as a share of its size."""
    kill_server: ClassVar[Callable[..., None] | None] = None
    """Method that kills the server; `new_engine` starts it again for the next test."""
    unreachable: ClassVar[Callable[..., Engine] | None] = None
    """Method that returns an engine whose address nobody listens at."""

    def losses(self) -> dict[str, Callable[[], object]]:
        """Everything that the server holds now, in words, and what removes or empties it behind the engine's back."""
        return {}

    @pytest.fixture
    def engine(self, new_engine: NewEngine) -> Iterator[Engine]:
        engine = new_engine()
        yield engine
        engine.close()

    @pytest.fixture
    def made(self) -> Content:
        """Rows of which an engine holds all in a moment."""
        return content(60, odd=ODD)

    def parts(self, made: Content) -> list[Part]:
        return parts_of(made, vectors=self.has_vectors, terms=self.has_terms)

    def opened(self, engine: Engine, made: Content, generation: str = GENERATION) -> EngineGeneration:
        send(engine, made, self.parts(made), generation=generation)
        return engine.open(generation)

    def law(self, *strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator for a law that is tested with examples of some strategies."""
        limits = settings(max_examples=examples(self.share), suppress_health_check=list(HealthCheck), deadline=None)
        return lambda law: limits(given(*strategies)(law))

    def indexes(
        self, engine: Engine, opened: EngineGeneration, made: Content
    ) -> list[tuple[EngineIndex[Any], Callable[[int], Any]]]:
        """Return the indexes over an engine, each with a function that makes queries."""
        able = {"capabilities": engine.capabilities, "form": lambda query: query, "lowest": in_order}
        found: list[tuple[EngineIndex[Any], Callable[[int], Any]]] = []
        if self.has_vectors:
            found.append((EngineIndex(made.dense, opened.collection(VECTORS), **able), vector))  # type: ignore[arg-type]
        if self.has_terms:
            found.append((TermEngineIndex(made.sparse, opened.collection(TERMS), **able), words))  # type: ignore[arg-type]
        return found

    def expect(self, opened: EngineGeneration, made: Content, within: Within, admitted: Rows) -> None:
        """Compare what is found among some rows with all rows looked at one by one."""
        mask = np.isin(np.arange(len(made)), admitted)
        if self.has_vectors:
            rows, scores = opened.collection(VECTORS).nearest(vector(1), len(made), within=within)
            assert sorted(rows.tolist()) == admitted.tolist()
            self.expect_scores(scores, made.vectors[rows] @ vector(1))
        if self.has_terms:
            rows, scores = opened.collection(TERMS).nearest(words(2), len(made), within=within)
            assert sorted(rows.tolist()) == made.sparse.matching(words(2), allowed=mask).tolist()
            self.expect_scores(scores, made.sparse.score(words(2), rows))

    def expect_scores(self, scores: Vectors, wanted: Vectors) -> None:
        assert np.allclose(scores, wanted, rtol=self.precision, atol=1e-4)
        assert bool((np.diff(scores) <= 0).all())

    def expect_all(self, opened: EngineGeneration, made: Content) -> None:
        """Compare all rows of an engine."""
        self.expect(opened, made, Within(), np.arange(len(made)))

    def expect_conditions(self, opened: EngineGeneration, made: Content, conditions: Sequence[AnyOf]) -> None:
        """Compare what satisfies conditions with all rows looked at one by one."""
        self.expect(opened, made, Within(conditions=conditions), np.flatnonzero(made.admitted(conditions)))
