"""A server of a chat model on loopback, documents of several chunks, and builds that ask it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from facets.chat_model import summarises
from models.remote.servers import Api, running
from samples import Done, Program

from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.store import Store

TOPICS = ("Lungs", "Kidneys", "Cells", "Bones", "Nerves", "Hearts")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly, whatever the machine's proxies."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def api() -> Iterator[Api]:
    for server in running():
        server.respond = summarises
        yield server


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets keys of the section `facets`."""

    def apply(**keys: object) -> None:
        for key, value in keys.items():
            if key == "concurrency":
                monkeypatch.setattr("retrieve_cli.assemble.servers.CONCURRENCY", value)
            else:
                monkeypatch.setenv(f"RETRIEVE_FACETS__{key.upper()}", str(value))

    return apply


@pytest.fixture
def model(api: Api, configure: Callable[..., None]) -> Api:
    """The server, configured; one request at a time, without retries."""
    configure(base_url=api.url, model="qwen", retries=0, concurrency=1)
    return api


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Six documents of one chunk each."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for topic in TOPICS:
        (folder / f"{topic.lower()}.md").write_text(f"# {topic}\n\nAll about {topic} and how Doctors see them.\n")
    return folder


@pytest.fixture
def build(docs: Path, retrieve: Program) -> Callable[..., Done]:
    """Builds the index of the documents."""
    return lambda *flags: retrieve("build", docs, *flags)


def chunks(artifacts: str = "artifacts") -> dict[str, dict[str, Any]]:
    """The stored rows of chunks by id."""
    with open_generation(Store(Path(artifacts))) as generation:
        rows = [dict(generation.chunks[row]) for row in range(len(generation.chunks))]
    return {row["id"]: json.loads(json.dumps(row)) for row in rows}


def facets(artifacts: str = "artifacts") -> dict[str, dict[str, str] | None]:
    """The facets of chunks by id, None without."""
    return {name: row.get("facets") for name, row in chunks(artifacts).items()}
