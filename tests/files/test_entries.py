"""Encodings of texts by their SHA-1: lent, stored or in memory, each comes back to the bit, and nothing else."""

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.storage.entries import TOKENS, WEIGHTS, Entries, Entry, EntryStore, clear
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.manifest import text_key

CARD, OTHER = {"name": "x", "revision": "1"}, {"name": "x", "revision": "2"}
KEYS = [text_key(str(number)) for number in range(9)]
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def store(folder: Path, *, say: Callable[[str], None] = pytest.fail, card: object = CARD) -> EntryStore:
    return EntryStore(folder, TOKENS, card, say=say)


def entry(key: bytes) -> Entry:
    """Arrays that no other key has, some of them empty."""
    size = key[0] % 5
    return np.frombuffer(key, "<i4")[:size], np.frombuffer(key, np.uint8)[: 3 * size].reshape(size, 3)


def fill(folder: Path) -> None:
    """Store nine texts in three files."""
    for start in range(0, 9, 3):
        keys = KEYS[start : start + 3]
        store(folder).add(keys, [entry(key) for key in keys], stored=True)


def expect(entries: Entries, keys: list[bytes]) -> None:
    assert len(entries.starts) == len(keys) + 1
    for row, key in enumerate(keys):
        for got, wanted in zip(entries.entry(row), entry(key), strict=True):
            np.testing.assert_array_equal(got, wanted)
            assert got.dtype == wanted.dtype


@shared_folder
@given(
    homes=st.lists(st.sampled_from(["first", "second", "stored", "memory"]), min_size=9, max_size=9),
    asked=st.lists(st.integers(0, 8), min_size=1, max_size=20),
)
def test_each_text_has_its_own_entry_wherever_it_is(homes: list[str], asked: list[int], tmp_path: Path) -> None:
    clear(tmp_path)
    parts = {home: [key for key, at in zip(KEYS, homes, strict=True) if at == home] for home in set(homes)}
    lent = [
        (as_keys(parts[name]), Entries.of([entry(key) for key in parts[name]]).take)
        for name in ("first", "second")
        if name in parts
    ]
    entries = EntryStore(tmp_path, TOKENS, CARD, lent=lent, say=pytest.fail)
    for home in {"stored", "memory"} & parts.keys():
        entries.add(parts[home], [entry(key) for key in parts[home]], stored=home == "stored")
    keys = [KEYS[place] for place in asked]
    expect(entries.read(entries.find(as_keys(keys))), keys)
    unknown = entries.find(as_keys([text_key("unknown")]))
    assert unknown.tolist() == [-1]
    with pytest.raises(KeyError):
        entries.read(unknown)
    again = store(tmp_path).find(as_keys(KEYS)) >= 0
    assert [home == "stored" for home in homes] == again.tolist()


def test_entries_of_another_card_or_kind_are_not_found(tmp_path: Path) -> None:
    fill(tmp_path)
    assert (store(tmp_path, card=OTHER).find(as_keys(KEYS)) < 0).all()
    assert (EntryStore(tmp_path, WEIGHTS, CARD, say=pytest.fail).find(as_keys(KEYS)) < 0).all()


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "folder"])
def test_a_damaged_file_costs_its_own_texts_and_is_reported_once(tmp_path: Path, damage: str) -> None:
    fill(tmp_path)
    path = sorted(tmp_path.glob("*/*.pkl"))[1]
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "bit":
        path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    else:
        path.write_bytes(content[:-9] if damage == "cut" else b"")
    notices: list[str] = []
    entries = store(tmp_path, say=notices.append)
    rows = entries.find(as_keys(KEYS))
    known = [key for key, row in zip(KEYS, rows, strict=True) if row >= 0]
    assert (len(known), len(notices)) == (6, 1)
    expect(entries.read(rows[rows >= 0]), known)


def test_a_full_disk_leaves_the_stored_entries_as_they_are(tmp_path: Path) -> None:
    fill(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            store(tmp_path).add([text_key("new")], [entry(KEYS[0])], stored=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (store(tmp_path).find(as_keys(KEYS)) >= 0).all()
    assert not list(tmp_path.glob("*/.new*"))


def test_a_publication_leaves_nothing_in_the_cache_but_what_others_have_there(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "verified.json").write_text("{}")
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["verified.json"]
