"""Summaries without a model: the sentence that is closest to the centroid of a chunk's sentences."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from facets.conftest import facets
from hypothesis import given, strategies as st
from samples import Program

from retrieve_cli.contracts import Chunk
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.sources.chunking.extractive import ExtractiveFacets

ENCODER = HashedEncoder(dim=64)
WORDS = ["lungs", "cells", "bones", "scan", "image", "of", "the", "shows"]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(lambda words: " ".join(words).title() + ".")
TEXTS = st.lists(SENTENCES, min_size=1, max_size=6).map(" ".join)


def chunk(text: str) -> Chunk:
    return Chunk("a", 0, text, 0, len(text), 1, 1)


def summaries(texts: Sequence[str]) -> list[str | None]:
    answers = ExtractiveFacets(ENCODER).make([chunk(text) for text in texts])
    return [(answer.facets or {}).get("summary") for answer in answers]


def test_the_summary_is_the_sentence_closest_to_the_centroid() -> None:
    sentences = ["The lungs are shown in a scan.", "A scan shows the lungs.", "Rain fell."]
    vectors = ENCODER.encode_passages(sentences).astype(np.float64)
    closest = sentences[int((vectors @ vectors.mean(axis=0)).argmax())]
    assert summaries([" ".join(sentences)]) == [closest]


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_a_summary_does_not_depend_on_the_other_chunks(texts: list[str]) -> None:
    assert summaries(texts) == [summaries([text])[0] for text in texts]
    assert summaries(texts[::-1]) == summaries(texts)[::-1]


@given(st.text(max_size=300))
def test_a_summary_is_one_line_of_the_text_or_nothing(text: str) -> None:
    (summary,) = summaries([text])
    if summary is None:
        assert not any(char.isalnum() for char in text)
    else:
        assert summary.isprintable()
        assert 0 < len(summary) <= 300


def test_a_build_needs_no_server_and_says_nothing_is_sent(
    docs: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_FACETS__PROMPT", "extractive")
    done = retrieve("build", docs)
    assert "sending" not in done.err
    assert "facets: 6 made" in done.err
    assert facets()["lungs.md#0"] == {"summary": "All about Lungs and how Doctors see them."}
    first = retrieve("build", docs, "--json").json
    assert (first["facets"]["cached"], first["facets"]["made"]) == (6, 0)
    assert retrieve("build", docs, "--artifacts", "other", "--json").json["generation"] == first["generation"]
    (docs / "lungs.md").write_text("# Lungs\n\nAnother text.\n")
    synced = retrieve("sync", "--compact", "--json").json["generation"]
    assert retrieve("build", docs, "--artifacts", "other", "--json").json["generation"] == synced
    assert retrieve("sync", "--verify").code == 0


def test_without_vectors_there_is_no_centroid(docs: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_FACETS__PROMPT", "extractive")
    monkeypatch.setenv("RETRIEVE_DENSE__ENABLED", "false")
    done = retrieve("build", docs)
    assert done.code == 2
    assert "dense.enabled" in done.err
