"""The cache of what has another length for each text: what was put in comes out to the bit, and nothing else."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.storage import pickles
from retrieve_cli.storage.content_cache import ContentCache, prune
from retrieve_cli.storage.key_rows import CacheLayout, as_keys
from retrieve_cli.storage.manifest import sha1_file, text_key

LAYOUT = CacheLayout(".pairs", {"terms": "<i4", "codes": "|u1"})
CARD, OTHER = {"name": "x", "revision": "1"}, {"name": "x", "revision": "2"}
KEYS = [text_key(str(number)) for number in range(9)]
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
names = st.binary(min_size=20, max_size=20) | st.binary(max_size=3).map(lambda start: start.ljust(20, b"\0"))


@pytest.fixture
def said() -> list[str]:
    return []


def opened(folder: Path, said: list[str] | None = None, card: dict[str, str] = CARD) -> ContentCache:
    return ContentCache(folder, card, LAYOUT, say=[].append if said is None else said.append)


def entry(key: bytes) -> tuple[np.ndarray, ...]:
    """What no other key has, of a length of its own."""
    size = key[0] % 5
    return np.frombuffer(key, "<i4")[:size], np.frombuffer(key, np.uint8)[: 3 * size].reshape(size, 3)


def filled(folder: Path, *, batches: int = 3) -> ContentCache:
    """Nine texts, in as many files as there are batches."""
    cache = opened(folder)
    for part in np.array_split(np.arange(len(KEYS)), batches):
        cache.append([KEYS[at] for at in part], [entry(KEYS[at]) for at in part])
    return cache


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pairs/*"))


def holds(cache: ContentCache, keys: list[bytes]) -> None:
    for key in keys:
        for found, wanted in zip(cache[key], entry(key), strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype


def is_made_whole(folder: Path, cache: ContentCache, said: list[str]) -> None:
    """Appends the lost entries: the cache is whole then, and its damage was reported once."""
    lost = [key for key in KEYS if key not in cache]
    cache.append(lost, [entry(key) for key in lost])
    holds(opened(folder, said), KEYS)
    assert len(said) == 1


@contextmanager
def files_may_not_grow(limit: int) -> Iterator[None]:
    """No file of this process may become larger than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# ------------------------------------------------------------------------------------------------- what goes in


@shared_folder
@given(batches=st.lists(st.lists(names, max_size=6, unique=True), max_size=5))
def test_every_key_finds_its_own_entry_now_and_when_it_is_read_again(
    batches: list[list[bytes]], tmp_path: Path
) -> None:
    for path in files(tmp_path):
        path.unlink()
    cache = opened(tmp_path)
    for batch in batches:
        cache.append(batch, [entry(key) for key in batch])
    for each in (cache, opened(tmp_path)):
        holds(each, [key for batch in batches for key in batch])
        assert text_key("unknown") not in each


def test_a_key_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        opened(tmp_path)[KEYS[0]]


def test_what_another_card_describes_does_not_meet_these_entries(tmp_path: Path) -> None:
    filled(tmp_path)
    assert KEYS[0] not in opened(tmp_path, card=OTHER)


# ------------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("where", np.linspace(0, 1, 5).tolist())
def test_a_flipped_bit_costs_the_file_it_is_in_and_no_other_and_is_said(
    tmp_path: Path, said: list[str], where: float
) -> None:
    filled(tmp_path)
    path = files(tmp_path)[1]
    data = bytearray(path.read_bytes())
    data[int(where * (len(data) - 1))] ^= 1
    path.write_bytes(data)
    again = opened(tmp_path, said)
    known = [key for key in KEYS if key in again]
    assert len(known) == 6
    holds(again, known)
    assert said == [f"{path} is damaged: skipped; its contents are computed again"]
    is_made_whole(tmp_path, again, said)


def test_a_file_of_garbage_is_no_entry(tmp_path: Path, said: list[str]) -> None:
    filled(tmp_path, batches=1)
    folder = LAYOUT.place(tmp_path, CARD)
    (folder / "0123.pkl").write_bytes(b"garbage")
    (folder / "abcd.pkl").mkdir()
    (folder / "beef.pkl").symlink_to("nowhere")
    again = opened(tmp_path, said)
    holds(again, KEYS)
    assert len(said) == 3


def stored(keys: int, starts: list[int], rows: int, terms: str = "<i4") -> dict[str, np.ndarray]:
    """A file of so many keys, and so many rows in each column."""
    columns = {"terms": np.zeros(rows, terms), "codes": np.zeros(rows, "|u1")}
    return {"keys": np.zeros(20 * keys, np.uint8), "starts": np.array(starts, np.int64), **columns}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"keys": 3},
        {"keys": np.zeros(20, np.uint8), "starts": np.array([0, 1])},
        stored(1, [0, 9], 1),
        stored(2, [0, 1], 1),
        stored(1, [0, 1], 1, terms="<f4"),
        stored(2, [0, 2, 1], 1),
        stored(0, [], 0),
    ],
    ids=["a list", "no array", "no columns", "short", "a key too many", "another type", "backwards", "nothing at all"],
)
def test_a_file_that_is_what_it_is_called_but_of_no_such_layout_is_left_out(
    tmp_path: Path, said: list[str], content: object
) -> None:
    filled(tmp_path, batches=1)
    folder = LAYOUT.place(tmp_path, CARD)
    pickles.dump(content, folder / "new")
    (folder / "new").rename(folder / f"{sha1_file(folder / 'new')}.pkl")
    again = opened(tmp_path, said)
    assert bytes(20) not in again
    holds(again, KEYS)
    assert len(said) == 1


def test_a_file_in_place_of_the_folder_gives_way(tmp_path: Path, said: list[str]) -> None:
    LAYOUT.place(tmp_path, CARD).write_text("not a folder")
    cache = opened(tmp_path, said)
    assert KEYS[0] not in cache
    cache.append(KEYS, [entry(key) for key in KEYS])
    holds(opened(tmp_path), KEYS)
    assert len(said) == 1


def test_where_there_is_no_room_what_was_there_stays(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.append(KEYS[:3], [entry(key) for key in KEYS[:3]])
    with files_may_not_grow(100), pytest.raises(OSError, match="File too large"):
        cache.append(KEYS[3:], [entry(key) for key in KEYS[3:]])
    assert len(files(tmp_path)) == 1
    for each in (cache, opened(tmp_path)):
        assert [key in each for key in KEYS] == [True] * 3 + [False] * 6
    cache.append(KEYS[3:], [entry(key) for key in KEYS[3:]])
    holds(opened(tmp_path), KEYS)


# ----------------------------------------------------------------------------------------------------- pruning


def test_what_no_generation_needs_is_removed_once_it_is_worth_it(tmp_path: Path, said: list[str]) -> None:
    filled(tmp_path)
    opened(tmp_path, card=OTHER).append(KEYS[:1], [entry(KEYS[0])])
    prune(tmp_path, LAYOUT, [(CARD, as_keys(KEYS[:6]))], say=said.append)
    assert len(files(tmp_path)) == 3
    holds(opened(tmp_path), KEYS)
    assert KEYS[0] not in opened(tmp_path, card=OTHER)
    prune(tmp_path, LAYOUT, [(CARD, as_keys(KEYS[:2])), (CARD, as_keys(KEYS[1:4]))], say=said.append)
    left = opened(tmp_path)
    assert [key in left for key in KEYS] == [True] * 4 + [False] * 5
    holds(left, KEYS[:4])
    assert len(files(tmp_path)) == 1
    prune(tmp_path, LAYOUT, [], say=said.append)
    assert list(tmp_path.iterdir()) == []
    assert said == []


def test_many_files_become_one(tmp_path: Path, said: list[str]) -> None:
    cache = opened(tmp_path)
    keys = [text_key(f"text {number}") for number in range(70)]
    for key in keys:
        cache.append([key], [entry(key)])
    prune(tmp_path, LAYOUT, [(CARD, as_keys(keys))], say=said.append)
    assert len(files(tmp_path)) == 1
    holds(opened(tmp_path), keys)


def test_more_files_than_may_be_open_are_read(tmp_path: Path) -> None:
    cache, keys = opened(tmp_path), [text_key(f"text {number}") for number in range(150)]
    for key in keys:
        cache.append([key], [entry(key)])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 80, before[1]))
    try:
        holds(cache, keys)
        holds(opened(tmp_path), keys[::-1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_a_killed_writer_left_and_what_is_damaged_do_not_outlive_a_pruning(
    tmp_path: Path, said: list[str]
) -> None:
    filled(tmp_path)
    damaged = files(tmp_path)[0]
    (damaged.parent / ".new-123").write_bytes(damaged.read_bytes()[:50])
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    prune(tmp_path, LAYOUT, [(CARD, as_keys(KEYS[:1]))], say=said.append)
    assert not list(tmp_path.rglob(".*"))
    assert not damaged.exists()
