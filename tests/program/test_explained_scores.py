"""What an explanation prints adds up to the score: of every stage and choice, in JSON, text and on the page."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import retrieve_cli
from retrieve_cli.output import explanation
from retrieve_cli.output.formats import answer_json
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.server.page.view import PageHit, shown

QUERY = "segment lungs in CT"
CHOICES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "routed": {"route": True},
    "boosted": {"boosts": ["license=MIT:2", "license=*:0.5"]},
    "deep and boosted": {"k": 120, "boosts": ["license=MIT:3"]},
    "variants, routed, boosted": {"also": ["nodules"], "route": True, "boosts": ["license=MIT:2"]},
}
KEYS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "rrf": {"FUSION__METHOD": "rrf"},
    "blended links": {"EXPANSION__PLACEMENT": "blend"},
    "diverse": {"DIVERSITY__MMR": "0.4"},
    "few reranked": {"RERANK__DEPTH": "5", "RERANK__INTERPOLATE": "1", "GATING__TOP_GROUPS": "1"},
}


@pytest.mark.parametrize("keys", KEYS)
def test_parts_add_up_to_the_score_after_every_stage(
    sample_index: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    for name, value in KEYS[keys].items():
        monkeypatch.setenv(f"RETRIEVE_{name}", value)
    moved: set[str] = set()
    with retrieve_cli.open(sample_index) as index:
        for choices in CHOICES.values():
            answer = index.search(QUERY, explain=True, **choices)
            values = zip(answer_json(answer)["results"], answer.results, shown(answer).hits, strict=True)
            for value, result, on_page in values:
                check(answer, result, value, on_page)
                moved |= {each.source for each in result.hit.evidence} | {"rerank" for _ in value.get("rerank", ())}
    assert {"bm25", "dense", "rerank", "boost"} <= moved
    assert {"blended links": "graph", "diverse": "mmr", "few reranked": "lowered"}.get(keys, "text 2") in moved


PART = r"(?:= |adds )(-?[\d.e-]+)(?!\S*, for one of)"
"""What an explanation says that something adds to the score."""


def check(answer: Answer, result: Result, value: Mapping[str, Any], page: PageHit) -> None:
    """Check that the parts of a result add up to its score, as numbers and as they are printed."""
    hit = result.hit
    parts = [each.weight * each.normalized for each in hit.counted]
    parts += [] if hit.reranked is None else [value["rerank"]["part"]]
    assert sum(parts) == pytest.approx(hit.score, abs=1e-9), hit
    digits = 1e-3 * max(abs(each) for each in (hit.score, *parts)) * len(parts)  # of the four that are printed
    rows = explanation.of_result(answer, result)
    printed = [float(number) for _, text in rows[1:] for number in re.findall(PART, text)]
    score = float(re.split("[ ,]", rows[0][1])[0])
    lowered = [-float(number) for label, text in rows for number in re.findall(r"by (\S+), to follow", text)]
    assert sum(printed + lowered) == pytest.approx(score, abs=digits), rows
    assert sum(float(row.part) for row in page.why if row.part != "–") == pytest.approx(float(page.score), abs=digits)
