"""However large a file is, a little of it is read; however private it is, nothing of the person is told."""

import gzip
import logging
import struct
from pathlib import Path

import nibabel
import nrrd
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image
from profiles import examples
from retrieval.queries.images import (
    PERSON,
    SYNTAXES,
    bytes_read,
    changed,
    cut,
    grey,
    write_dicom,
    write_nifti,
    write_tiff,
)

from retrieve_cli.retrieval.queries.formats.content import HEAD, LIMIT
from retrieve_cli.retrieval.queries.formats.read import read_file
from retrieve_cli.retrieval.queries.formats.table import FOLDERS, FORMATS


def test_pixels_are_never_read(tmp_path: Path) -> None:
    large = [
        write_dicom(tmp_path / "a.dcm", frames=20, side=1024),
        write_nifti(tmp_path / "a.nii", 256, 256, 128),
        write_nifti(tmp_path / "a.nii.gz", 256, 256, 128),
        write_tiff(tmp_path / "a.tif", 20, 1024, 1024),
        write_tiff(tmp_path / "a.ome.tif", 20, 1024, 1024),
    ]
    nrrd.write(str(tmp_path / "a.nrrd"), grey(256, 256, 128), {"encoding": "raw"})
    nibabel.save(nibabel.MGHImage(grey(256, 256, 128), None), tmp_path / "a.mgz")
    Image.effect_noise((2048, 2048), 90).save(tmp_path / "a.png")
    Image.effect_noise((2048, 2048), 90).save(tmp_path / "a.jpg", quality=95)
    large += [tmp_path / name for name in ("a.nrrd", "a.mgz", "a.png", "a.jpg")]
    for path in large:
        assert bytes_read(lambda path=path: read_file(path)) < 100_000
        assert read_file(path).warnings == ()


def test_a_header_without_end_is_given_up(tmp_path: Path) -> None:
    path = write_dicom(tmp_path / "a.dcm", Modality=None)
    content = path.read_bytes()
    at = content.index(b"\x10\x00\x10\x00")  # the patient's name comes first
    endless = b"\x09\x00\x10\x10UN\0\0\xff\xff\xff\xff" + bytes(4 * LIMIT)
    path.write_bytes(content[:at] + endless)
    assert bytes_read(lambda: read_file(path)) <= LIMIT + HEAD
    assert read_file(path).tokens == ("format:DICOM",)


def test_a_series_of_a_thousand_slices_is_read_in_a_few(tmp_path: Path) -> None:
    whole = write_dicom(tmp_path / "0000.dcm", side=256).read_bytes()
    for number in range(1, 1000):
        (tmp_path / f"{number:04}.dcm").write_bytes(whole)
    assert bytes_read(lambda: read_file(tmp_path)) < 10 * 2 * HEAD
    assert read_file(tmp_path).tokens == ("format:DICOM", "format:CT", "format:3D")


def test_what_was_compressed_a_thousandfold_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "a.nii.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(write_nifti(tmp_path / "a.nii", 8, 8, 8).read_bytes())
        file.write(bytes(200_000_000))
    assert bytes_read(lambda: read_file(path)) < 100_000
    assert read_file(path).tokens == ("format:NIfTI", "format:3D")


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.name)
def test_nothing_of_the_person_is_told(tmp_path: Path, syntax) -> None:
    whole = write_dicom(tmp_path / "whole", syntax=syntax).read_bytes()
    for size in range(130, len(whole), 9):
        (tmp_path / "a.dcm").write_bytes(whole[:size])
        found = read_file(tmp_path / "a.dcm")
        told = " ".join((*found.tokens, *found.warnings))
        assert [value for value in PERSON.values() if value in told] == []


def test_a_name_in_the_place_of_a_code_is_not_told(tmp_path: Path) -> None:
    path = write_dicom(tmp_path / "a.dcm", "QUIXOTE", BodyPartExamined="ALONSO", SeriesInstanceUID="1605")
    told = str(read_file(path))
    assert [value for value in ("QUIXOTE", "ALONSO", "1605") if value in told] == []


def test_notes_in_other_headers_are_not_told(tmp_path: Path) -> None:
    note = "Alonso Quixote 1547"
    image = nibabel.Nifti1Image(grey(4, 4, 4), None)
    image.header["descrip"] = note
    nibabel.save(image, tmp_path / "a.nii")
    nrrd.write(str(tmp_path / "a.nrrd"), grey(4, 4, 4), {"content": note})
    tifffile.imwrite(tmp_path / "a.tif", grey(4, 4), description=note, metadata=None)
    (tmp_path / "a.edf").write_bytes(b"0       " + note.encode())
    for name in ("a.nii", "a.nrrd", "a.tif", "a.edf"):
        for size in (4096, 1000, 380, 200, 60):
            assert note not in str(read_file(cut(tmp_path / name, size)))


def test_what_libraries_say_is_kept_from_the_terminal_and_told_as_one_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_tiff(tmp_path / "a.tif", 3, 8, 8, metadata=None)
    end = struct.unpack_from("<I", path.read_bytes(), 4)[0]
    count = struct.unpack_from("<H", path.read_bytes(), end)[0]
    changed(path, end + 2 + 12 * count, b"\xff\xff\xff\x7f")  # the second page is nowhere
    found = read_file(path)
    assert found.tokens == ("format:TIFF", "format:2D")
    assert found.warnings == (f"{path} has a header with minor errors",)
    assert capfd.readouterr() == ("", "")
    logger = logging.getLogger("tifffile")
    assert logger.filters == []


ENDINGS = sorted({ending for each in FORMATS for ending in each.extensions} | set(FOLDERS) | {".gz", ".nii.gz", ""})
BEGINNINGS = [b"", b"\x1f\x8b\x08\0\0\0\0\0\0\xff"] + [
    max(magic)[1].rjust(max(magic)[0] + len(max(magic)[1]), b"\0") for each in FORMATS for magic in each.magics
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(10))
@given(ending=st.sampled_from(ENDINGS), beginning=st.sampled_from(BEGINNINGS), rest=st.binary(max_size=600))
def test_no_bytes_under_any_name_are_an_error(tmp_path: Path, ending: str, beginning: bytes, rest: bytes) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(beginning + rest)
    found = read_file(path)
    assert found.tokens or found.warnings
    assert len(set(found.tokens)) == len(found.tokens)


@pytest.fixture(scope="module", name="sound")
def _sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files that are sound, by their ending."""
    folder = tmp_path_factory.mktemp("sound")
    paths = [write_dicom(folder / f"{at}.dcm", syntax=syntax) for at, syntax in enumerate(SYNTAXES)]
    paths += [write_nifti(folder / "a.nii", 4, 4, 4), write_nifti(folder / "a.nii.gz", 4, 4, 4)]
    paths += [write_tiff(folder / "a.ome.tif", 2, 3, 8, 8), write_tiff(folder / "a.tif", 3, 8, 8, imagej=True)]
    for name in ("a.png", "a.jpg", "a.gif", "a.bmp"):
        Image.fromarray(grey(8, 8)).save(folder / name)
        paths.append(folder / name)
    nrrd.write(str(folder / "a.nrrd"), grey(4, 4, 4))
    return {path.name: path.read_bytes() for path in (*paths, folder / "a.nrrd")}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(10))
@given(data=st.data())
def test_no_damage_to_a_sound_file_is_an_error(tmp_path: Path, sound: dict[str, bytes], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(sound)))
    content = bytearray(sound[name])
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=8)
    ):
        content[place] = value
    path = tmp_path / name
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    found = read_file(path)
    assert found.tokens or found.warnings
    assert all(warning.startswith(str(path)) for warning in found.warnings)
