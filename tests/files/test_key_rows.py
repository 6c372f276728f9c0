"""Digests in arrays: every one is found where it is, and nothing else."""

from hypothesis import given, strategies as st

from retrieve_cli.storage.key_rows import KeyRows, as_keys

keys = st.one_of(
    st.binary(min_size=20, max_size=20),
    st.sampled_from(b"abc").map(lambda end: b"the same head"[:12] + bytes(7) + bytes([end])),
    st.binary(max_size=2).map(lambda start: start.ljust(20, b"\0")),
)


@given(stored=st.lists(keys, max_size=40), asked=st.lists(keys, max_size=40), often=st.booleans())
def test_every_key_is_found_in_its_first_row(stored: list[bytes], asked: list[bytes], often: bool) -> None:
    rows = KeyRows(as_keys(stored))
    wanted = [stored.index(key) if key in stored else -1 for key in [*asked, *stored]]
    for _ in range(3 if often else 1):
        assert rows.find(as_keys([*asked, *stored])).tolist() == wanted
    assert [rows.row(key) for key in stored] == [stored.index(key) for key in stored]
    assert rows.distinct() <= len(set(stored))
