"""Only `retrieve models pull`, or `models.auto_download`, ever fetches a model."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cross_models import make_bert
from samples import Program
from splade_models import save_masked

NAME = "own/tiny"
NEEDS = {
    "encoder": {"RETRIEVE_ENCODER__KIND": "auto", "RETRIEVE_ENCODER__MODEL": NAME},
    "splade": {"RETRIEVE_SPLADE__MODEL": NAME, "RETRIEVE_SPLADE__POLICY": "required"},
    "rerank": {
        "RETRIEVE_RERANK__BACKEND": "cross_encoder",
        "RETRIEVE_RERANK__MODEL": NAME,
        "RETRIEVE_RERANK__MAX_TOKENS": "40",
        "RETRIEVE_RERANK__POLICY": "required",
    },
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
    ["query", "brain", "--mode", "dense"],
    ["eval", "--gold", "gold.jsonl"],
    ["doctor"],
    ["inspect", "verify"],
    ["models", "list"],
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
def network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Refuses to leave this machine, and notes every attempt."""
    asked: list[str] = []
    look_up = socket.getaddrinfo

    def refuse(*given: Any, **_: Any) -> None:
        asked.append(str(given))
        raise OSError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **named: (look_up if host == "127.0.0.1" else refuse)(host, *rest, **named),
    )
    return asked


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub that has whatever lies in `fetched`, and notes what it is asked for."""
    asked: list[str] = []

    def snapshot_download(name: str, **_: object) -> str:
        asked.append(name)
        return str(tmp_path / "fetched")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    return asked


def configure(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    for variable, value in NEEDS[stage].items():
        monkeypatch.setenv(variable, value)


@pytest.mark.parametrize("stage", NEEDS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:2])))
def test_no_command_fetches_a_model_by_default(
    index: Path, retrieve: Program, network: list[str], hub: list[str], monkeypatch, stage: str, command: list[object]
) -> None:
    configure(monkeypatch, stage)
    retrieve(*command)
    assert [*network, *hub] == []


@pytest.mark.parametrize(("stage", "command"), NEEDED_BY)
def test_a_missing_model_is_an_error_with_the_command_that_fetches_it(
    index: Path, retrieve: Program, network: list[str], monkeypatch, stage: str, command: list[object]
) -> None:
    configure(monkeypatch, stage)
    done = retrieve(*command)
    assert done.code == 6
    assert f"The model {NAME} is not on this machine" in done.err
    assert f"retrieve models pull {NAME}" in done.err
    assert network == []


@pytest.mark.parametrize(("stage", "command"), [("encoder", BUILD), ("splade", BUILD), ("rerank", QUERY)])
def test_auto_download_fetches_a_missing_model(
    index: Path, tmp_path: Path, retrieve: Program, hub: list[str], monkeypatch, stage: str, command: list[object]
) -> None:
    make: dict[str, Callable[[Path], Any]] = {"encoder": save_masked, "splade": save_masked, "rerank": make_bert}
    make[stage](tmp_path / "fetched")
    configure(monkeypatch, stage)
    monkeypatch.setenv("RETRIEVE_MODELS__AUTO_DOWNLOAD", "true")
    done = retrieve(*command)
    assert done.code == 0, done.err
    assert set(hub) == {NAME}


@pytest.mark.parametrize(("stage", "command"), NEEDED_BY)
def test_offline_forbids_auto_download(
    index: Path, retrieve: Program, network: list[str], hub: list[str], monkeypatch, stage: str, command: list[object]
) -> None:
    configure(monkeypatch, stage)
    monkeypatch.setenv("RETRIEVE_MODELS__AUTO_DOWNLOAD", "true")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = retrieve(*command)
    assert done.code == 6
    assert "unset HF_HUB_OFFLINE" in done.err
    assert f"retrieve models pull {NAME}" in done.err
    assert [*network, *hub] == []
