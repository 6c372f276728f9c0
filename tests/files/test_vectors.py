"""The cache of vectors: what was put in comes out to the bit, and nothing else."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.contracts import ModelCard
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.vector_cache import VectorCache, as_keys, prune

CARD = ModelCard(family="hashed", name="x", revision="1", dim=4, max_tokens=10)
OTHER = ModelCard(family="hashed", name="x", revision="2", dim=4, max_tokens=10)
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


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
    for path in tmp_path.glob("*"):
        path.unlink()
    cache = VectorCache(tmp_path, CARD)
    for batch in batches:
        new = [name for name in batch if name not in cache]
        if new:
            cache.append(new, vectors(new))
        assert all(name in cache for name in batch)
    known = sorted({name for batch in batches for name in batch})
    wanted = data.draw(st.lists(st.sampled_from(known), max_size=12)) if known else []
    for each in (cache, VectorCache(tmp_path, CARD)):
        assert len(each) == len(known)
        np.testing.assert_array_equal(gathered(each, wanted), vectors(wanted))
        assert each.lacks(as_keys([*known, text_key("unknown")])).tolist() == [len(known)]


def test_a_key_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, CARD)
    assert text_key("a") not in cache
    with pytest.raises(KeyError):
        gathered(cache, [text_key("a")])


def test_one_text_is_another_key_in_every_spelling(tmp_path: Path) -> None:
    assert len({text_key(text) for text in ("a", "A", "a ", "\ud800", "\\ud800", "", "\0")}) == 7


def test_another_model_does_not_meet_these_vectors(tmp_path: Path) -> None:
    VectorCache(tmp_path, CARD).append([text_key("a")], np.ones((1, 4), np.float32))
    assert text_key("a") not in VectorCache(tmp_path, OTHER)


def test_damage_costs_the_checkpoint_it_is_in_and_no_other(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, CARD)
    keys = [text_key(str(number)) for number in range(9)]
    for start in (0, 3, 6):
        cache.append(keys[start : start + 3], vectors(keys[start : start + 3]))
    [path] = tmp_path.glob("*.vectors")
    data = bytearray(path.read_bytes())
    data[data.index(keys[4])] ^= 1
    path.write_bytes(data)
    again = VectorCache(tmp_path, CARD)
    assert [name in again for name in keys] == [True] * 3 + [False] * 3 + [True] * 3
    assert (again.damaged, VectorCache(tmp_path, OTHER).damaged) == (3, 0)
    again.append(keys[3:6], vectors(keys[3:6]))
    np.testing.assert_array_equal(gathered(VectorCache(tmp_path, CARD), keys), vectors(keys))


@pytest.mark.parametrize("lost", [1, 40, 100])
def test_a_checkpoint_that_was_cut_short_is_written_over(tmp_path: Path, lost: int) -> None:
    cache = VectorCache(tmp_path, CARD)
    keys = [text_key(str(number)) for number in range(6)]
    cache.append(keys[:3], vectors(keys[:3]))
    cache.append(keys[3:], vectors(keys[3:]))
    [path] = tmp_path.glob("*.vectors")
    path.write_bytes(path.read_bytes()[:-lost])
    again = VectorCache(tmp_path, CARD)
    assert [name in again for name in keys] == [True] * 3 + [False] * 3
    again.append(keys[3:], vectors(keys[3:]))
    np.testing.assert_array_equal(gathered(VectorCache(tmp_path, CARD), keys), vectors(keys))


def test_what_no_generation_needs_is_removed_once_it_is_worth_it(tmp_path: Path) -> None:
    from dataclasses import asdict

    cache = VectorCache(tmp_path, CARD)
    keys = [text_key(str(number)) for number in range(10_000)]
    cache.append(keys, vectors(keys))
    VectorCache(tmp_path, OTHER).append(keys[:1], vectors(keys[:1]))
    prune(tmp_path, [(asdict(CARD), as_keys(keys[:6000]))])
    assert len(VectorCache(tmp_path, CARD)) == 10_000
    assert len(list(tmp_path.iterdir())) == 1
    prune(tmp_path, [(asdict(CARD), as_keys(keys[:1000])), (asdict(CARD), as_keys(keys[500:1500]))])
    left = VectorCache(tmp_path, CARD)
    assert len(left) == 1500
    np.testing.assert_array_equal(gathered(left, keys[:1500]), vectors(keys[:1500]))
    prune(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
