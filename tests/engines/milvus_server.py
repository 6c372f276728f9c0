"""Servers for tests of the engine Milvus: a real one, 2.3.5, and Milvus Lite, each as a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from told_servers import free_port
from waiting import PATIENCE_S, brought_about

FOLDER = "MILVUS_SERVER_PACKAGE"
"""Environment variable with the folder of the package `milvus`, by default the one that `make test` makes: it is a
server, not a library, and needs no place beside the packages of the program."""
_FOLDER = Path(__file__).parents[2] / "build" / "engines" / "milvus"
_INSTALL = f"pip install --no-deps --target DIR milvus==2.3.5, and set {FOLDER}=DIR"
_INTERVALS = {
    "DATACOORD_SEGMENT_ASSIGNMENTEXPIRATION": "100",
    "INDEXCOORD_SCHEDULER_INTERVAL": "50",
    "PROXY_TIMETICKINTERVAL": "50",
    "QUERYCOORD_CHECKCHANNELINTERVAL": "50",
    "QUERYCOORD_CHECKHANDOFFINTERVAL": "100",
    "QUERYCOORD_CHECKINTERVAL": "50",
    "QUERYCOORD_CHECKSEGMENTINTERVAL": "50",
    "QUERYCOORD_DISTPULLINTERVAL": "50",
}
"""Milliseconds after which the server looks for work: by its own values a generation takes 11 s, by these 3 s."""
_ATTEMPT_S = 5.0
"""Seconds of an attempt to reach a server that may not listen yet: another one follows."""


class MilvusProcess:
    """A server of version 2.3.5 with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ensure(self) -> None:
        """Start the server if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self._starts += 1
            self._process = self._started(self._folder / str(self._starts))
            _wait(self.url, self._process)

    def kill(self) -> None:
        """Kill the server, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _started(self, folder: Path) -> subprocess.Popen[bytes]:
        package = _package()
        if package is None:
            pytest.skip(f"the package milvus is not installed: {_INSTALL}")
        configuration = package.MilvusServerConfig(data_dir=str(folder))
        for key in [key for key in configuration.configurable_items if key.endswith("_port")]:
            configuration.configs[key] = free_port()
        configuration.resolve()
        self.port = int(configuration.get("proxy_port"))
        programs = self._folder / "programs"
        # Three programs are unpacked once, 9 seconds, for all starts.
        package._initialize_data_files(str(programs))
        environment = {
            **os.environ,
            **_INTERVALS,
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(free_port()),
            "MILVUS_RUN_DIR": str(folder / "run"),
            "LD_LIBRARY_PATH": str(programs / "bin"),
        }
        with (folder / "output").open("wb") as output:
            return subprocess.Popen(
                [programs / "bin" / "milvus", "run", "standalone"],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


class LiteProcess(MilvusProcess):
    """Milvus Lite with its data in a folder."""

    def _started(self, folder: Path) -> subprocess.Popen[bytes]:
        if importlib.util.find_spec("milvus_lite") is None:
            pytest.skip("the package milvus-lite is not installed: pip install milvus-lite==3.2.2")
        self.port = free_port()
        folder.mkdir(parents=True)
        arguments = ["--data-dir", str(folder / "data"), "--host", "127.0.0.1", "--port", str(self.port)]
        with (folder / "output").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "milvus_lite", "server", *arguments], stdout=output, stderr=subprocess.STDOUT
            )


def emptied(server: MilvusProcess) -> None:
    """Start a server if it does not run, and drop all its aliases and collections."""
    server.ensure()
    client = _client(server.url)
    try:
        for name in client.list_collections():
            for alias in client.list_aliases(name)["aliases"]:
                client.drop_alias(alias)
            client.drop_collection(name)
    finally:
        client.close()


def collections(server: MilvusProcess) -> dict[str, Callable[[], object]]:
    """Return what drops each collection of a server, with its aliases."""

    def drop(name: str) -> None:
        client = _client(server.url)
        for alias in client.list_aliases(name)["aliases"]:
            client.drop_alias(alias)
        client.drop_collection(name)
        client.close()

    client = _client(server.url)
    names = client.list_collections()
    client.close()
    return {name: partial(drop, name) for name in names}


def _package() -> Any:
    """Return the module `milvus`, from the folder in the environment variable or from those installed."""
    path = Path(os.environ.get(FOLDER, _FOLDER)) / "milvus" / "__init__.py"
    if not path.exists():
        return importlib.import_module("milvus") if importlib.util.find_spec("milvus") else None
    spec = importlib.util.spec_from_file_location("milvus", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _client(url: str, seconds: float = PATIENCE_S) -> Any:
    from retrieve_cli.engines.milvus.server import client_package

    return client_package().MilvusClient(uri=url, timeout=seconds, dedicated=True)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            client = _client(url, _ATTEMPT_S)
            try:
                client.list_collections()
            finally:
                client.close()
        except Exception:  # noqa: BLE001  any failure of the client: it is not ready
            return False
        return True

    brought_about(process, answers, "it answers")
