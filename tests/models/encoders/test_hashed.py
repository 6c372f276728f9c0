"""The encoder without a model: the same everywhere, of norm one, and near where words are shared."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from models.encoders.vectors import TEXTS

from retrieve_cli.models.encoders.hashed import HashedEncoder, hash64

ENCODE = """
import json, sys
from retrieve_cli.models.encoders.hashed import HashedEncoder
print(json.dumps(HashedEncoder().encode_passages(json.loads(sys.argv[1])).tolist()))
"""


def test_vectors_are_the_same_in_every_process(run_python: Callable[..., str]) -> None:
    given_texts = [text for text in TEXTS if "\0" not in text]
    first, second = (run_python(ENCODE, json.dumps(given_texts), PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert np.array_equal(np.array(json.loads(first), np.float32), HashedEncoder().encode_passages(given_texts))


def test_a_known_vector_never_changes() -> None:
    assert hash64("lung") == 0x79904013FE2B8BCF
    known = [0.36514837, 0.0, 0.0, 0.18257418, -0.2581989, 0.2581989, 0.36514837, -0.75277263]
    assert HashedEncoder(8).encode_passages(["lungs in CT"])[0].tolist() == pytest.approx(known, abs=1e-7)


def test_shared_words_bring_texts_nearer_than_shared_letters_and_these_nearer_than_none() -> None:
    encoder = HashedEncoder()
    query = encoder.encode_queries(["segment lungs in CT"])[0]
    same, alike, other = (
        encoder.encode_passages(["lungs: segment them", "lung segmentation", "protein docking"]) @ query
    )
    assert same > alike > other + 0.1


def test_order_of_words_counts() -> None:
    one, other = HashedEncoder().encode_passages(["image of tool registration", "tool registration of image"])
    assert 0.5 < float(one @ other) < 1


def test_parameters_are_the_revision_and_prefixes_are_applied() -> None:
    assert HashedEncoder(64).card.revision != HashedEncoder(128).card.revision
    assert HashedEncoder(pieces=(3, 5)).card.revision != HashedEncoder().card.revision
    prefixed = HashedEncoder(query_prefix="query ", passage_prefix="passage ")
    plain = HashedEncoder()
    assert np.array_equal(prefixed.encode_queries(["ct"]), plain.encode_queries(["query ct"]))
    assert np.array_equal(prefixed.encode_passages(["ct"]), plain.encode_passages(["passage ct"]))
