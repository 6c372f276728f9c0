"""`retrieve doctor --advise`: measures the encoders of a CPU on the index's own texts, and says what to set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import Program, write_catalog

from retrieve_cli.config.loading import load
from retrieve_cli.models.runtimes.model_folder import ModelFolder
from retrieve_cli.operations.doctor.advise import MeasuredEncoder, _verdict
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.store import Store

PAIRS = [("onnx", "float32"), ("openvino", "float32"), ("openvino", "bfloat16"), ("torch", "bfloat16")]
WORDS = "segment lung word the image scan tissue cell volume brain".split()


@pytest.fixture
def tiny(tmp_path: Path, tiny_roberta: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model is the configured one, on a CPU."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    monkeypatch.setenv("RETRIEVE_ENCODER__DEVICE", "cpu")
    monkeypatch.setenv("RETRIEVE_ENCODER__MODEL", str(tiny_roberta.path))
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(tmp_path / "models"))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A catalog of forty records that differ."""
    records = [
        {"id": str(at), "name": f"{WORDS[at % 10]} tool {at}", "description": " ".join(WORDS[at % 7 :])}
        for at in range(40)
    ]
    return write_catalog(tmp_path / "records.jsonl", records)


def test_encoders_are_measured_on_the_texts_of_the_index(tiny: None, records: Path, retrieve: Program) -> None:
    assert retrieve("build", "--catalog", records).code == 0
    done = retrieve("doctor", "--advise", "--json")
    assert done.code == 0, done.err
    advice = done.json["advice"]
    assert (advice["origin"], advice["queries"]) == ("index", 40)
    assert advice["texts"] == len(set(open_texts()))
    tried = {(each["kind"], each["precision"]) for each in [*advice["measured"], *advice["absent"]]}
    assert tried == set(PAIRS)
    default, *others = advice["measured"]
    assert (default["kind"], default["speedup"], default["overlap_at_10"]) == ("onnx", 1, 1)
    for each in others:
        assert each["texts_per_cpu_s"] > 0
        assert 0.999 < each["cosine_min"] <= each["cosine_mean"] <= 1.000001
        assert 0.5 < each["overlap_at_10"] <= 1
    assert all(each["message"] for each in advice["absent"])
    assert set(advice["set"]) in (set(), {"encoder.kind", "encoder.precision"})


def open_texts() -> list[str]:
    with open_generation(Store(Path("artifacts"))) as generation:
        return list(generation.chunk_texts())


def test_the_lines_to_set_are_a_configuration(tiny: None, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = measured("openvino", "bfloat16", 2.0)
    monkeypatch.setattr(
        "retrieve_cli.operations.doctor.advise._compare", lambda *_: [measured("onnx", "float32", 1.0), chosen]
    )
    lines = retrieve("doctor", "--advise").out.splitlines()
    assert any(line.split()[:5] == ["openvino", "bfloat16", "200", "2", "0.99990"] for line in lines)
    place = lines.index("encoder:")
    assert lines[place - 1].startswith("advice: openvino in bfloat16 is 2 times as fast as onnx in float32")
    Path("config.yaml").write_text("\n".join(lines[place:]))
    assert yaml.safe_load(Path("config.yaml").read_text())["encoder"] == {"kind": "openvino", "precision": "bfloat16"}
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    assert load(Path("config.yaml")).encoder.kind == "openvino"


def test_without_an_index_the_texts_are_synthetic(tiny: None, retrieve: Program) -> None:
    advice = retrieve("doctor", "--advise", "--json").json["advice"]
    assert (advice["origin"], advice["texts"], advice["queries"]) == ("synthetic", 256, 100)


def test_nothing_is_measured_unless_it_is_asked_for(index: Path, retrieve: Program) -> None:
    assert "advice" not in retrieve("doctor", "--json").json
    assert "advice" not in retrieve("doctor").out


def measured(kind: str, precision: str, speed: float, cosine: float = 0.9999, overlap: float = 0.99) -> MeasuredEncoder:
    return MeasuredEncoder(kind, precision, 100 * speed, speed, cosine, cosine, overlap)


PLAIN, OPENVINO, FAST = ("onnx", "float32"), ("openvino", "float32"), ("openvino", "bfloat16")
TO_DEFAULT = {"encoder.kind": "auto", "encoder.precision": "auto"}
TO_OPENVINO = {"encoder.kind": "openvino", "encoder.precision": "bfloat16"}


@pytest.mark.parametrize(
    ("others", "current", "message", "keys"),
    [
        ([measured(*FAST, 2)], PLAIN, "2 times as fast as onnx in float32", TO_OPENVINO),
        ([measured(*OPENVINO, 1.2), measured(*FAST, 2)], OPENVINO, "1.67 times as fast as openvino", TO_OPENVINO),
        ([measured(*FAST, 2)], FAST, "nothing to change: openvino in bfloat16", {}),
        ([measured(*FAST, 1.05)], PLAIN, "nothing to change: onnx in float32", {}),
        ([measured(*FAST, 2, cosine=0.9)], PLAIN, "nothing to change: onnx in float32", {}),
        ([measured(*FAST, 2, overlap=0.5)], PLAIN, "nothing to change: onnx in float32", {}),
        ([measured(*FAST, 0.5)], FAST, "onnx in float32 is 2 times as fast as openvino", TO_DEFAULT),
        ([], FAST, "is configured and does not run here", TO_DEFAULT),
    ],
)
def test_the_fastest_is_advised_that_is_near_and_worth_the_change(
    others: list[MeasuredEncoder], current: tuple[str, str], message: str, keys: dict[str, Any]
) -> None:
    said, chosen = _verdict([measured(*PLAIN, 1, cosine=1, overlap=1), *others], current)
    assert message in said
    assert chosen == keys
