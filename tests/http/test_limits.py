"""Bodies that are decompressed, and limits of size."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.http.limits import PIECE, HttpFailed, TransientFailure, gunzip, inflate, limit_size


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODINGS: list[tuple[Callable[[bytes], bytes], Callable[[Iterator[bytes]], Iterator[bytes]]]] = [
    (gzip.compress, gunzip),
    (zlib.compress, inflate),
    (bare, inflate),
]
coded = pytest.mark.parametrize(("pack", "unpack"), CODINGS, ids=["gzip", "zlib", "bare deflate"])


def cut(data: bytes, step: int) -> Iterator[bytes]:
    return iter([data[start : start + step] for start in range(0, len(data), step)])


@coded
@given(data=st.binary(max_size=300), step=st.integers(1, 50))
def test_what_was_packed_comes_out_however_it_was_cut(pack, unpack, data: bytes, step: int) -> None:
    assert b"".join(unpack(cut(pack(data), step))) == data


@coded
@given(data=st.binary(min_size=20, max_size=300), at=st.floats(0.1, 0.99))
def test_a_stream_that_ends_early_is_never_taken_for_a_whole_one(pack, unpack, data: bytes, at: float) -> None:
    packed = pack(data)
    with pytest.raises(TransientFailure, match="cut short"):
        list(unpack(cut(packed[: max(3, int(len(packed) * at))], 7)))


@given(data=st.binary(max_size=100), step=st.integers(1, 9))
def test_what_was_never_packed_is_said_or_comes_out_short(data: bytes, step: int) -> None:
    for unpack in (gunzip, inflate):
        with suppress(TransientFailure, HttpFailed):
            assert all(len(piece) <= PIECE for piece in unpack(cut(data, step)))


@coded
def test_a_bomb_is_unpacked_no_further_than_the_limit(pack, unpack) -> None:
    bomb = pack(bytes(50_000_000))
    read = 0

    def travelling() -> Iterator[bytes]:
        nonlocal read
        for piece in cut(bomb, 1000):
            read += len(piece)
            yield piece

    sizes: list[int] = []
    with pytest.raises(KeyError):
        sizes.extend(len(piece) for piece in limit_size(unpack(travelling()), 1_000_000, KeyError))
    assert max(sizes) <= PIECE
    assert sum(sizes) <= 1_000_000
    assert read < len(bomb) / 10
