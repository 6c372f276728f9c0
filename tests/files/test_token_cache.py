"""The cache of packed tokens: cached and lent ones side by side, in the order that is asked for."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.contracts import ModelCard
from retrieve_cli.frozen import asdict
from retrieve_cli.storage import pickles, token_table, vector_cache
from retrieve_cli.storage.content_cache import prune
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.token_table import PackedTokens, Stretch, TokenTable
from retrieve_cli.storage.vector_cache import TOKEN_LAYOUT, TokenCache, token_card

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


def test_what_lies_together_in_the_older_table_is_handed_on_at_once(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.lend(table(tmp_path, [1, 2, 3, 4]), KeyRows(as_keys([KEYS[place] for place in (1, 2, 3, 4)])))
    cache.append([KEYS[5]], [packed(5)])
    found = list(cache.gather(as_keys([KEYS[place] for place in (2, 3, 4, 5, 1, 3, 3)])))
    assert [each.sizes.tolist() for each in found] == [[2, 3, 4], [5], [1], [3], [3]]


def test_many_texts_of_one_file_are_read_one_by_one_between_lent_ones(tmp_path: Path) -> None:
    """As of a sync in which records here and there changed: each of them opens the file and lets go of it."""
    keys = [text_key(str(place)) for place in range(300)]
    older = [Stretch(packed(place % 8), np.array([place % 8])) for place in range(0, 300, 2)]
    token_table.write(older, tmp_path / "tokens.pkl", dim=CARD.dim)
    cache = opened(tmp_path)
    cache.append(keys[1::2], [packed(place % 8) for place in range(1, 300, 2)])
    cache.lend(TokenTable(pickles.load(tmp_path / "tokens.pkl")), KeyRows(as_keys(keys[::2])))

    found = list(cache.gather(as_keys(keys)))

    assert [stretch.tokens.ids.tolist() for stretch in found] == [packed(at % 8).ids.tolist() for at in range(300)]
    assert [stretch.tokens.codes.tolist() for stretch in found] == [packed(at % 8).codes.tolist() for at in range(300)]


def test_what_was_lent_is_not_kept(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.lend(table(tmp_path, [1]), KeyRows(as_keys(KEYS[1:2])))
    cache.append([KEYS[2]], [packed(2)])
    again = opened(tmp_path)
    assert [KEYS[1] in again, KEYS[2] in again] == [False, True]
    with pytest.raises(KeyError):
        list(again.gather(as_keys(KEYS[1:2])))


def test_tokens_that_were_packed_another_way_are_not_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path).append(KEYS[:1], [packed(0)])
    assert KEYS[0] in opened(tmp_path)
    monkeypatch.setattr(vector_cache, "CARD", {**token_table.CARD, "bits": 4})
    assert KEYS[0] not in opened(tmp_path)


def test_pruning_knows_its_own_by_the_card_in_a_recipe(tmp_path: Path) -> None:
    opened(tmp_path).append(KEYS, [packed(place) for place in range(8)])
    prune(tmp_path, TOKEN_LAYOUT, [(token_card(asdict(CARD)), as_keys(KEYS))], say=pytest.fail)
    assert all(key in opened(tmp_path) for key in KEYS)


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
