"""Model servers on loopback, and clients that do not wait between attempts."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models.remote.servers import Api, running
from waiting import PATIENCE_S

from retrieve_cli.models.remote.client import Client

MakeClient = Callable[..., Client]


@pytest.fixture
def api() -> Iterator[Api]:
    """A model server."""
    yield from running()


@pytest.fixture
def elsewhere() -> Iterator[Api]:
    """Another one."""
    yield from running()


@pytest.fixture
def pauses() -> list[float]:
    """The pauses that the clients of `connect` took, in seconds, had they waited."""
    return []


@pytest.fixture
def connect(api: Api, pauses: list[float]) -> Iterator[MakeClient]:
    """Makes clients of `api` that do not try again and do not wait, unless told otherwise."""
    made = []

    def make(base_url: str = "", **settings: Any) -> Client:
        def sleep(_: object, seconds: float) -> None:
            pauses.append(seconds)

        made.append(Client(base_url or api.url, **{"timeout_s": PATIENCE_S, "retries": 0, "sleep": sleep, **settings}))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key of this test alone, in the variable MODEL_KEY; it has what JSON and addresses spell differently."""
    value = f'sk-{secrets.token_urlsafe(12)}/+"{secrets.token_hex(8)}'
    monkeypatch.setenv("MODEL_KEY", value)
    return value


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly, whatever the machine's proxies."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
