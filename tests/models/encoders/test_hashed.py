"""The encoder without a model: the same everywhere, of norm one, and near where words are shared."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st
from models.encoders.vectors import TEXTS

from retrieve_cli.models.encoders.hashed import HashedEncoder, hash64, pairs

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


@given(texts=st.lists(st.text(st.characters(), max_size=50), max_size=6), neighbours=st.lists(st.text(max_size=50)))
def test_vector_is_the_same_to_the_bit_in_any_company(texts: list[str], neighbours: list[str]) -> None:
    encoder = HashedEncoder(64)
    together = encoder.encode_passages([*neighbours, *texts])[len(neighbours) :]
    assert np.array_equal(together, encoder.encode_passages(texts))


def test_slices_do_not_show() -> None:
    encoder = HashedEncoder()
    many = encoder.encode_passages(TEXTS * 100)
    assert np.array_equal(many, np.tile(encoder.encode_passages(TEXTS), (100, 1)))


def test_vectors_are_float32_of_norm_one_or_zero() -> None:
    vectors = HashedEncoder().encode_passages(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 256)
    norms = np.linalg.norm(vectors, axis=1)
    assert np.all(np.isclose(norms, 1, atol=1e-6) | (norms == 0))
    assert norms[TEXTS.index("")] == 0


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


def test_common_words_weigh_little() -> None:
    encoder = HashedEncoder()
    content, common = (
        encoder.encode_passages(["lungs and brain", "water and soil"]) @ encoder.encode_queries(["lungs"])[0]
    )
    assert content > 0.4
    assert abs(common) < 0.2


def test_pairs_depend_on_the_order() -> None:
    one, other = (pairs(np.array(order, dtype=np.uint64)) for order in ([1, 2], [2, 1]))
    assert one.shape == (1,)
    assert one[0] != other[0]


def test_parameters_are_the_revision_and_prefixes_are_applied() -> None:
    assert HashedEncoder(64).card.revision != HashedEncoder(128).card.revision
    assert HashedEncoder(pieces=(3, 5)).card.revision != HashedEncoder().card.revision
    prefixed = HashedEncoder(query_prefix="query ", passage_prefix="passage ")
    plain = HashedEncoder()
    assert np.array_equal(prefixed.encode_queries(["ct"]), plain.encode_queries(["query ct"]))
    assert np.array_equal(prefixed.encode_passages(["ct"]), plain.encode_passages(["passage ct"]))
