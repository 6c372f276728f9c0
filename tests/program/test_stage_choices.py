"""Choices of a request that stages read from the configuration: they answer as the configuration would."""

from pathlib import Path
from typing import Any

import pytest

import retrieve_cli

QUERY = "segment lungs in CT"


@pytest.fixture(autouse=True)
def _default_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")


@pytest.mark.parametrize(
    ("choices", "key", "value"),
    [
        ({"grade": 0.4}, "SEARCH__GRADE", "0.4"),
        ({"similarity_top_k": 3}, "SEARCH__SIMILARITY_TOP_K", "3"),
        ({"rerank_keep": 2}, "RERANK__KEEP", "2"),
        ({"rerank_min_score": 0.5}, "RERANK__MIN_SCORE", "0.5"),
    ],
)
def test_a_choice_answers_as_its_key_of_the_configuration_does(
    sample_index: Path, monkeypatch: pytest.MonkeyPatch, choices: dict[str, Any], key: str, value: str
) -> None:
    with retrieve_cli.open(sample_index) as index:
        plain = index.search(QUERY)
        chosen = index.search(QUERY, **choices)
        again = index.search(QUERY)
    monkeypatch.setenv(f"RETRIEVE_{key}", value)
    with retrieve_cli.open(sample_index) as index:
        configured = index.search(QUERY)

    def hits(answer: Any) -> list[tuple[str, float]]:
        return [(result.id, result.score) for result in answer.results]

    assert (hits(chosen), chosen.pipeline) == (hits(configured), configured.pipeline)
    assert (hits(chosen), chosen.pipeline) != (hits(plain), plain.pipeline)
    assert (hits(again), again.pipeline) == (hits(plain), plain.pipeline), "it holds for one request"


@pytest.mark.parametrize("choices", [{"grade": 2}, {"similarity_top_k": 0}, {"rerank_keep": 0}, {"grade": "much"}])
def test_a_choice_is_held_to_the_bounds_of_its_key(sample_index: Path, choices: dict[str, Any]) -> None:
    with retrieve_cli.open(sample_index) as index, pytest.raises(retrieve_cli.errors.UsageError):
        index.search(QUERY, **choices)


def test_requests_with_other_thresholds_share_one_reranker(sample_index: Path) -> None:
    with retrieve_cli.open(sample_index) as index:
        for least in (0.1, 0.2, 0.3):
            index.search(QUERY, rerank_min_score=least, rerank_keep=int(least * 10) + 1)
        assert len(index.opened.readers) == 1
