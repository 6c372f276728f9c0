"""Only `retrieve models pull`, or `models.auto_download`, ever fetches a model."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cross_models import make_bert
from program.asking import Configure
from samples import Program
from splade_models import save_masked

NAME = "own/tiny"
NEEDS: dict[str, dict[str, object]] = {
    "encoder": {"kind": "auto", "model": NAME},
    "splade": {"model": NAME, "policy": "required"},
    "rerank": {"backend": "cross_encoder", "model": NAME, "max_tokens": 40, "policy": "required"},
}
"""By stage: the settings with which it needs the model that is not here."""
BUILD: list[object] = ["build", "--catalog", "tools.jsonl"]
QUERY: list[object] = ["query", "brain"]
SERVE: list[object] = ["serve", "--encoders", "--port", "0"]
NEEDED_BY = [("encoder", BUILD), ("encoder", SERVE), ("splade", BUILD), ("rerank", QUERY), ("rerank", SERVE)]
"""Stages, each with a command that cannot do without its model, where there is an index of no model."""
COMMANDS: list[list[object]] = [
    BUILD,
    QUERY,
    ["sync"],
    ["doctor"],
    ["models", "verify"],
    ["models", "export"],
]


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an index of no model, and without any model but the default one."""
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "gold.jsonl").write_text('{"query": "brain", "relevant": ["brain"]}\n')


@pytest.fixture
def asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requests that would leave this machine: models of a hub, which has whatever lies in `fetched`, and addresses,
    which cannot be reached."""
    asked: list[str] = []
    look_up = socket.getaddrinfo

    def refuse(*given: Any, **_: Any) -> None:
        asked.append(str(given))
        raise OSError("the network was touched")

    def resolve(host: Any, *rest: Any, **named: Any) -> Any:
        return (look_up if host == "127.0.0.1" else refuse)(host, *rest, **named)

    def snapshot_download(name: str, **_: object) -> str:
        asked.append(name)
        return str(tmp_path / "fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    return asked


@pytest.mark.parametrize("stage", NEEDS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:2])))
def test_no_command_fetches_a_model_by_default(
    index: Path, retrieve: Program, asked_for: list[str], configure: Configure, stage: str, command: list[object]
) -> None:
    configure(stage, **NEEDS[stage])
    retrieve(*command)
    assert asked_for == []


@pytest.mark.parametrize("offline", [False, True], ids=["by default", "offline with auto_download"])
@pytest.mark.parametrize(("stage", "command"), NEEDED_BY)
@pytest.mark.usefixtures("index")
def test_a_missing_model_is_an_error_with_the_command_that_fetches_it(
    retrieve: Program, asked_for: list[str], configure: Configure, monkeypatch, stage: str, command: Any, offline: bool
) -> None:
    configure(stage, **NEEDS[stage])
    if offline:
        configure("models", auto_download="true")
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = retrieve(*command)
    assert done.code == 6
    assert f"The model {NAME} is not on this machine" in done.err
    assert ("unset HF_HUB_OFFLINE" in done.err) is offline
    assert f"retrieve models pull {NAME}" in done.err
    assert asked_for == []


@pytest.mark.parametrize(("stage", "command"), [("encoder", BUILD), ("splade", BUILD), ("rerank", QUERY)])
@pytest.mark.usefixtures("index")
def test_auto_download_fetches_a_missing_model(
    tmp_path: Path, retrieve: Program, asked_for: list[str], configure: Configure, stage: str, command: list[object]
) -> None:
    make: dict[str, Callable[[Path], Any]] = {"encoder": save_masked, "splade": save_masked, "rerank": make_bert}
    make[stage](tmp_path / "fetched")
    configure(stage, **NEEDS[stage])
    configure("models", auto_download="true")
    done = retrieve(*command)
    assert done.code == 0, done.err
    assert set(asked_for) == {NAME}
