"""Files whose blocks have sums: any flipped bit shows, where it is read and nowhere else."""

import os
import struct
from collections.abc import Callable
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.retrieval.retrievers import splade
from retrieve_cli.retrieval.retrievers.splade import SparseIndex
from retrieve_cli.storage import pickles, token_table
from retrieve_cli.storage.mapped import BLOCK, MappedFile, block_sums
from retrieve_cli.storage.token_table import TokenTable

SIZES = st.one_of(st.integers(1, 300), st.integers(BLOCK - 9, BLOCK + 9), st.integers(3 * BLOCK - 9, 3 * BLOCK + 9))
PAGE = 4096


def noise(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def mapped(path: Path, written: np.ndarray, *, sound: bool = False) -> MappedFile:
    """The file of a path, which had these bytes when it was written; SHA-1 says that it has them still, or not."""
    return MappedFile(path, block_sums(written), lambda: "" if sound else f"{path} is damaged")


@given(size=SIZES, seed=st.integers(0, 99), where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_changes_the_sum_of_its_block_and_no_other(size: int, seed: int, where: float, bit: int) -> None:
    data = noise(size, seed)
    before, at = block_sums(data), int(where * size)
    data[at] ^= 1 << bit
    assert np.flatnonzero(before != block_sums(data)).tolist() == [at // BLOCK]


@given(first=st.integers(0, 15), second=st.integers(0, 15), seed=st.integers(0, 99))
def test_pages_that_changed_places_change_the_sum(first: int, second: int, seed: int) -> None:
    data = noise(BLOCK, seed).reshape(-1, PAGE)
    before = block_sums(data.reshape(-1))
    data[[first, second]] = data[[second, first]]
    assert (block_sums(data.reshape(-1)) == before).all() == (first == second)


@pytest.mark.parametrize("blocks", [0, 1, 255, 256, 257, 513])
def test_a_file_has_as_many_sums_as_blocks_however_many_are_summed_at_once(blocks: int) -> None:
    data = np.tile(noise(BLOCK), blocks)
    assert block_sums(data).tolist() == block_sums(noise(BLOCK)).tolist() * blocks


@given(size=SIZES, seed=st.integers(0, 99))
def test_a_sum_is_what_plain_arithmetic_gives(size: int, seed: int) -> None:
    data = noise(size, seed)
    padded = data.tobytes().ljust(-(-size // BLOCK) * BLOCK, b"\0")
    words = struct.unpack(f"<{len(padded) // 8}Q", padded)
    pages = [sum(words[at : at + PAGE // 8]) for at in range(0, len(words), PAGE // 8)]
    factors = range(1, 2 * (BLOCK // PAGE), 2)
    sums = [sum(map(mul, pages[at : at + 16], factors)) % 2**64 for at in range(0, len(pages), 16)]
    assert block_sums(data).tolist() == sums


def test_damage_is_told_where_it_is_read_and_nowhere_else(tmp_path: Path) -> None:
    written = noise(5 * BLOCK)
    damaged = written.copy()
    damaged[2 * BLOCK + 7] ^= 4
    damaged.tofile(tmp_path / "a")
    file = mapped(tmp_path / "a", written)

    file.check(0, 2 * BLOCK)
    file.check(3 * BLOCK)
    file.check_parts(file.data[: 2 * BLOCK], file.data[3 * BLOCK :], np.zeros(9), file.data[:0])
    file.rows(5, 1000, np.array([0, 1, 250]))
    file.check_besides(file.data[2 * BLOCK : 3 * BLOCK])
    for read in (
        file.check,
        lambda: file.check(3 * BLOCK - 1, 3 * BLOCK),
        lambda: file.check_parts(file.data[BLOCK : 2 * BLOCK + 1]),
        lambda: file.rows(5, 1000, np.array([0, 131])),
        lambda: file.check_besides(file.data[2 * BLOCK + 1 : 3 * BLOCK]),
    ):
        with pytest.raises(IndexCorrupt, match="is damaged"):
            read()


@pytest.mark.parametrize("sums", [np.empty(0, np.uint64), np.zeros(5, np.uint64), np.zeros(9, np.uint64)])
def test_where_the_sums_are_wrong_the_file_is_read_once_and_believed(tmp_path: Path, sums: Any) -> None:
    noise(5 * BLOCK).tofile(tmp_path / "a")
    reads = []
    file = MappedFile(tmp_path / "a", sums, lambda: reads.append(1) or "")
    for _ in range(3):
        file.check(BLOCK, 2 * BLOCK)
        file.check()
    assert len(reads) == 1


def test_an_empty_file_is_sound_and_read_in_any_way(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    file = mapped(tmp_path / "a", noise(0))
    file.check()
    assert (len(file), file.data.size) == (0, 0)

    file.advise_random_reads()
    file.fetch()
    file.check()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_not_a_regular_file_is_not_mapped(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a")
    with pytest.raises(OSError, match="not a regular file"):
        MappedFile(tmp_path / "a")


def test_tokens_and_term_weights_are_checked_where_a_query_reads_them(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    starts = np.arange(0, 200_001, 1000)
    tokens = {
        "dim": 32,
        "ids": generator.integers(0, 9, 200_000).astype(np.int32),
        "codes": generator.integers(0, 256, (200_000, 8), np.uint8),
        "starts": starts,
        "frequencies": np.ones(9, np.int32),
    }
    weights = {
        "unit": "chunk",
        "length": 1000,
        "starts": starts,
        "rows": np.tile(np.arange(1000, dtype=np.int32), 200),
        "impacts": generator.random(200_000).astype(np.float32),
    }
    for stored, name in ((tokens, "codes"), (tokens, "ids"), (weights, "rows"), (weights, "impacts")):
        path = tmp_path / "stored.pkl"
        pickles.dump(stored, path)
        written = np.fromfile(path, np.uint8)
        opened = MappedFile(path)
        first, end = opened.span(pickles.load(opened)[name])
        damaged = written.copy()
        damaged[(first + end) // 2] ^= 1
        damaged.tofile(tmp_path / "damaged.pkl")
        file = mapped(tmp_path / "damaged.pkl", written)
        ask = _asked(stored, file)
        ask(0)
        ask(199)
        with pytest.raises(IndexCorrupt, match=r"damaged\.pkl is damaged"):
            ask(100)


def _asked(stored: dict[str, Any], file: MappedFile) -> Callable[[int], object]:
    """Read what belongs to a chunk, or to a term."""
    if "codes" in stored:
        table = TokenTable(pickles.load(file, later=token_table.LATER), file.check_parts)
        return lambda chunk: table.tokens([chunk])
    index = SparseIndex(pickles.load(file, later=splade.LATER), file.check_parts)
    return lambda term: index.search([TermWeights(np.array([term]), np.ones(1, np.float32))], depth=5)


# ------------------------------------------------------------------------------------- how little is read of the disk


def advice(path: Path) -> list[str]:
    """The flags that the system keeps of each mapping of a file: "rr" is random reading. Linux only."""
    flags, mine = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.split(maxsplit=1)[0].endswith(":"):
            if mine and line.startswith("VmFlags:"):
                flags.append(line)
        else:
            mine = line.endswith(str(path))
    return flags


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux shows what was advised")
def test_the_system_is_told_not_to_read_around_the_pages_of_a_query(tmp_path: Path) -> None:
    written = noise(5 * BLOCK)
    (tmp_path / "file").write_bytes(written.tobytes())
    file, unsummed = mapped(tmp_path / "file", written), MappedFile(tmp_path / "file")
    assert not any(" rr" in flags for flags in advice(file.path))

    unsummed.advise_random_reads()  # nobody would fetch its blocks before they are read
    assert not any(" rr" in flags for flags in advice(file.path))

    file.advise_random_reads()
    assert any(" rr" in flags for flags in advice(file.path))


@given(seed=st.integers(0, 99), size=SIZES)
def test_what_is_read_here_and_there_is_held_to_its_sums_all_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int
) -> None:
    path, written = tmp_path_factory.mktemp("mapped") / "file", noise(size, seed)
    damaged = written.copy()
    damaged[size // 2] ^= 1
    path.write_bytes(damaged.tobytes())
    file = mapped(path, written)
    file.advise_random_reads()
    file.fetch()
    rows = np.unique(np.random.default_rng(seed).integers(0, size, 5))
    sound = rows[rows // BLOCK != size // 2 // BLOCK]

    assert file.rows(0, 1, sound)[:, 0].tolist() == written[sound].tolist()
    with pytest.raises(IndexCorrupt):
        file.rows(0, 1, np.append(sound, size // 2))
