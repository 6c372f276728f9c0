"""`retrieve serve` with keys and TLS: it answers its callers alone, over https, and never opens by mistake."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from samples import TOOLS, Program
from servers import built, started
from waiting import PATIENCE_S

from retrieve_cli.cli.main import main
from retrieve_cli.errors import UsageError
from retrieve_cli.http.listening import check_pair


def write_pair(folder: Path, *, password: bytes | None = None) -> tuple[Path, Path]:
    """Write a certificate of 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    folder.mkdir(exist_ok=True)
    pem, hidden = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    hidden.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form))
    hidden.chmod(0o600)
    return pem, hidden


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("tls"))


def test_a_certificate_and_its_key_are_accepted(pair: tuple[Path, Path]) -> None:
    assert check_pair(*pair) == pair
    assert check_pair(None, None) is None


def test_a_key_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    said: list[str] = []
    certificate, key = write_pair(tmp_path / "tls")
    check_pair(certificate, key, warn=said.append)
    assert said == []
    key.chmod(0o640)
    check_pair(certificate, key, warn=said.append)
    assert ["chmod 600" in sentence for sentence in said] == [True]


def test_a_pair_that_does_not_serve_is_an_error_before_anything_starts(
    tmp_path: Path, pair: tuple[Path, Path], retrieve: Program
) -> None:
    certificate, key = pair
    other, locked = write_pair(tmp_path / "other")[1], write_pair(tmp_path / "locked", password=b"secret")
    (tmp_path / "text").write_text("not PEM")
    for given, said in (
        ((certificate, None), "--tls-key is missing"),
        ((None, key), "--tls-cert is missing"),
        ((certificate, tmp_path / "none"), "cannot read"),
        ((tmp_path, key), "cannot read"),
        ((certificate, other), "does not belong to"),
        ((tmp_path / "text", key), "is not a certificate"),
        ((certificate, tmp_path / "text"), "private key"),
        (locked, "password"),
    ):
        with pytest.raises(UsageError) as caught:
            check_pair(*given)
        assert said in caught.value.message
    done = retrieve("serve", "--tls-cert", certificate, "--tls-key", other, "--port", "0")
    assert (done.code, "does not belong to" in done.err) == (2, True)


def test_another_address_without_a_key_ends_before_it_listens(retrieve: Program, monkeypatch) -> None:
    for command in (("serve",), ("serve", "--encoders")):
        done = retrieve(*command, "--host", "0.0.0.0", "--port", "0")
        assert (done.code, "--insecure" in done.err) == (2, True)


class Https:
    """Requests to a server whose certificate signs itself."""

    def __init__(self, url: str, certificate: Path) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(ssl_context=ssl.create_default_context(cafile=certificate), retries=False)

    def search(self, key: str | None = None, **headers: str) -> urllib3.BaseHTTPResponse:
        sent = {**headers, **({} if key is None else {"Authorization": f"Bearer {key}"})}
        return self._pool.request("GET", f"{self.url}/search?q=lungs&mode=bm25", headers=sent, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("index"), [{**tool, "tenant": "acme"} for tool in TOOLS])


@pytest.fixture(scope="module")
def secured(artifacts: Path, pair: tuple[Path, Path]) -> Iterator[Https]:
    """A server with two workers, TLS and keys, on loopback."""
    assert main(["keys", "create", "--artifacts", str(artifacts), "-q"]) == 0
    flags = ("--tls-cert", str(pair[0]), "--tls-key", str(pair[1]), "--workers", "2")
    environment = {"RETRIEVE_ENCODER__KIND": "hashed", "REQUESTS_CA_BUNDLE": str(pair[0])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(urllib3, "request", _trusting(pair[0]))
        with started(artifacts, *flags, cwd=artifacts.parent, **environment) as server:
            yield Https(server.url, pair[0])


def _trusting(certificate: Path) -> Any:
    return urllib3.PoolManager(ssl_context=ssl.create_default_context(cafile=certificate)).request


def test_a_running_server_accepts_new_keys_over_https_and_rejects_revoked_ones(
    secured: Https, artifacts: Path, retrieve: Program
) -> None:
    assert secured.url.startswith("https://")
    assert secured.search().status == 401
    made = retrieve("keys", "create", "--artifacts", artifacts, "--tenant", "acme", "--json").json
    answers = [secured.search(made["key"]) for _ in range(4)]
    assert {answer.status for answer in answers} == {200}
    assert answers[0].json()["results"][0]["id"] == "lungs#0"
    assert retrieve("keys", "revoke", "--artifacts", artifacts, made["id"]).code == 0
    assert {secured.search(made["key"]).status for _ in range(4)} == {401}


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        ("nonsense\r\n\r\n", 400),
        ("POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (
            (
                "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                "0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ),
            400,
        ),
    ],
    ids=["answer", "error", "nonsense", "two lengths", "two kinds of length"],
)
def test_every_answer_on_the_wire_keeps_its_type_and_hides_no_second_one(
    secured: Https, pair: tuple[Path, Path], head: str, status: int
) -> None:
    port = int(secured.url.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(pair[0]))
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(head.encode())
        received = b""
        while (piece := connection.recv(65536)) and not (status == 200 and received):
            received += piece
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert received.lower().count(b"x-content-type-options: nosniff") == 1
    assert (b"connection: close" in received.lower()) is (status != 200)


def test_a_running_server_answers_to_its_own_names_alone(secured: Https) -> None:
    assert secured.search(Host="evil.example").status == 421
    assert secured.search(Origin="https://evil.example").status == 403
    port = secured.url.rpartition(":")[2]
    assert secured.search(Host=f"localhost:{port}").status == 401
