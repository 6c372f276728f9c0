"""Ranking of works: reciprocal ranks, and the reranker's share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cross_models import make_bert
from websearch.web_samples import work

from retrieve_cli.assemble import rerankers
from retrieve_cli.config.settings import RerankSettings, Settings
from retrieve_cli.contracts import Hit, Query
from retrieve_cli.contracts.works import Work
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import replace
from retrieve_cli.search.web import rank, text_of

SETTINGS = Settings()


class ByLength:
    """A reader for which a longer text is a better one."""

    name = "length"

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        del query
        return np.array([len(self.texts[hit.row]) for hit in hits], np.float64)


def ids(works: Sequence[Work], **given: Any) -> list[str]:
    found = rank(works, "guide rna", ("pubmed", "arxiv"), SETTINGS, **{"reader": None, **given})
    return [hit.work.id.rpartition("/")[2] for hit in found.hits]


def test_works_are_ordered_by_the_sum_of_their_reciprocal_ranks() -> None:
    works = [work("a", ("pubmed", 1)), work("b", ("pubmed", 2), ("arxiv", 2)), work("c", ("arxiv", 1))]
    assert ids(works) == ["b", "a", "c"]
    first = rank(works, "guide rna", ("pubmed", "arxiv"), SETTINGS, reader=None).hits[0].hit
    assert first.score == pytest.approx(2 / 62)
    assert [(each.source, each.rank) for each in first.evidence] == [("pubmed", 2), ("arxiv", 2)]


def test_several_versions_at_one_provider_count_once_by_the_best_rank() -> None:
    found = rank([work("a", ("pubmed", 4), ("pubmed", 2))], "x", ("pubmed",), SETTINGS, reader=None)
    assert found.hits[0].hit.score == pytest.approx(1 / 62)


def test_an_enricher_is_no_evidence_for_a_work() -> None:
    found = rank([work("a", ("pubmed", 1), ("crossref", None))], "x", ("pubmed",), SETTINGS, reader=None)
    assert [each.source for each in found.hits[0].hit.evidence] == ["pubmed"]


def test_the_order_does_not_depend_on_the_order_of_the_works() -> None:
    works = [work(name, ("pubmed", 1)) for name in "cab"]
    assert ids(works) == ids(works[::-1]) == ["a", "b", "c"]


def test_the_reranker_moves_a_work_and_leaves_evidence() -> None:
    works = [work("a", ("pubmed", 1)), work("b", ("pubmed", 2), abstract="long " * 9)]
    found = rank(works, "x", ("pubmed",), SETTINGS, reader=ByLength)
    assert [hit.work.id for hit in found.hits] == [works[1].id, works[0].id]
    assert found.hits[0].hit.reranked is not None
    assert found.hits[0].hit.reranked.before == 2
    assert found.pipeline == "rrf(pubmed; k=60) > length@50"


def test_a_reranker_that_is_missing_is_skipped_with_its_reason() -> None:
    def missing(texts: Sequence[str]) -> Any:
        raise Unavailable("no model", hint="retrieve models pull")

    found = rank([work("a", ("pubmed", 1)), work("b", ("pubmed", 2))], "x", ("pubmed",), SETTINGS, reader=missing)
    assert (found.reranked, found.skipped) == (False, {"rerank": "no model: retrieve models pull"})


def test_the_default_encoder_ranks_the_abstract_that_answers_first() -> None:
    works = [
        work("a", ("pubmed", 1), title="Winter wheat yields", abstract="Yields of wheat fields in dry years."),
        work("b", ("pubmed", 2), title="Guide RNA specificity", abstract="How guides of Cas9 cut DNA off target."),
        work("c", ("pubmed", 3), title="Bridge vibrations", abstract="Traffic makes bridges vibrate."),
    ]
    encoder = rerankers.query_encoder(SETTINGS)
    found = rank(
        works, "off-target cuts by CRISPR", ("pubmed",), SETTINGS,
        reader=lambda texts: rerankers.text_reader(SETTINGS, encoder, texts),
    )  # fmt: skip
    assert found.hits[0].work.id == works[1].id
    assert found.pipeline.endswith("> encoder+maxsim@50")


def test_a_configured_cross_encoder_reads_title_and_abstract(tmp_path: Path) -> None:
    make_bert(tmp_path / "cross")
    rerank = RerankSettings(backend="cross_encoder", model=str(tmp_path / "cross"), device="cpu", max_tokens=None)
    chosen = replace(SETTINGS, rerank=rerank)
    works = [work("a", ("pubmed", 1), abstract="segment the lungs"), work("b", ("pubmed", 2), abstract="word")]
    found = rank(
        works, "the word", ("pubmed",), chosen, reader=lambda texts: rerankers.text_reader(chosen, None, texts)
    )
    scored = {hit.work.id: hit.hit.reranked for hit in found.hits}
    alone = rerankers.text_reader(chosen, None, ["On b. word"])
    assert alone is not None
    (expected,) = alone.read(Query("the word"), [replace(found.hits[0].hit, row=0)])
    moved = scored[works[1].id]
    assert moved is not None
    assert moved.score == pytest.approx(float(expected), rel=1e-5)


def test_no_reranker_is_used_if_none_is_configured() -> None:
    none = replace(SETTINGS, rerank=RerankSettings(backend="none"))
    assert rerankers.text_reader(none, None, ["a"]) is None


def test_an_encoder_without_token_vectors_is_a_reason() -> None:
    with pytest.raises(Unavailable, match="no token vectors"):
        rerankers.text_reader(SETTINGS, None, ["a"])


def test_the_text_of_a_web_page_is_its_title_and_snippet() -> None:
    assert text_of(work("a", ("ddg", 1), snippet="Seen.")) == "On a. Seen."
