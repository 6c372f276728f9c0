"""Attributes of an engine, and what all tests of its promises share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.request import Request, urlopen

import numpy as np
import pytest
from engines.contents import (
    DIM,
    GENERATION,
    ODD,
    TERMS,
    VECTORS,
    Content,
    content,
    parts_of,
    send,
    terms,
)
from hypothesis import HealthCheck, given, settings, strategies as st
from profiles import examples

from retrieve_cli.contracts import Candidates, TermWeights
from retrieve_cli.contracts.engines import AnyOf, Engine, EngineGeneration, Part, Within
from retrieve_cli.engines.index import TermEngineIndex, VectorEngineIndex

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


ERROR = 1e-5
"""Largest difference of a score from that of a local index: the promise of 1e-6 times norms and sums of up to 10."""


def same(found: Candidates, wanted: Candidates) -> bool:
    """True if two lists and counts are the same, but for the last bits of scores and the order of rows that these bits
    decide. A number that an engine does not count to the end is not above the true one."""
    pairs = (found.before, wanted.before), (found.after, wanted.after)
    if not all(mine <= true if found.relation == "gte" else mine == true for mine, true in pairs):
        return False
    if len(found.rows) != len(wanted.rows) or not np.allclose(found.scores, wanted.scores, rtol=ERROR, atol=ERROR):
        return False
    end = wanted.scores[-1:] + 2 * ERROR * (1 + np.abs(wanted.scores[-1:]))
    surely = {int(row) for row, score in zip(wanted.rows, wanted.scores, strict=True) if score > end}
    return surely <= set(found.rows.tolist()) and len(set(found.rows.tolist())) == len(found.rows)


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

    def vector_index(self, engine: Engine, opened: EngineGeneration, made: Content) -> VectorEngineIndex:
        part, limits = Part(VECTORS, "chunk", len(made), DIM), engine.capabilities
        return VectorEngineIndex(opened.vectors(VECTORS), part=part, capabilities=limits)

    def term_index(self, engine: Engine, opened: EngineGeneration, made: Content) -> TermEngineIndex:
        part, limits = Part(TERMS, "chunk", len(made)), engine.capabilities
        return TermEngineIndex(opened.terms(TERMS), part=part, capabilities=limits)

    def needs(self, name: str) -> None:
        """Skip a test of what the engine does not have."""
        if not getattr(self, name):
            pytest.skip(f"the engine says that it has not: {name}")

    def expect(self, opened: EngineGeneration, made: Content, conditions: Sequence[AnyOf]) -> None:
        """Compare what satisfies conditions with all rows looked at one by one."""
        admitted, within = made.admitted(conditions), Within(conditions=conditions)
        lists: list[tuple[Rows, Rows]] = []
        if self.has_vectors:
            rows, _ = opened.vectors(VECTORS).nearest(vector(1), len(made), within=within, exact=True)
            lists.append((rows, np.flatnonzero(admitted)))
        if self.has_terms:
            matching = made.sparse.matching(words(2), allowed=admitted)
            lists.append((opened.terms(TERMS).matching(np.sort(words(2).terms), len(made), within=within), matching))
            lists.append((opened.terms(TERMS).nearest(words(2), len(made), within=within)[0], matching))
        for rows, wanted in lists:
            assert sorted(rows.tolist()) == wanted.tolist(), conditions
