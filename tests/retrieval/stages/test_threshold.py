"""What is not good enough is left out, and the trace says by which test."""

from hypothesis import given, strategies as st

from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.retrieval.stages.threshold import Threshold


def ranking(scores: list[tuple[float, float | None]]) -> Ranking:
    """Hits with a final score, and a similarity where the dense retriever has one."""
    hits = []
    for at, (score, similarity) in enumerate(scores):
        evidence = () if similarity is None else (Evidence("dense", 1, similarity, 0.0, 1.0),)
        hits.append(Hit(f"r{at}#0", at, at, score, evidence))
    return Ranking.of(Query("q"), hits)


def test_each_test_is_named_with_what_it_cut() -> None:
    before = ranking([(0.9, 0.8), (0.7, 0.3), (0.5, None), (0.1, 0.9)])
    (after,) = Threshold(min_score=0.4, grade=0.5, similar=("dense",))([before])
    assert [hit.id for hit in after.hits] == ["r0#0"]
    told = after.trace["threshold"]
    assert (told["kept"], told["cut"]) == (1, {"grade 0.5": 2, "min_score 0.4": 1})
    assert [(hit["id"], hit["rank"], hit["why"]) for hit in told["hits"]] == [
        ("r1#0", 2, "grade 0.5"),
        ("r2#0", 3, "grade 0.5"),
        ("r3#0", 4, "min_score 0.4"),
    ]


PAIRS = st.lists(st.tuples(st.floats(-2, 2), st.none() | st.floats(-1, 1)), max_size=12)


@given(PAIRS, st.floats(0, 100))
def test_a_share_is_of_the_first_score_unless_that_is_not_above_0(
    pairs: list[tuple[float, float | None]], percent: float
) -> None:
    before = ranking(pairs)
    (after,) = Threshold(min_score=f"{percent:g}%")([before])
    first = before.hits[0].score if before.hits else 0.0
    least = first * float(f"{percent:g}") / 100
    assert list(after.hits) == [hit for hit in before.hits if first <= 0 or hit.score >= least]


def test_a_similarity_is_that_of_the_retrievers_named_and_of_no_other() -> None:
    before = ranking([(0.9, 0.9)])
    assert [each.hits for each in Threshold(grade=0.5, similar=("words",))([before])] == [()]
    assert Threshold(min_score=0.5, similar=("words",))([before])[0].hits == before.hits
