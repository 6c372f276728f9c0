"""Transports whose environment names no proxy and no certificates, unless a test does."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retrieve_cli.http import addresses
from retrieve_cli.http.limits import HttpFailed
from retrieve_cli.http.transport import Redirect, Transport

VARIABLES = "http_proxy https_proxy all_proxy no_proxy requests_ca_bundle curl_ca_bundle ssl_cert_file netrc".split()


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def anywhere(redirect: Redirect) -> str:
    """Follows five redirects, wherever they lead."""
    if redirect.number > 5:
        raise HttpFailed("it redirects more than 5 times", hint="look")
    return addresses.resolve(redirect.url, redirect.location)


@pytest.fixture
def connect() -> Iterator[Callable[..., Transport]]:
    """Makes transports to a server."""
    made: list[Transport] = []

    def make(server: str, **settings: int) -> Transport:
        made.append(Transport(server, called="the address", follow=anywhere, **settings))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Gives every name these addresses, which no resolver can be told to do; returns the names that are looked up."""

    def to(*known: tuple[str, int]) -> list[str]:
        looked_up: list[str] = []

        def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
            looked_up.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in known]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return looked_up

    return to


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that signs itself, with its key."""
    if not shutil.which("openssl"):
        pytest.skip("the openssl command makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", "key", "-out", "cert"], cwd=folder, check=True, capture_output=True)
    (folder / "pem").write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return folder / "pem"


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    """What a server needs to speak TLS with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
