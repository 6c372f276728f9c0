"""Tiny images of every kind, written by the libraries that people write them with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import tifffile
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
)

SYNTAXES = (
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    ExplicitVRBigEndian,
    DeflatedExplicitVRLittleEndian,
    JPEGBaseline8Bit,
)
PERSON = {
    "PatientName": "Quixote^Alonso",
    "PatientID": "MANCHA-1605",
    "PatientBirthDate": "15470929",
    "StudyDate": "16050116",
    "StudyDescription": "windmills",
    "InstitutionName": "Posada",
    "ReferringPhysicianName": "Panza^Sancho",
}
"""What must not be told."""


def grey(*shape: int, dtype: str = "u1") -> np.ndarray:
    return np.zeros(shape, dtype)


def write_dicom(
    path: Path,
    modality: str = "CT",
    *,
    frames: int = 1,
    side: int = 16,
    syntax: UID = ExplicitVRLittleEndian,
    **more: Any,
) -> Path:
    """A DICOM file with a patient; `more` are elements by keyword, None leaves one out."""
    image = Dataset()
    given = {
        "SOPClassUID": "1.2.840.10008.5.1.4.1.1.2",
        "SOPInstanceUID": "2.25.1",
        "SeriesInstanceUID": "2.25.3",
        "Modality": modality,
        "Rows": side,
        "Columns": side,
        "NumberOfFrames": frames,
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "PixelRepresentation": 0,
        "BitsAllocated": 8,
        "BitsStored": 8,
        "HighBit": 7,
        **PERSON,
        **more,
    }
    for keyword, value in given.items():
        if value is not None:
            setattr(image, keyword, value)
    pixels = bytes(frames * side * side)
    image.PixelData = encapsulate([pixels]) if syntax.is_compressed and syntax.is_encapsulated else pixels
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = syntax
    image.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    image.file_meta.MediaStorageSOPInstanceUID = "2.25.1"
    image.save_as(path, enforce_file_format=True)
    return path


def write_nifti(path: Path, *shape: int, kind: Any = nibabel.Nifti1Image) -> Path:
    nibabel.save(kind(grey(*shape), np.eye(4)), path)
    return path


def write_tiff(path: Path, *shape: int, **options: Any) -> Path:
    tifffile.imwrite(path, grey(*shape), **{"photometric": "minisblack", **options})
    return path


def changed(path: Path, offset: int, value: bytes) -> Path:
    """The file, with other bytes at a place of it."""
    content = bytearray(path.read_bytes())
    content[offset : offset + len(value)] = value
    path.write_bytes(content)
    return path


def cut(path: Path, size: int) -> Path:
    """The file, of which only the beginning came through."""
    path.write_bytes(path.read_bytes()[:size])
    return path


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def bytes_read(call: Callable[[], object]) -> int:
    """Bytes that the kernel handed to this process meanwhile; what is loaded at first use does not count."""
    call()
    before = _so_far()
    call()
    return _so_far() - before - len(Path("/proc/self/io").read_bytes())


def _so_far() -> int:
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].partition("\n")[0])
