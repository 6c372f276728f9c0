"""A file says what it is: format, modality, dimensionality and anatomy, by its header."""

import gzip
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nibabel
import nrrd
import pytest
from retrieval.queries.images import SYNTAXES, grey, write_dicom, write_nifti, write_tiff
from samples import ROOT

from retrieve_cli.retrieval.queries.formats.read import FileTokens, read_file


def tokens(path: Path) -> list[str]:
    """What the file says, where nothing is wrong with it."""
    found = read_file(path)
    assert found.warnings == ()
    return [token.removeprefix("format:") for token in found.tokens]


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.name)
def test_a_dicom_file_says_modality_frames_and_body_part(tmp_path: Path, syntax) -> None:
    path = write_dicom(tmp_path / "IM0001", "MR", syntax=syntax, BodyPartExamined="HEAD_NECK")
    assert tokens(path) == ["DICOM", "MRI", "3D", "anatomy:HEADNECK"]


def test_frames_are_a_volume_unless_they_are_moments_or_tiles(tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    assert tokens(write_dicom(path, frames=5))[-1] == "3D"
    assert tokens(write_dicom(path, frames=6, NumberOfTemporalPositions=3))[-1] == "4D"
    assert tokens(write_dicom(path, "US", frames=5, FrameTime=40, FrameIncrementPointer=0x00181063))[-1] == "2D"
    assert tokens(write_dicom(path, "SM", frames=5)) == ["DICOM", "histopathology", "2D"]
    assert tokens(write_dicom(path, "RTSTRUCT", Rows=None)) == ["DICOM", "RTSTRUCT"]


@pytest.mark.parametrize(("modality", "said"), [("CT", "CT"), ("MR", "MRI"), ("PT", "PET")])
def test_a_lone_slice_says_what_its_series_is_likely_to_be_and_a_remark_says_both(
    tmp_path: Path, modality, said
) -> None:
    path = write_dicom(tmp_path / "scan.dcm", modality, ImageType=["ORIGINAL", "PRIMARY", "AXIAL"])
    assert tokens(path) == ["DICOM", said, "3D"]
    (remark,) = read_file(path).remarks
    assert remark.startswith(f"{path} is one slice (2D) of a {said} series")
    assert remark.endswith("searching for 3D")
    assert tokens(write_dicom(path, modality, NumberOfTemporalPositions=5)) == ["DICOM", said, "4D"]


@pytest.mark.parametrize(
    "elements",
    [
        {"ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER"]},
        {"ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER", "CT_SOM5 TOP"]},
        {"ImageType": ["DERIVED", "SECONDARY", "SCOUT"]},
        {"ImageType": ["DERIVED", "SECONDARY", "PROJECTION IMAGE", "MIP"]},
        {"ImageType": ["DERIVED", "SECONDARY", "SCREEN SAVE"]},
        {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.7"},
        {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.7.4"},
    ],
    ids=str,
)
def test_a_picture_that_its_header_calls_a_projection_is_no_slice(tmp_path: Path, elements: dict[str, Any]) -> None:
    path = write_dicom(tmp_path / "scan.dcm", **elements)
    assert tokens(path) == ["DICOM", "CT", "2D"]
    assert read_file(path).remarks == ()
    write_dicom(tmp_path / "another.dcm", **elements)
    assert tokens(tmp_path) == ["DICOM", "CT", "2D"]  # nor are two of them a volume


def test_a_dicom_data_set_without_its_preamble_is_read_by_its_name(tmp_path: Path) -> None:
    path = write_dicom(tmp_path / "a.dcm")
    content = path.read_bytes()
    length = struct.unpack_from("<I", content, 140)[0]
    path.write_bytes(content[144 + length :])
    assert tokens(path) == ["DICOM", "CT", "3D"]


@pytest.mark.parametrize(
    ("shape", "said"),
    [((4, 4), "2D"), ((4, 4, 1), "2D"), ((4, 4, 4), "3D"), ((4, 4, 4, 5), "4D"), ((4, 4, 4, 1, 3), "3D")],
)
@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_nifti_says_how_many_dimensions(tmp_path: Path, shape: tuple[int, ...], said: str, ending: str) -> None:
    assert tokens(write_nifti(tmp_path / f"a{ending}", *shape)) == ["NIfTI", said]
    assert tokens(write_nifti(tmp_path / f"b{ending}", *shape, kind=nibabel.Nifti2Image)) == ["NIfTI", said]


def test_axes_of_cifti_are_no_places(tmp_path: Path) -> None:
    path = write_nifti(tmp_path / "a.dscalar.nii", 1, 1, 1, 1, 2, 9, kind=nibabel.Nifti2Image)
    content = bytearray(path.read_bytes())
    struct.pack_into("<i", content, 504, 3006)
    path.write_bytes(content)
    assert tokens(path) == ["CIFTI"]


def test_pages_of_a_tiff_are_planes(tmp_path: Path) -> None:
    assert tokens(write_tiff(tmp_path / "a.tif", 8, 8)) == ["TIFF", "2D"]
    assert tokens(write_tiff(tmp_path / "b.tif", 8, 8, 3, photometric="rgb")) == ["TIFF", "2D"]
    assert tokens(write_tiff(tmp_path / "c.tif", 3, 8, 8)) == ["TIFF", "3D"]
    assert tokens(write_tiff(tmp_path / "d.tif", 2, 3, 8, 8)) == ["TIFF", "4D"]
    assert tokens(write_tiff(tmp_path / "e.tif", 3, 8, 8, metadata=None)) == ["TIFF", "3D"]
    assert tokens(write_tiff(tmp_path / "f.btf", 3, 8, 8, bigtiff=True, byteorder=">")) == ["TIFF", "3D"]


def test_imagej_says_which_pages_are_moments(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    assert tokens(write_tiff(path, 3, 8, 8, imagej=True, metadata={"axes": "TYX"})) == ["TIFF", "2D"]
    assert tokens(write_tiff(path, 3, 8, 8, imagej=True, metadata={"axes": "ZYX"})) == ["TIFF", "3D"]
    assert tokens(write_tiff(path, 2, 3, 8, 8, imagej=True, metadata={"axes": "TZYX"})) == ["TIFF", "4D"]


def test_ome_tiff_says_planes_moments_and_contrast(tmp_path: Path) -> None:
    channel = {"ContrastMethod": ["Fluorescence"]}
    path = write_tiff(tmp_path / "a.ome.tif", 2, 3, 8, 8, metadata={"axes": "TZYX", "Channel": channel})
    assert tokens(path) == ["OME-TIFF", "fluorescence-microscopy", "4D"]
    assert tokens(path.rename(tmp_path / "a.tif")) == ["OME-TIFF", "fluorescence-microscopy", "4D"]
    assert tokens(write_tiff(tmp_path / "b.ome.tiff", 3, 8, 8, metadata={"axes": "CYX"})) == ["OME-TIFF", "2D"]


def test_smaller_copies_of_a_page_are_no_planes(tmp_path: Path) -> None:
    import tifffile

    with tifffile.TiffWriter(tmp_path / "pyramid.tif") as file:
        file.write(grey(64, 64), metadata=None)
        file.write(grey(32, 32), metadata=None, subfiletype=1)
    assert tokens(tmp_path / "pyramid.tif") == ["TIFF", "2D"]
    slide = write_tiff(tmp_path / "a.svs", 2, 32, 32, description="Aperio Image Library v1", metadata=None)
    assert tokens(slide) == ["SVS", "2D"]


def test_nrrd_says_which_axes_are_places(tmp_path: Path) -> None:
    path = str(tmp_path / "a.nrrd")
    nrrd.write(path, grey(4, 4, 4))
    assert tokens(Path(path)) == ["NRRD", "3D"]
    nrrd.write(path, grey(3, 4, 4), {"kinds": ["RGB-color", "domain", "domain"]})
    assert tokens(Path(path)) == ["NRRD", "2D"]
    nrrd.write(path, grey(6, 4, 4, 4), {"kinds": ["list", "domain", "domain", "domain"]})
    assert tokens(Path(path)) == ["NRRD", "4D"]
    nrrd.write(str(tmp_path / "b.nhdr"), grey(40, 40, 40))
    assert tokens(tmp_path / "b.nhdr") == ["NRRD", "3D"]


def test_metaimage_says_sizes_and_modality(tmp_path: Path) -> None:
    header = "ObjectType = Image\nNDims = 3\nDimSize = 4 4 2\nModality = MET_MOD_MR\nElementDataFile = {}\n"
    (tmp_path / "a.mha").write_bytes(header.format("LOCAL").encode() + bytes(32))
    (tmp_path / "b.mhd").write_text(header.format("b.raw"))
    assert tokens(tmp_path / "a.mha") == tokens(tmp_path / "b.mhd") == ["MHA", "MRI", "3D"]


def test_a_folder_of_slices_is_a_volume(tmp_path: Path) -> None:
    for number in range(12):
        write_dicom(tmp_path / f"{number}.dcm", BodyPartExamined="CHEST")
    (tmp_path / "LISTING.txt").write_text("twelve slices")
    (tmp_path / ".DS_Store").write_bytes(bytes(9))
    assert tokens(tmp_path) == ["DICOM", "CT", "3D", "anatomy:CHEST"]
    assert tokens(tmp_path.parent / tmp_path.name) == tokens(tmp_path)


def test_a_data_set_in_bids_is_one_thing(tmp_path: Path) -> None:
    (tmp_path / "dataset_description.json").write_text('{"BIDSVersion": "1.9.0"}')
    assert tokens(tmp_path) == ["BIDS"]


def test_zarr_says_its_shape(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    (folder / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [1, 7, 64, 64]}))
    assert tokens(folder) == ["Zarr", "3D"]
    (folder / ".zarray").unlink()
    (folder / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group"}))
    assert tokens(folder) == ["Zarr"]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_says_which_axes_are_planes_and_moments(tmp_path: Path, version: str) -> None:
    scales = [{"axes": [{"name": name} for name in "tczyx"], "datasets": [{"path": "0"}]}]
    array = {"shape": [4, 2, 9, 64, 64]}
    (tmp_path / "0").mkdir()
    if version == "0.4":
        (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
        (tmp_path / ".zattrs").write_text(json.dumps({"multiscales": scales}))
        (tmp_path / "0" / ".zarray").write_text(json.dumps(array))
    else:
        (tmp_path / "zarr.json").write_text(json.dumps({"attributes": {"ome": {"multiscales": scales}}}))
        (tmp_path / "0" / "zarr.json").write_text(json.dumps(array))
    assert tokens(tmp_path) == ["OME-Zarr", "4D"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"x,y\n1,2\n", "CSV"),
        ("A.CSV.GZ", gzip.compress(b"x,y\n1,2\n", mtime=0), "CSV"),
        ("a.json", b' {"a": 1}', "JSON"),
        ("a.h5", b"\x89HDF\r\n\x1a\n", "HDF5"),
        ("a.h5ad", b"\x89HDF\r\n\x1a\n", "H5AD"),
        ("a.mat", bytes(512) + b"\x89HDF\r\n\x1a\n", "MAT"),
        ("a.czi", b"ZISRAWFILE", "CZI"),
        ("a.nd2", b"\xda\xce\xbe\x0a", "ND2"),
        ("a.lif", b"\x70\0\0\0\x20\0\0\0\x2a", "LIF"),
        ("a.mrc", bytes(208) + b"MAP ", "MRC"),
        ("a.bam", gzip.compress(b"BAM\x01", mtime=0), "BAM"),
        ("a.vcf.gz", gzip.compress(b"##fileformat=VCFv4.2\n", mtime=0), "VCF"),
        ("a.fastq", b"@read\nACGT\n+\nFFFF\n", "FASTQ"),
        ("a.parquet", b"PAR1", "Parquet"),
        ("a.pdf", b"%PDF-1.7", "PDF"),
        ("a.mp4", b"\0\0\0\x18ftypisom", "MP4"),
        ("download", b"ZISRAWFILE", "CZI"),
        ("blob.gz", gzip.compress(b"whatever", mtime=0), "GZIP"),
    ],
)
def test_other_files_say_their_format(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert tokens(tmp_path / name) == [said]


def test_an_archive_says_what_it_is(tmp_path: Path) -> None:
    for name in ("a.zip", "a.npz", "a.zarr.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr("x", "y")
    assert [tokens(tmp_path / name) for name in ("a.zip", "a.npz", "a.zarr.zip")] == [["ZIP"], ["NumPy"], ["Zarr"]]


@pytest.mark.parametrize(("package", "name"), [("pydicom", "a.dcm"), ("nibabel", "a.nii.gz"), ("tifffile", "a.tif")])
def test_without_a_package_the_first_bytes_still_say_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    write = {"pydicom": write_dicom, "nibabel": write_nifti, "tifffile": write_tiff}[package]
    path = write(tmp_path / name, *(() if package == "pydicom" else (4, 4)))
    whole = read_file(path).tokens
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    assert read_file(path) == FileTokens(
        whole[:1], (f"{path} is recognized by its first bytes only: pip install 'retrieve-cli[imaging]'",)
    )


LIBRARIES = ("pydicom", "nibabel", "tifffile", "PIL", "nrrd", "numpy")


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("photo.jpg", {"PIL"}),
        ("noisy.tif", {"tifffile", "numpy"}),
        ("scan.czi", set()),
        ("embryo.ome.zarr", set()),
        ("ct_series", {"pydicom", "PIL"}),  # the one loads the other
    ],
)
def test_only_the_library_of_the_format_is_loaded(name: str, needs: set[str]) -> None:
    code = (
        "import sys; from pathlib import Path; from retrieve_cli.retrieval.queries.formats.read import read_file;"
        f"assert not sys.modules.keys() & {set(LIBRARIES)}; assert read_file(Path(sys.argv[1])).tokens;"
        f"print(*(name for name in {LIBRARIES} if name in sys.modules))"
    )
    path = ROOT / "catalogs" / "files" / name
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stderr == ""
    assert set(done.stdout.split()) - {"numpy"} == needs - {"numpy"}
