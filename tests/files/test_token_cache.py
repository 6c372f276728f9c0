"""The cache of packed tokens: cached and lent ones side by side, in the order that is asked for."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.contracts import ModelCard
from retrieve_cli.storage import pickles, token_table, vector_cache
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.token_table import PackedTokens, Stretch, TokenTable
from retrieve_cli.storage.vector_cache import TokenCache

CARD = ModelCard(family="transformer", name="x", revision="1", dim=8, max_tokens=10)
KEYS = [text_key(str(number)) for number in range(8)]
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def opened(folder: Path) -> TokenCache:
    return TokenCache(folder, CARD, say=pytest.fail)


def packed(place: int) -> PackedTokens:
    """The tokens of a text by its place: none of the first, one of the second."""
    ids = np.arange(place, dtype=np.int32) + 100 * place
    return PackedTokens(ids, np.arange(2 * place, dtype=np.uint8).reshape(place, 2) + place)


def table(folder: Path, places: list[int]) -> TokenTable:
    """What an older generation has: these texts, in this order."""
    stretches = [Stretch(packed(place), np.array([place])) for place in places]
    token_table.write(stretches, folder / "tokens.pkl", dim=CARD.dim)
    return TokenTable(pickles.load(folder / "tokens.pkl"))


@shared_folder
@given(lent=st.lists(st.integers(0, 7), unique=True, min_size=1), asked=st.lists(st.integers(0, 7), max_size=20))
def test_lent_or_cached_every_text_has_its_own_tokens(lent: list[int], asked: list[int], tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.lend(table(tmp_path, lent), KeyRows(as_keys([KEYS[place] for place in lent])))
    missing = [place for place in range(8) if KEYS[place] not in cache]
    assert not set(missing) & set(lent)
    cache.append([KEYS[place] for place in missing], [packed(place) for place in missing])
    assert all(key in cache for key in KEYS)

    found = list(cache.gather(as_keys([KEYS[place] for place in asked])))

    assert [int(size) for each in found for size in each.sizes] == asked
    assert cache.lacks(as_keys([*KEYS, text_key("unknown")])).tolist() == [8]
    for name in ("ids", "codes"):
        nothing = [getattr(packed(0), name)]
        got = np.concatenate(nothing + [getattr(each.tokens, name) for each in found])
        np.testing.assert_array_equal(got, np.concatenate(nothing + [getattr(packed(at), name) for at in asked]))


def test_tokens_that_were_packed_another_way_are_not_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path).append(KEYS[:1], [packed(0)])
    assert KEYS[0] in opened(tmp_path)
    monkeypatch.setattr(vector_cache, "CARD", {**token_table.CARD, "bits": 4})
    assert KEYS[0] not in opened(tmp_path)


def test_tokens_are_written_without_holding_all_of_them(tmp_path: Path) -> None:
    class Many:
        def __iter__(self) -> Iterator[Stretch]:
            for start in range(200):
                ids = np.full(2000, start, np.int32)
                yield Stretch(PackedTokens(ids, np.full((2000, 96), start, np.uint8)), np.full(20, 100))

    tracemalloc.start()
    assert token_table.write(Many(), tmp_path / "tokens.pkl", dim=384) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20, "of 40 MB"
    table = TokenTable(pickles.load(tmp_path / "tokens.pkl"))
    assert len(table) == 4000
    stored = pickles.load(tmp_path / "tokens.pkl")
    assert stored["frequencies"].tolist() == [20] * 200
    np.testing.assert_array_equal(stored["codes"][:, 0], np.repeat(np.arange(200), 2000))
