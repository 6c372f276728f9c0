"""The gate: what it asks, what it chooses, what it promises. On a made corpus of 200 groups of 50 documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from retrieve_cli.contracts import Query, Ranking
from retrieve_cli.frozen import replace
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.gate import GroupRouting
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval

GROUPS, DOCUMENTS, QUERIES = 200, 50, 40
TOP = 10


class CountingIndex(DenseIndex):
    """An index that notes how many queries each search was for."""

    def __init__(self, vectors: Any) -> None:
        super().__init__([FlatVectors(vectors)])
        self.batches: list[int] = []

    def search(self, queries: Sequence[Any], **options: Any) -> Any:
        self.batches.append(len(queries))
        return super().search(queries, **options)


@dataclass
class Corpus:
    """Documents of three subjects that are found in any group, in the words of their group's two themes."""

    groups: Any
    names: list[str]
    queries: list[Query]
    wanted: list[int]
    """By query the record it was made from."""
    layout: ChunkLayout
    encoder: HashedEncoder
    vectors: Any
    indexes: list[CountingIndex] = field(default_factory=list)

    def stage(self, *, depth: int, keep: int, retrievers: int = 2) -> Fuse:
        """Legs of their own whose searches are counted in `indexes`."""
        made = [CountingIndex(self.vectors) for _ in range(retrievers)]
        self.indexes += made
        asked = [
            IndexRetrieval(f"retriever{at}", index, self.encoder.encode_queries, self.layout, "chunk", depth)
            for at, index in enumerate(made)
        ]
        return Fuse(tuple(asked), fusion=Fusion(), keep=keep)

    def gate(self, **options: Any) -> GroupRouting:
        options = {"candidates": 300, "top_groups": TOP, "keep": 10, **options}
        first = self.stage(depth=300, keep=300)
        second = self.stage(depth=500, keep=500)
        return GroupRouting(first, second, groups=self.groups, names=self.names, **options)

    @property
    def asked(self) -> list[Ranking]:
        return [Ranking(query) for query in self.queries]


def document(rng: Any, themes: Sequence[int]) -> list[str]:
    subjects = [f"subject{at}" for at in rng.choice(300, 3, replace=False)]
    theme = [f"theme{themes[int(rng.random() < 0.3)]}word{rng.integers(8)}" for _ in range(6)]
    return [*subjects, *subjects, *theme, *(f"common{at}" for at in rng.integers(100, size=8))]


@pytest.fixture(scope="module", name="made")
def _made() -> Corpus:
    rng = np.random.default_rng(7)
    texts = []
    for _ in range(GROUPS):
        themes = rng.choice(60, 2, replace=False)
        texts += [document(rng, themes) for _ in range(DOCUMENTS)]
    wanted = rng.choice(len(texts), QUERIES, replace=False).tolist()
    asked = [" ".join([texts[row][0], texts[row][6], texts[row][7], f"common{rng.integers(100)}"]) for row in wanted]
    encoder = HashedEncoder()
    return Corpus(
        groups=np.repeat(np.arange(GROUPS, dtype=np.int32), DOCUMENTS),
        names=[f"group {at}" for at in range(GROUPS)],
        queries=[Query(text, str(at)) for at, text in enumerate(asked)],
        wanted=wanted,
        layout=ChunkLayout(np.arange(len(texts) + 1), lambda row: f"{row:05}#0"),
        encoder=encoder,
        vectors=encoder.encode_passages([" ".join(text) for text in texts]),
    )


@pytest.fixture(name="corpus")
def _corpus(made: Corpus) -> Corpus:
    return dataclasses.replace(made, indexes=[])


# ---------------------------------------------------------------------------------------------------- its cost


def test_each_retriever_is_asked_once_a_pass_for_the_whole_batch_whatever_the_number_of_groups(corpus: Corpus) -> None:
    corpus.gate()(corpus.asked)
    assert [index.batches for index in corpus.indexes] == [[QUERIES]] * 4


def test_the_second_pass_finds_what_the_first_had_no_room_for(corpus: Corpus) -> None:
    groups = {"groups": corpus.groups, "names": corpus.names, "candidates": 20, "top_groups": 2}
    gate = GroupRouting(corpus.stage(depth=20, keep=20), corpus.stage(depth=300, keep=100), **groups, keep=60)
    for ranking in gate(corpus.asked):
        assert len(ranking.hits) == 60


# ---------------------------------------------------------------------------------------------------- its answers


def test_ten_groups_of_two_hundred_hold_the_document_as_often_as_all_of_them_do(corpus: Corpus) -> None:
    gated = corpus.gate()(corpus.asked)
    plain = corpus.stage(depth=300, keep=10)(corpus.asked)
    right = [
        corpus.names[corpus.groups[row]] in {each["group"] for each in ranking.trace["gate"]["chosen"]}
        for row, ranking in zip(corpus.wanted, gated, strict=True)
    ]
    assert np.mean(right) >= 0.95
    assert found(gated, corpus.wanted) >= found(plain, corpus.wanted) > 0.5


def found(rankings: Sequence[Ranking], wanted: Sequence[int]) -> float:
    """The share of queries whose document was found."""
    return float(
        np.mean([row in {hit.record for hit in each.hits} for each, row in zip(rankings, wanted, strict=True)])
    )


def test_a_batch_answers_as_its_queries_do_one_by_one(corpus: Corpus) -> None:
    gate = corpus.gate(per_group=2, min_results=8)
    odd, even = np.arange(len(corpus.groups)) % 2 == 1, np.arange(len(corpus.groups)) % 2 == 0
    filters = [None, odd, even, even, None, odd]
    asked = [Ranking(replace(query, records=mask)) for query, mask in zip(corpus.queries, filters, strict=False)]
    asked.append(Ranking(replace(corpus.queries[0], records=odd)))  # the same question of other records
    together = gate(asked)
    alone = [gate([ranking])[0] for ranking in asked]
    assert together == alone
    assert [each.trace for each in together] == [each.trace for each in alone]


def test_where_there_are_no_more_groups_than_may_be_chosen_it_is_the_first_pass_and_says_so(corpus: Corpus) -> None:
    rankings = corpus.gate(top_groups=GROUPS)(corpus.asked)
    plain = corpus.stage(depth=300, keep=300)(corpus.asked)
    assert [each.hits for each in rankings] == [each.hits[:10] for each in plain]
    assert {each.trace["gate"]["passes"] for each in rankings} == {1}
    assert {(each.trace["gate"]["left_out"], each.trace["gate"]["searched"]) for each in rankings} == {(0, 0)}


def test_a_filter_holds_in_both_passes_and_in_what_is_filled_up(corpus: Corpus) -> None:
    allowed = np.random.default_rng(3).random(len(corpus.groups)) < 0.2
    asked = [Ranking(replace(query, records=allowed)) for query in corpus.queries]
    for ranking in corpus.gate(per_group=1, keep=30, min_results=30)(asked):
        chosen = [corpus.names.index(each["group"]) for each in ranking.trace["gate"]["chosen"]]
        assert ranking.trace["gate"]["searched"] == np.count_nonzero(allowed & np.isin(corpus.groups, chosen))
        assert ranking.trace["gate"]["filled"] > 0
        assert all(allowed[hit.record] for hit in ranking.hits)
        assert ranking.query.records is allowed
