"""Makes the sample files of this folder: headers as real ones have them, over noise instead of images.

    python catalogs/files/make.py [FOLDER]

Needs the extra `imaging`. Nothing here comes from a person or an instrument.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nibabel
import nrrd
import numpy as np
import tifffile
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.tag import Tag
from pydicom.uid import ExplicitVRLittleEndian

NOISE = np.random.default_rng(7)
CLASSES = {
    "CT": "1.2.840.10008.5.1.4.1.1.2",
    "DX": "1.2.840.10008.5.1.4.1.1.1.1",
    "US": "1.2.840.10008.5.1.4.1.1.3.1",
    "OP": "1.2.840.10008.5.1.4.1.1.77.1.5.1",
}


def noise(*shape: int) -> np.ndarray:
    return NOISE.integers(0, 255, shape, dtype=np.uint8)


def dicom(path: Path, modality: str, part: str, *, frames: int = 1, number: int = 1) -> None:
    """A DICOM file without a patient; several frames are a moving picture."""
    image = Dataset()
    image.SOPClassUID, image.SOPInstanceUID = CLASSES[modality], f"2.25.1{number}"
    image.StudyInstanceUID, image.SeriesInstanceUID = "2.25.2", "2.25.3"
    image.Modality, image.BodyPartExamined, image.InstanceNumber = modality, part, number
    image.Rows = image.Columns = 16
    image.SamplesPerPixel, image.PhotometricInterpretation, image.PixelRepresentation = 1, "MONOCHROME2", 0
    image.BitsAllocated, image.BitsStored, image.HighBit = 8, 8, 7
    if frames > 1:
        image.NumberOfFrames, image.FrameTime, image.FrameIncrementPointer = frames, 40.0, Tag("FrameTime")
    image.PixelData = noise(frames, 16, 16).tobytes()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.file_meta.MediaStorageSOPClassUID = image.SOPClassUID
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
    image.save_as(path, enforce_file_format=True)


def radiology(folder: Path) -> None:
    dicom(folder / "ct_chest.dcm", "CT", "CHEST")
    dicom(folder / "radiograph.dcm", "DX", "CHEST")
    dicom(folder / "clip.dcm", "US", "HEART", frames=6)
    dicom(folder / "eye.dcm", "OP", "RETINA")
    (folder / "ct_series").mkdir(exist_ok=True)
    for number in range(1, 5):
        dicom(folder / "ct_series" / f"{number:03}.dcm", "CT", "ABDOMEN", number=number)
    nibabel.save(nibabel.Nifti1Image(noise(8, 8, 8), np.eye(4)), folder / "volume.nii.gz")
    nibabel.save(nibabel.Nifti1Image(noise(6, 6, 4, 5), np.eye(4)), folder / "run.nii.gz")
    nrrd.write(str(folder / "volume.nrrd"), noise(8, 8, 8), {"kinds": ["domain"] * 3}, detached_header=False)


def microscopy(folder: Path) -> None:
    channel = {"Name": ["nuclei"], "ContrastMethod": ["Fluorescence"]}
    tifffile.imwrite(
        folder / "stack.ome.tif", noise(4, 16, 16), metadata={"axes": "ZYX", "UUID": "urn:uuid:0", "Channel": channel}
    )
    tifffile.imwrite(folder / "noisy.tif", noise(16, 16))
    tifffile.imwrite(folder / "movie.tif", noise(3, 4, 16, 16), imagej=True, metadata={"axes": "TZYX"})
    slide = "Aperio Image Library v1\r\n64x64 (64x64) JPEG|AppMag = 20|MPP = 0.5"
    options = {"tile": (16, 16), "photometric": "rgb", "description": slide, "metadata": None}
    tifffile.imwrite(folder / "slide.svs", noise(64, 64, 3), **options)
    (folder / "scan.czi").write_bytes(b"ZISRAWFILE".ljust(512, b"\0"))
    (folder / "map.mrc").write_bytes(
        np.array([8, 8, 8, 0], "<i4").tobytes().ljust(208, b"\0") + b"MAP ".ljust(816, b"\0")
    )
    (folder / "cells.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n".ljust(512, b"\0"))
    Image.fromarray(noise(16, 16, 3)).save(folder / "photo.jpg")
    zarr(folder / "embryo.ome.zarr")


def zarr(folder: Path) -> None:
    (folder / "0").mkdir(parents=True, exist_ok=True)
    array = {"zarr_format": 2, "shape": [5, 1, 64, 256, 256], "chunks": [1, 1, 16, 64, 64], "dtype": "|u1"}
    array |= {"compressor": None, "fill_value": 0, "order": "C", "filters": None}
    scale = {"version": "0.4", "datasets": [{"path": "0"}], "axes": [{"name": name} for name in "tczyx"]}
    (folder / ".zgroup").write_text('{"zarr_format": 2}\n', "utf-8")
    (folder / ".zattrs").write_text(json.dumps({"multiscales": [scale]}) + "\n", "utf-8")
    (folder / "0" / ".zarray").write_text(json.dumps(array) + "\n", "utf-8")


def make(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    radiology(folder)
    microscopy(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent)
