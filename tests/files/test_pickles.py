"""Pickle files: mapped and exact for those who wrote them, harmless whoever wrote them."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later

SAMPLE = {
    "unit": "record",
    "length": 3,
    "card": {"stemming": "english", "stop_words": "none", "k1": 1.2},
    "rows": np.arange(7, dtype=np.int32),
    "starts": np.arange(5, dtype=np.int64),
    "impacts": np.linspace(0, 1, 9, dtype=np.float32),
    "terms": np.frombuffer(b"lungleber", np.uint8),
    "empty": np.empty(0, np.float64),
    "names": ["a", "ä", "\N{LUNGS}"],
}

arrays = hnp.arrays(
    st.sampled_from([np.uint8, np.int32, np.int64, np.float32, np.float64]), hnp.array_shapes(min_side=0, max_dims=2)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | arrays,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [found for part in parts for found in arrays_in(part)]
    return [value] if isinstance(value, np.ndarray) else []


def owner(array: Any) -> Any:
    """The object whose memory an array looks at."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def frame(stream: bytes) -> bytes:
    """A file of the right format around any pickle."""
    return stream + struct.pack("<Q8s", 0, b"RTRVPKL2")


# ---------------------------------------------------------------------------------------------- round trips


@shared_folder
@given(value=values)
def test_what_was_dumped_is_loaded(value: Any, tmp_path: Path) -> None:
    pickles.dump(value, tmp_path / "a.pkl")

    assert same(pickles.load(tmp_path / "a.pkl"), value)


def test_arrays_are_read_only_views_of_the_mapped_file(tmp_path: Path) -> None:
    pickles.dump(SAMPLE, tmp_path / "a.pkl")

    for array in arrays_in(pickles.load(tmp_path / "a.pkl")):
        assert not array.flags.writeable
        assert array.size == 0 or isinstance(owner(array), mmap.mmap)


def test_a_loaded_array_starts_at_a_multiple_of_64_bytes(tmp_path: Path) -> None:
    pickles.dump(SAMPLE, tmp_path / "a.pkl")

    assert all(array.ctypes.data % 64 == 0 for array in arrays_in(pickles.load(tmp_path / "a.pkl")) if array.size)


# ------------------------------------------------------------------------------------------------- hostility


class Calls:
    """Unpickles to the outcome of a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call


def evil(path: Path) -> dict[str, bytes]:
    """Pickles that would each leave a file at `path` if they were run, or name what may not be named."""
    touch = f"open({str(path)!r}, 'w').close()"

    class Persistent(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return "os.system" if obj == "secret" else None

    persistent = io.BytesIO()
    Persistent(persistent, protocol=5).dump(["secret"])
    dumped = {
        "os.system": Calls(os.system, f"touch {path}"),
        "eval": Calls(eval, touch),
        "exec": Calls(exec, touch),
        "getattr": Calls(getattr, np.ndarray, "tofile"),
        "nested": {"rows": [1, {"deep": (Calls(dict, [("k", Calls(os.system, f"touch {path}"))]),)}]},
        "open": Calls(open, str(path), "w"),
    }
    return {
        **{name: pickle.dumps(value, protocol=5) for name, value in dumped.items()},
        "persistent id": persistent.getvalue(),
        "a module of numpy": b"cnumpy\nf2py\n.",
        "a loader of numpy": b"cnumpy\nload\n(X\x01\x00\x00\x00atR.",
        "a runner of numpy": b"cnumpy.testing._private.utils\nrunstring\n(X\x04\x00\x00\x00passI0\ntR.",
        "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x14ndarray.__reduce__.x\x93.",
        "another protocol": b"cposix\nsystem\n(S'touch " + str(path).encode() + b"'\ntR.",
        "an instance": b"(ios\nsystem\n.",
        "the extension registry": b"\x82\x01.",
    }


@pytest.mark.parametrize("name", evil(Path("x")))
def test_a_hostile_pickle_is_refused_without_being_run(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(frame(evil(tmp_path / "ran")[name]))

    with pytest.raises(IndexCorrupt, match=r"was rejected"):
        pickles.load(tmp_path / "a.pkl")

    assert not (tmp_path / "ran").exists()


def test_an_array_of_objects_over_raw_memory_is_refused(tmp_path: Path) -> None:
    from numpy._core.numeric import _frombuffer

    forged = Calls(_frombuffer, b"\x41" * 64, np.dtype(object), (8,), "C")
    (tmp_path / "a.pkl").write_bytes(frame(pickle.dumps(forged, protocol=5)))

    with pytest.raises(IndexCorrupt):
        pickles.load(tmp_path / "a.pkl")


def test_the_refusal_names_the_file_what_was_wrong_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bm25.pkl").write_bytes(frame(pickle.dumps(os.system)))

    with pytest.raises(IndexCorrupt, match=r"bm25\.pkl was rejected: .*only plain values") as refusal:
        pickles.load(tmp_path / "bm25.pkl")

    assert "retrieve inspect verify" in refusal.value.hint


# ---------------------------------------------------------------------------------------------------- damage


def test_an_absent_file_or_a_folder_in_its_place_is_a_damaged_index(tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt, match="cannot read"):
        pickles.load(tmp_path / "a.pkl")
    with pytest.raises(IndexCorrupt):
        pickles.load(tmp_path)


def test_a_file_cut_short_anywhere_is_a_damaged_index(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    pickles.dump(SAMPLE, path)
    whole = path.read_bytes()

    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(IndexCorrupt):
            pickles.load(path)


@shared_folder
@given(content=st.binary(max_size=300), framed=st.booleans())
def test_any_bytes_at_all_load_or_are_refused(content: bytes, framed: bool, tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(frame(content) if framed else content)

    with suppress(IndexCorrupt):
        pickles.load(tmp_path / "a.pkl")


# Runs in a process of its own, with little memory: what is tested is that the process survives.
FLIPS = """
import resource, sys
from pathlib import Path
import numpy as np
from retrieve_cli.storage import pickles
from retrieve_cli.errors import IndexCorrupt

resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
path, whole = Path(sys.argv[1]), Path(sys.argv[1]).read_bytes()
refused = 0
for place in range(len(whole)):
    for bit in range(8):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        path.write_bytes(bytes(damaged))
        print(place, bit, file=sys.stderr, flush=True)
        try:
            repr(pickles.load(path))
        except IndexCorrupt:
            refused += 1
print(refused)
"""


def test_no_single_flipped_bit_raises_anything_else_or_ends_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    pickles.dump({"rows": np.arange(3, dtype=np.int64), "unit": "chunk", "none": [None, 1.5]}, path)

    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", FLIPS, str(path)], capture_output=True, text=True)

    assert ran.returncode == 0, f"byte and bit, then what happened: {ran.stderr[-200:]}"
    assert int(ran.stdout) > 100


# ------------------------------------------------------------------------------------- written block by block


def test_arrays_that_come_block_by_block_give_the_bytes_of_whole_ones(tmp_path: Path) -> None:
    ids, codes = np.arange(7, dtype=np.int32), np.arange(14, dtype=np.uint8).reshape(7, 2)
    empty = np.empty(0, np.float32)
    pickles.dump({"n": 7, "ids": ids, "x": empty, "codes": codes, "end": ids[:1]}, tmp_path / "whole.pkl")
    later = {"ids": Later("<i4", (7,)), "x": Later("<f4", (0,)), "codes": Later("|u1", (7, 2))}
    blocks = [
        (later["codes"], codes[:3]),
        (later["ids"], ids[:6]),
        (later["codes"], codes[3:]),
        (later["ids"], ids[6:]),
    ]
    value = {"n": 7, **later, "end": ids[:1]}
    pickles.dump(value, tmp_path / "parts.pkl", blocks)
    assert (tmp_path / "parts.pkl").read_bytes() == (tmp_path / "whole.pkl").read_bytes()
    filled = pickles.in_memory(value, blocks)
    np.testing.assert_array_equal(filled["codes"], codes)
    np.testing.assert_array_equal(filled["x"], empty)


@pytest.mark.parametrize("size", [6, 8])
def test_an_array_that_is_not_filled_or_overflows_is_an_error(tmp_path: Path, size: int) -> None:
    ids = Later("<i4", (7,))
    with pytest.raises(ValueError, match=r"not filled|does not have the place"):
        pickles.dump({"ids": ids}, tmp_path / "a.pkl", [(ids, np.zeros(size, np.int32))])
    with pytest.raises(ValueError, match="does not have the place"):
        pickles.dump({"ids": ids}, tmp_path / "a.pkl", [(Later("<i4", (7,)), np.zeros(7, np.int32))])
