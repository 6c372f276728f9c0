"""Digests and texts in arrays: every one is found where it is, and nothing else."""

import numpy as np
from hypothesis import given, strategies as st

from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.vocabulary import TextNumbers, TextRows, Vocabulary

keys = st.one_of(
    st.binary(min_size=20, max_size=20),
    st.sampled_from(b"abc").map(lambda end: b"the same head"[:12] + bytes(7) + bytes([end])),
    st.binary(max_size=2).map(lambda start: start.ljust(20, b"\0")),
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(str.encode)


@given(stored=st.lists(keys, max_size=40), asked=st.lists(keys, max_size=40), often=st.booleans())
def test_every_key_is_found_in_its_first_row(stored: list[bytes], asked: list[bytes], often: bool) -> None:
    rows = KeyRows(as_keys(stored))
    wanted = [stored.index(key) if key in stored else -1 for key in [*asked, *stored]]
    for _ in range(3 if often else 1):
        assert rows.find(as_keys([*asked, *stored])).tolist() == wanted
    assert [rows.row(key) for key in stored] == [stored.index(key) for key in stored]
    assert rows.distinct() <= len(set(stored))


@given(texts=st.lists(words, unique=True, max_size=30), asked=st.lists(words, max_size=30))
def test_every_text_has_its_number(texts: list[bytes], asked: list[bytes]) -> None:
    numbers = TextNumbers()
    for text in texts:
        assert numbers.number(text) == -1
        numbers.add(text)
    rows = TextRows(vocabulary(texts))
    for text in [*texts, *asked, *texts, *texts]:
        wanted = texts.index(text) if text in texts else -1
        assert (numbers.number(text), rows.row(text)) == (wanted, wanted)


def vocabulary(texts: list[bytes]) -> Vocabulary:
    return Vocabulary(np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]))
