"""One name for each imaging modality."""

import pytest

from retrieve_cli.contracts.terms.modalities import DICOM_CODES, modality_of
from retrieve_cli.sources.fields import FieldMap, record_from


@pytest.mark.parametrize(
    ("text", "name"),
    [("ct", "CT"), ("CT-scan", "CT"), ("Computed Tomography", "CT"), ("mr", "MRI"),
     ("magnetic resonance imaging", "MRI"),
     ("pet", "PET"), ("positron-emission tomography", "PET"), ("Ultrasound", "US"), ("x-ray", "X-ray"), ("DX", "X-ray"),
     ("Microscopy", "microscopy"), ("functional MRI", "fMRI"), ("optical coherence tomography", "OCT"),
     ("light sheet", None), ("electron microscopy", None), ("", None)],
)  # fmt: skip
def test_a_modality_has_one_name_in_any_spelling(text: str, name: str | None) -> None:
    assert modality_of(text) == name


@pytest.mark.parametrize("code", DICOM_CODES)
def test_the_token_of_a_dicom_file_is_that_of_a_catalog_with_the_same_code(code: str) -> None:
    record = record_from({"name": "N", "imagingModality": code}, FieldMap.of({}), source="c", line=1)
    assert not isinstance(record, str)
    assert f"format:{DICOM_CODES[code]}" in record.text


@pytest.mark.parametrize("name", DICOM_CODES.values())
def test_a_name_stands_for_itself(name: str) -> None:
    assert modality_of(name) in (name, None)
