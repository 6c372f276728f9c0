"""An index in bfloat16: another recipe, and queries that need neither torch nor OpenVINO."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered, refused
from samples import Program

from retrieve_cli.assemble.encoders import encoder_to_build
from retrieve_cli.config.settings import EncoderSettings, Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.models.runtimes.devices import why_no_bfloat16
from retrieve_cli.storage.manifest import Manifest

HAS_OPENVINO = importlib.util.find_spec("openvino") and not why_no_bfloat16()
openvino = pytest.param(
    "openvino", marks=pytest.mark.skipif(not HAS_OPENVINO, reason="no openvino, or no bfloat16 instructions")
)
QUERY = """
import sys
from retrieve_cli.cli.main import main
code = main(["query", "outline the pulmonary organs in a tomography", "--json"])
heavy = [name for name in ("torch", "openvino", "onnxruntime") if name in sys.modules]
print(*heavy, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def cache(tmp_path: Path, configure: Configure) -> Path:
    configure("models", cache_dir=tmp_path / "models")
    return tmp_path / "models"


@pytest.mark.parametrize("kind", ["torch", openvino])
def test_an_index_in_bfloat16_has_a_recipe_of_its_own_and_is_queried_in_float32(
    catalog: Path, cache: Path, retrieve: Program, configure: Configure, kind: str
) -> None:
    configure("encoder", kind="onnx")
    plain = retrieve("build", "--catalog", catalog, "--json").json["generation"]
    configure("encoder", kind=kind)
    assert retrieve("sync", "--json").json["generation"] == plain
    configure("encoder", precision="bfloat16")
    assert "precision" in retrieve("sync", "--dry-run").out
    done = retrieve("sync", "--json")
    assert done.code == 0, done.err
    assert done.json["generation"] != plain
    manifest = Manifest.read(Path("artifacts/generations") / done.json["generation"] / "manifest.json")
    assert manifest.recipe.encoder_card.precision == "bfloat16"
    asked = subprocess.run([sys.executable, "-c", QUERY], capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    assert asked.stderr.splitlines()[-1:] == [""]
    answer = json.loads(asked.stdout)
    assert answer["strategies_used"] == ["bm25", "dense"]
    assert answer["results"][0]["doc_id"] == "lungs"


def configured(cache: Path, **keys: Any) -> Settings:
    settings = Settings()
    return replace(settings, encoder=EncoderSettings(**keys), models=replace(settings.models, cache_dir=cache))


def test_a_precision_that_the_kind_lacks_stops_a_build_and_no_query(
    catalog: Path, cache: Path, retrieve: Program, configure: Configure
) -> None:
    configure("encoder", kind="onnx")
    assert retrieve("build", "--catalog", catalog).code == 0
    configure("encoder", precision="bfloat16")
    assert answered(retrieve, "brain", "--mode", "dense")["strategies_used"] == ["dense"]
    assert "`encoder.kind: torch` or `openvino`" in refused(retrieve, "build", "--catalog", catalog)
    with pytest.raises(UsageError):
        encoder_to_build(configured(cache, kind="onnx", precision="bfloat16"))
