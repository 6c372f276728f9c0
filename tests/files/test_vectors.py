"""The cache of vectors: what was put in comes out to the bit, and nothing else."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.contracts import ModelCard
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.vector_cache import VectorCache

CARD = ModelCard(family="hashed", name="x", revision="1", dim=4, max_tokens=10)
OTHER = ModelCard(family="hashed", name="x", revision="2", dim=4, max_tokens=10)
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def opened(folder: Path, card: ModelCard = CARD, say: Callable[[str], None] = pytest.fail) -> VectorCache:
    return VectorCache(folder, card, say=say)


def vectors(names: list[bytes]) -> np.ndarray:
    """A vector for each key that no other key has."""
    return np.array([np.frombuffer(name[:16], "<u4") % 1000 for name in names], np.float32).reshape(-1, 4)


def gathered(cache: VectorCache, keys: list[bytes]) -> np.ndarray:
    return np.concatenate([np.empty((0, 4), np.float32), *cache.gather(as_keys(keys))])


names = st.binary(min_size=20, max_size=20) | st.binary(max_size=3).map(lambda start: start.ljust(20, b"\0"))


@shared_folder
@given(batches=st.lists(st.lists(names, min_size=1, max_size=6, unique=True), max_size=5), data=st.data())
def test_every_key_finds_its_own_vector_now_and_when_it_is_read_again(
    batches: list[list[bytes]], data: st.DataObject, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path, ignore_errors=True)
    cache = opened(tmp_path)
    for batch in batches:
        new = [name for name in batch if name not in cache]
        if new:
            cache.append(new, vectors(new))
        assert all(name in cache for name in batch)
    known = sorted({name for batch in batches for name in batch})
    wanted = data.draw(st.lists(st.sampled_from(known), max_size=12)) if known else []
    for each in (cache, opened(tmp_path)):
        np.testing.assert_array_equal(gathered(each, wanted), vectors(wanted))
        assert each.lacks(as_keys([*known, text_key("unknown")])).tolist() == [len(known)]


def test_a_key_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    assert text_key("a") not in cache
    with pytest.raises(KeyError):
        gathered(cache, [text_key("a")])


def test_one_text_is_another_key_in_every_spelling() -> None:
    assert len({text_key(text) for text in ("a", "A", "a ", "\ud800", "\\ud800", "", "\0")}) == 7


def test_another_model_does_not_meet_these_vectors(tmp_path: Path) -> None:
    opened(tmp_path).append([text_key("a")], np.ones((1, 4), np.float32))
    assert text_key("a") not in opened(tmp_path, OTHER)
