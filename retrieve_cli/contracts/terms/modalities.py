"""Names of imaging modalities: one name for all spellings in a file's header, in a catalog and in queries."""

from __future__ import annotations

import re
from collections.abc import Mapping

DICOM_CODES: Mapping[str, str] = {
    "CT": "CT",
    "MR": "MRI",
    "PT": "PET",
    "NM": "nuclear-medicine",
    "US": "US",
    "IVUS": "US",
    "BDUS": "US",
    "CR": "X-ray",
    "DX": "X-ray",
    "RG": "X-ray",
    "RF": "X-ray",
    "XA": "X-ray",
    "IO": "X-ray",
    "PX": "X-ray",
    "MG": "mammography",
    "OP": "fundus-photography",
    "OPT": "OCT",
    "IVOCT": "OCT",
    "SM": "histopathology",
    "GM": "microscopy",
    "ES": "endoscopy",
    "XC": "photography",
    "ECG": "ECG",
    "EEG": "EEG",
    "SEG": "segmentation",
    "REG": "registration",
    "SR": "structured-report",
    "RTDOSE": "RTDOSE",
    "RTIMAGE": "RTIMAGE",
    "RTPLAN": "RTPLAN",
    "RTSTRUCT": "RTSTRUCT",
}
"""DICOM codes (PS3.3, C.7.3.1.1.1), with the names in common use."""

_SPELLINGS: Mapping[str, str] = {
    "CT": "ct scan|cat scan|x ray ct|computed tomography|computerized tomography|computerised tomography"
    "|x ray computed tomography|computed axial tomography",
    "MRI": "mri|mr imaging|mri scan|magnetic resonance|magnetic resonance imaging|nuclear magnetic resonance imaging",
    "fMRI": "fmri|functional mri|functional magnetic resonance imaging",
    "dMRI": "dmri|dwi|diffusion mri|diffusion weighted imaging|diffusion weighted mri"
    "|diffusion magnetic resonance imaging",
    "PET": "pet|pet scan|positron emission tomography",
    "SPECT": "spect|single photon emission computed tomography",
    "US": "ultrasound|ultrasound imaging|ultrasonography|sonography|medical ultrasound",
    "X-ray": "x ray|xray|x rays|xr|x ray imaging|x ray radiography|radiography|radiograph|plain radiography"
    "|projectional radiography|digital radiography|computed radiography",
    "mammography": "mammography|mammogram",
    "OCT": "oct|optical coherence tomography",
    "histopathology": "histopathology|whole slide imaging|whole slide image|wsi",
    "microscopy": "microscopy",
    "endoscopy": "endoscopy",
    "photography": "photography",
    "ECG": "ekg|electrocardiography|electrocardiogram",
    "EEG": "electroencephalography|electroencephalogram",
    "MEG": "meg|magnetoencephalography",
    "fNIRS": "fnirs|functional near infrared spectroscopy",
    "micro-CT": "micro ct|microct|micro computed tomography",
}
_NAMES: Mapping[str, str] = {
    **{code.casefold(): name for code, name in DICOM_CODES.items()},
    **{spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings.split("|")},
}
_BETWEEN = re.compile(r"[\s_-]+")


def modality_of(text: str) -> str | None:
    """Return the canonical name of a modality; None if the text is not a known spelling of one."""
    return _NAMES.get(_BETWEEN.sub(" ", text.strip().casefold()))
