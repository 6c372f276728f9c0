"""Files of an index, mapped into memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieve_cli.storage.mapped import MappedFile


def test_an_empty_file_is_read_in_any_way(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    file = MappedFile(tmp_path / "a")
    file.advise_random_reads()
    file.release()
    assert (len(file), file.data.size) == (0, 0)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_not_a_regular_file_is_not_mapped(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a")
    with pytest.raises(OSError, match="not a regular file"):
        MappedFile(tmp_path / "a")


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
def test_the_system_is_told_not_to_read_around_the_rows_of_a_query(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"row\n" * 1000)
    file = MappedFile(tmp_path / "file")
    assert not any(" rr" in flags for flags in advice(file.path))

    file.advise_random_reads()
    assert any(" rr" in flags for flags in advice(file.path))
