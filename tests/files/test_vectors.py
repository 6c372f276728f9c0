"""The cache of vectors: what was put in comes out to the bit, and nothing else."""

import hashlib
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.contracts import ModelCard
from retrieve_cli.frozen import asdict
from retrieve_cli.storage.content_cache import prune
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.manifest import sha1, text_key
from retrieve_cli.storage.vector_cache import LAYOUT, VectorCache

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


# ------------------------------------------------------------------------------- what an earlier version cached


def checkpoint(start: int, keys: list[bytes]) -> bytes:
    """As version 0.1.0 wrote it at that place of a file."""
    padding = bytes(-(start + 32 + 20 * len(keys)) % 64)
    rest = b"".join(keys) + padding + vectors(keys).tobytes()
    return struct.pack("<4sQ20s", b"CKPT", len(keys), hashlib.sha1(rest).digest()) + rest


def older_file(folder: Path, keys: list[bytes]) -> Path:
    """The vectors of the keys in three checkpoints."""
    digest = sha1(asdict(CARD))
    data = struct.pack("<8s20sI", b"RTRVVEC1", bytes.fromhex(digest), CARD.dim)
    for start in range(0, len(keys), len(keys) // 3):
        data += checkpoint(len(data), keys[start : start + len(keys) // 3])
    path = folder / f"{digest[:12]}.vectors"
    path.write_bytes(data)
    return path


KEYS = [text_key(str(number)) for number in range(9)]


def test_vectors_of_an_older_file_are_found_beside_new_ones(tmp_path: Path) -> None:
    older_file(tmp_path, KEYS[:6])
    cache = opened(tmp_path)
    assert cache.lacks(as_keys(KEYS)).tolist() == [6, 7, 8]
    cache.append(KEYS[6:], vectors(KEYS[6:]))
    for each in (cache, opened(tmp_path)):
        np.testing.assert_array_equal(gathered(each, KEYS[::-1]), vectors(KEYS[::-1]))
    assert KEYS[0] not in opened(tmp_path, OTHER)


def test_a_damaged_checkpoint_of_an_older_file_is_said_and_no_other_is_lost(tmp_path: Path) -> None:
    path = older_file(tmp_path, KEYS)
    data = bytearray(path.read_bytes())
    data[data.index(KEYS[4])] ^= 1
    path.write_bytes(data)
    said: list[str] = []
    cache = opened(tmp_path, say=said.append)
    assert [key in cache for key in KEYS] == [True] * 3 + [False] * 3 + [True] * 3
    assert said == [f"{path} is damaged: 3 of its vectors are computed again"]
    cache.append(KEYS[3:6], vectors(KEYS[3:6]))
    np.testing.assert_array_equal(gathered(opened(tmp_path, say=said.append), KEYS), vectors(KEYS))


@pytest.mark.parametrize("keep", [0, 1, 31, 32, 40, 100, -1, -100])
def test_an_older_file_cut_short_has_what_was_whole(tmp_path: Path, keep: int) -> None:
    path = older_file(tmp_path, KEYS)
    path.write_bytes(path.read_bytes()[:keep])
    cache = opened(tmp_path)
    known = [key for key in KEYS if key in cache]
    assert known == KEYS[: len(known)]
    np.testing.assert_array_equal(gathered(cache, known), vectors(known))


def test_pruning_moves_what_is_needed_out_of_an_older_file_and_removes_those_of_other_models(tmp_path: Path) -> None:
    path = older_file(tmp_path, KEYS)
    (tmp_path / "0123456789ab.vectors").write_bytes(b"of a model that nobody uses")
    prune(tmp_path, LAYOUT, [(asdict(CARD), as_keys(KEYS[:2]))], say=pytest.fail)
    assert not list(tmp_path.glob("*.vectors")), path
    assert opened(tmp_path).lacks(as_keys(KEYS)).tolist() == list(range(2, 9))
    np.testing.assert_array_equal(gathered(opened(tmp_path), KEYS[:2]), vectors(KEYS[:2]))
