"""A file that is not what it says is named in a warning, tells nothing wrong, and breaks nothing."""

import gzip
import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydicom import dcmread
from pydicom.dataelem import RawDataElement
from retrieval.queries.images import (
    SYNTAXES,
    bytes_read,
    changed,
    cut,
    grey,
    write_dicom,
    write_nifti,
    write_tiff,
    written,
)

from retrieve_cli.retrieval.queries.formats.content import LIMIT
from retrieve_cli.retrieval.queries.formats.read import FileTokens, read_file


def wrong(path: Path, *tokens: str) -> str:
    """What is said to be wrong with a file that has these tokens."""
    found = read_file(path)
    assert found.tokens == tuple(f"format:{token}" for token in tokens)
    assert found.warnings
    assert all(warning.startswith(f"{path} ") for warning in found.warnings)
    return "; ".join(warning.removeprefix(f"{path} ") for warning in found.warnings)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "\ud800"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    found = read_file(tmp_path / name)
    assert found.tokens == ()
    assert len(found.warnings) == 1
    found.warnings[0].encode()
    assert found.warnings[0].isprintable()


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.dcm")
    assert "a pipe" in wrong(tmp_path / "a.dcm")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    write_dicom(tmp_path / "a.dcm").chmod(0)
    assert "Permission denied" in wrong(tmp_path / "a.dcm")


@pytest.mark.parametrize(
    "name", ["a b.dcm", 'it\'s "x".dcm', "🫁 scan.dcm", "-rf.dcm", "line\nend.dcm", "a\x1b[31m.dcm"]
)
def test_any_name_is_read_and_shown_without_harm(tmp_path: Path, name: str) -> None:
    path = write_dicom(tmp_path / name)
    found = read_file(path)
    assert found == FileTokens(("format:DICOM", "format:CT", "format:3D"), (), found.remarks)
    for sentence in (*read_file(cut(path, 20)).warnings, *found.remarks):
        assert sentence.isprintable()
        assert name.isprintable() <= (name in sentence)


def test_a_zip_named_as_dicom_is_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.dcm", "w") as file:
        file.writestr("x", "y")
    assert wrong(tmp_path / "a.dcm", "ZIP") == "is named as DICOM but contains ZIP"


def test_where_name_and_bytes_disagree_the_bytes_are_believed(tmp_path: Path) -> None:
    write_nifti(tmp_path / "a.nii", 4, 4, 4).rename(tmp_path / "a.png")
    assert wrong(tmp_path / "a.png", "NIfTI", "3D") == "is named as PNG but contains NIfTI"
    write_tiff(tmp_path / "a.svs", 8, 8)
    assert wrong(tmp_path / "a.svs", "TIFF", "2D") == "is named as SVS but contains TIFF"
    write_nifti(tmp_path / "b.nii", 4, 4, 4).rename(tmp_path / "b.nii.gz")
    assert wrong(tmp_path / "b.nii.gz", "NIfTI", "3D") == "is named as compressed but is not"


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.name)
def test_a_dicom_file_tells_nothing_wrong_wherever_it_is_cut(tmp_path: Path, syntax) -> None:
    whole = write_dicom(tmp_path / "whole", "MR", syntax=syntax, BodyPartExamined="CHEST").read_bytes()
    path = tmp_path / "a.dcm"
    said = set()
    for size in range(1, len(whole), 5):
        path.write_bytes(whole[:size])
        said.add(read_file(path).tokens)
    every = ("format:DICOM", "format:MRI", "format:3D", "anatomy:CHEST")
    assert said >= {(), every[:1], every}
    assert all(set(tokens) <= set(every) for tokens in said)


def test_a_dicom_file_that_is_cut_short_says_so(tmp_path: Path) -> None:
    whole = write_dicom(tmp_path / "whole").read_bytes()
    elements = [*dcmread(tmp_path / "whole").elements(), *dcmread(tmp_path / "whole").file_meta.elements()]
    raw = [element for element in elements if isinstance(element, RawDataElement)]
    ends = {place for each in raw for place in (each.value_tell - 8, each.value_tell + each.length)}
    path = tmp_path / "a.dcm"
    silent = {size for size in range(1, len(whole), 3) if not read_file(cut(written(path, whole), size)).warnings}
    assert silent <= ends  # between two elements, nothing tells that there was more
    assert wrong(cut(written(path, whole), len(whole) - 9), "DICOM", "CT", "3D").startswith("is truncated")


def test_a_folder_in_which_some_files_are_broken_says_how_many(tmp_path: Path) -> None:
    for number in range(4):
        write_dicom(tmp_path / f"{number}.dcm")
    cut(tmp_path / "3.dcm", 50)
    assert "1 of the 4 files" in wrong(tmp_path, "DICOM", "CT", "3D")


def test_a_folder_that_is_nothing(tmp_path: Path) -> None:
    assert wrong(tmp_path) == "is a folder without files"
    (tmp_path / "notes").write_bytes(b"\0")
    assert wrong(tmp_path) == "is a folder without files of a known format"
    write_tiff(tmp_path / "a.tif", 4, 4)
    (tmp_path / "a.csv").write_text("a,b")
    assert wrong(tmp_path) == "is a folder of several formats (CSV, TIFF)"
    (tmp_path / "a.zarr").mkdir()
    assert wrong(tmp_path / "a.zarr") == "is named as Zarr but is not"


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [(40, "<h", 99), (40, "<h", -1), (42, "<h", -5), (42, "<h", 30000), (108, "<f", float("nan")), (108, "<f", 1e30)],
)
def test_a_nifti_header_that_lies_says_no_dimensions(tmp_path: Path, offset: int, form: str, value: float) -> None:
    path = changed(write_nifti(tmp_path / "a.nii", 4, 4, 4), offset, struct.pack(form, value))
    wrong(path, "NIfTI")


def test_a_compressed_file_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    write_nifti(tmp_path / "a.nii", 4, 4, 4)
    noise = np.random.default_rng(1).bytes(5000)
    packed = gzip.compress((tmp_path / "a.nii").read_bytes() + noise)
    (tmp_path / "b.nii.gz").write_bytes(packed[:2000])
    assert read_file(tmp_path / "b.nii.gz").tokens == ("format:NIfTI", "format:3D")


@pytest.mark.parametrize(
    ("head", "tail"), [(b"", b""), (b"II*\0\x08\0\0\0", b""), (b"II*\0\xf8\xff\xff\x7f", b"\xff" * 8)]
)
def test_a_sparse_tiff_of_two_gigabytes_is_only_looked_at(tmp_path: Path, head: bytes, tail: bytes) -> None:
    path = tmp_path / "a.tif"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(2**31 - len(tail))
        file.seek(0, 2)
        file.write(tail)
    read = bytes_read(lambda: wrong(path))
    assert read <= LIMIT


def test_a_png_that_claims_a_billion_pixels_is_not_followed(tmp_path: Path) -> None:
    Image.fromarray(grey(8, 8)).save(tmp_path / "a.png")
    header = b"IHDR" + struct.pack(">IIBBBBB", 2**20, 2**20, 8, 0, 0, 0, 0)
    path = changed(tmp_path / "a.png", 12, header + struct.pack(">I", zlib.crc32(header)))
    assert "claims more pixels" in wrong(path, "PNG")


@pytest.mark.parametrize(
    ("lines", "tokens"),
    [
        ("NDims = 3\nDimSize = 4 4\nElementDataFile = LOCAL\n", ("MHA",)),
        ("NDims = 3\nDimSize = 4 4 0\nElementDataFile = LOCAL\n", ("MHA",)),
        ("NDims = 3\nDimSize = 4 4 99999\nElementDataFile = LOCAL\n", ("MHA",)),
        (f"NDims = {'9' * 5000}\nDimSize = 4\nElementDataFile = LOCAL\n", ("MHA",)),
        (f"NDims = 1\nDimSize = {'9' * 5000}\nElementDataFile = x.raw\n", ("MHA", "2D")),
        ("NDims = 3\n", ()),
        ("NDims = ²\nDimSize = 4\nElementDataFile = LOCAL\n", ()),
    ],
)
def test_a_metaimage_header_that_lies_says_no_dimensions(tmp_path: Path, lines: str, tokens: tuple[str, ...]) -> None:
    (tmp_path / "a.mha").write_text(lines, "utf-8")
    if tokens[1:]:
        assert read_file(tmp_path / "a.mha").tokens == ("format:MHA", "format:2D")
    else:
        wrong(tmp_path / "a.mha", *tokens)
