"""The sample files of the catalogs folder are what their recipe makes, and what their table says."""

import runpy
from pathlib import Path

import pytest
from samples import ROOT

from retrieve_cli.retrieval.queries.formats.read import read_file

FILES = ROOT / "catalogs" / "files"
SAID = {
    "cells.h5ad": "H5AD",
    "clip.dcm": "DICOM US 2D anatomy:HEART",
    "ct_chest.dcm": "DICOM CT 3D anatomy:CHEST",
    "ct_series": "DICOM CT 3D anatomy:ABDOMEN",
    "embryo.ome.zarr": "OME-Zarr 4D",
    "eye.dcm": "DICOM fundus-photography 2D anatomy:RETINA",
    "map.mrc": "MRC",
    "movie.tif": "TIFF 4D",
    "noisy.tif": "TIFF 2D",
    "photo.jpg": "JPEG 2D",
    "radiograph.dcm": "DICOM X-ray 2D anatomy:CHEST",
    "run.nii.gz": "NIfTI 4D",
    "scan.czi": "CZI",
    "slide.svs": "SVS 2D",
    "stack.ome.tif": "OME-TIFF fluorescence-microscopy 3D",
    "volume.nii.gz": "NIfTI 3D",
    "volume.nrrd": "NRRD 3D",
}


def said(folder: Path) -> dict[str, str]:
    found = {path.name: read_file(path) for path in folder.iterdir() if path.suffix not in (".py", ".md")}
    assert [file.warnings for file in found.values() if file.warnings] == []
    return {name: " ".join(token.removeprefix("format:") for token in file.tokens) for name, file in found.items()}


@pytest.mark.parametrize("made_again", [False, True])
def test_each_says_what_the_queries_rely_on(tmp_path: Path, made_again: bool) -> None:
    if made_again:
        runpy.run_path(str(FILES / "make.py"))["make"](tmp_path)
    assert said(tmp_path if made_again else FILES) == SAID
