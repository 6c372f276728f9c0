"""Catalogs in the spellings that people write."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from samples import DATA, collection, pieces

from retrieve_cli.contracts import Record, Refused
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.catalogs.catalog import CatalogSource
from retrieve_cli.sources.fields import FieldMap, record_from

KNOWN = FieldMap.of({})


def record(item: dict, fields: FieldMap = KNOWN) -> Record:
    made = record_from(item, fields, source="c.jsonl", line=1)
    assert isinstance(made, Record), made
    return made


def read(path: Path) -> list:
    return list(pieces(CatalogSource(path, KNOWN)))


def text_of(made: Record, field: str) -> str:
    return next((piece.text for piece in made.fields if piece.name == field), "")


@pytest.mark.parametrize("key", ["_id", "id", "identifier", "@id"])
def test_the_id_is_known_by_any_of_its_names(key: str) -> None:
    assert record({key: "x1", "name": "X"}).id == "x1"


def test_no_text_is_lost_where_a_record_has_both_a_description_and_a_text() -> None:
    made = record({"name": "T", "description": "short", "text": "long and full"})
    assert made.description == "short"
    assert "long and full" in made.text


def test_the_text_reads_name_description_and_domain_then_format_tokens() -> None:
    item = {"name": "N", "description": "D", "domain": "radiology", "supportingData": {"datasetFormat": "DICOM"}}
    assert record(item).text == "N: D (domain: radiology)\nformat:DICOM"


def test_format_tokens_come_from_formats_modalities_and_dimensions() -> None:
    item = {
        "name": "N",
        "supportingData": [
            {"datasetFormat": ["dcm", "tif"], "hasDimensionality": 3},
            {"imagingModality": "light sheet"},
        ],
    }
    assert record(item).text.splitlines()[-1] == "format:DICOM format:TIFF format:light-sheet format:3D"


def test_a_record_without_an_id_gets_one_from_its_content() -> None:
    one, same, other = ({"b": 1, "name": "N"}, {"name": "N", "b": 1}, {"name": "N", "b": 2})
    assert record(one).id == record(same).id != record(other).id


def test_names_and_ids_that_each_chunk_would_repeat_have_a_longest_length() -> None:
    assert len(record({"name": "n" * 300_000, "description": "d"}).name) == 1000
    assert "the limit is 4,096" in record_from({"id": "i" * 5000, "name": "n"}, KNOWN, source="x.jsonl", line=1)


def test_the_messy_record_as_it_is_published_is_understood() -> None:
    path = DATA / "imaging_record_as_published.jsonl"
    if not path.is_file():
        pytest.skip(f"the published record is not at {path}")
    [made] = read(path)
    assert made.supporting_data["modalities"] == ["CT"]
    assert made.supporting_data["dimensions"] == ["3D"]
    assert made.supporting_data["formats"] == ["TIFF"]
    assert made.supporting_data["demo_url"].startswith("https://huggingface.co/")
    assert text_of(made, "features") == "Segmentation, Object detection, Feature detection"
    assert "https://" not in made.text
    assert made.metadata["isPluginModuleOf"] == "napari"


def test_a_beir_corpus_is_read_as_it_is() -> None:
    folder = collection("biii")
    records = read(folder / "corpus.jsonl")
    assert len(records) == 1323
    assert all(isinstance(made, Record) for made in records)
    assert records[0].metadata["functions"]
    assert "image stitching 1" not in records[0].text


def test_configured_keys_are_mapped_and_weighed() -> None:
    fields = FieldMap.of({"summary": ("description", 3.0), "keywords": ("keywords", 0.0), "notes": ("notes", 0.5)})
    made = record({"name": "N", "summary": "S", "keywords": ["K"], "notes": "extra"}, fields)
    assert {piece.name: piece.weight for piece in made.fields} == {"name": 2.0, "description": 3.0, "notes": 0.5}
    assert "K" not in made.text
    assert "notes: extra" in made.text


def test_a_dotted_key_steps_into_objects() -> None:
    fields = FieldMap.of({"metadata.topics": ("keywords", 1.0)})
    assert record({"name": "N", "metadata": {"topics": ["a", "b"]}}, fields).keywords == ("a", "b")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{broken", "not JSON"),
        (b'"a string"', "not an object"),
        (b'{"id": "x", "name": "  "}', "no text"),
        ('{"name": "é"}'.encode("latin-1"), "not UTF-8"),
        (b'{"name": "a\0b"}', "not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_place(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "good", "name": "Good"}\n\n' + line + b"\n")
    good, refused = read(path)
    assert isinstance(good, Record)
    assert isinstance(refused, Refused)
    assert (refused.source, refused.line) == ("c.jsonl", 3)
    assert reason in refused.reason


@pytest.mark.parametrize(("content", "hint"), [("a\0b", "JSON object per line"), (None, "--docs-dir")])
def test_what_is_no_catalog_is_refused_with_the_way_out(tmp_path: Path, content: str | None, hint: str) -> None:
    path = tmp_path / "c.json"
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(UsageError) as caught:
        CatalogSource(path, KNOWN)
    assert hint in caught.value.hint


LEAVES = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KEYS = st.sampled_from(["id", "name", "description", "keywords", "supportingData", "license", "url", "z"])
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


@given(st.dictionaries(KEYS, JSON))
def test_any_object_gives_a_record_or_a_reason(item: dict) -> None:
    made = record_from(item, KNOWN, source="c", line=1)
    assert isinstance(made, str) or (made.id and made.text.strip() and made.name)


# ------------------------------------------------------------------------------------ licences, modalities, demos


@pytest.mark.parametrize(
    "licence",
    [
        "https://spdx.org/licenses/MIT.html",
        ["The MIT License"],
        {"@id": "http://www.opensource.org/licenses/mit-license.php"},
        {"name": "our licence", "url": "https://opensource.org/licenses/MIT"},
    ],
)
def test_a_licence_is_its_spdx_id_and_the_original_is_kept(licence: object) -> None:
    made = record({"name": "N", "license": licence})
    said = record({"name": "N", "license": licence}).metadata["license_original"]
    assert (made.license, said in str(licence)) == ("MIT", True)


@pytest.mark.parametrize("licence", ["MIT", "GPL-3.0", "BSD", "as is"])
def test_a_licence_that_is_an_id_or_no_known_one_stays_as_it_is(licence: str) -> None:
    made = record({"name": "N", "license": licence})
    assert (made.license, dict(made.metadata)) == (licence, {})


def test_modalities_have_one_name_and_each_of_them_once() -> None:
    made = record({"name": "N", "imagingModality": ["ct", "Computed tomography", "magnetic resonance imaging", "OPT"]})
    assert made.supporting_data["modalities"] == ["CT", "MRI", "OCT"]


@pytest.mark.parametrize(
    ("example", "url"),
    [
        ("https://x.org/demo", "https://x.org/demo"),
        (["see the site", "https://x.org/demo"], "https://x.org/demo"),
        ({"name": "Demo", "url": "https://x.org/demo"}, "https://x.org/demo"),
        ({"name": "Demo", "@id": "https://x.org/demo"}, "https://x.org/demo"),
        ("see the site", None),
        ({"name": "Demo"}, None),
        (5, None),
    ],
)
def test_an_example_to_run_is_an_address_in_any_form(example: object, url: str | None) -> None:
    assert record({"name": "N", "runnableExample": example}).supporting_data["demo_url"] == url
