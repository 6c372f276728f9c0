"""An encoder behind a server, in the whole program: built, asked, and refused where it is another one."""

import json
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from samples import Program


class _Embeddings(BaseHTTPRequestHandler):
    """Vectors by the words of a text; the server's own fields say of which model and length."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.asked.append((self.headers.get("Authorization"), asked))  # type: ignore[attr-defined]
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        dim = asked.get("dimensions", server.dim)  # type: ignore[attr-defined]
        data = [{"index": at, "embedding": vector(text, dim)} for at, text in enumerate(texts)]
        body = json.dumps({"data": data, "model": server.model}).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def vector(text: str, dim: int) -> list[float]:
    found = np.zeros(dim)
    for word in text.lower().split():
        found += np.random.default_rng(zlib.crc32(word.strip(":.,()").encode())).normal(size=dim)
    return found.tolist()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Embeddings)
    running.model, running.dim, running.asked = "big-one", 32, []  # type: ignore[attr-defined]
    Thread(target=running.serve_forever, daemon=True).start()
    settings = {"KIND": "remote", "MODEL": "big-one", "BASE_URL": f"http://127.0.0.1:{running.server_port}/v1"}
    for key, value in settings.items():
        monkeypatch.setenv(f"RETRIEVE_ENCODER__{key}", value)
    monkeypatch.setenv("RETRIEVE_ENCODER__RETRIES", "0")
    yield running
    running.shutdown()
    running.server_close()


def test_it_builds_and_answers_and_the_card_says_what_the_server_says(
    server: ThreadingHTTPServer, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-key")
    monkeypatch.setenv("RETRIEVE_ENCODER__API_KEY_ENV", "MY_KEY")
    done = retrieve("build", "--catalog", catalog)
    assert done.code == 0, done.err
    manifest = next(Path("artifacts/generations").glob("*/manifest.json")).read_text()
    card = json.loads(manifest)["recipe"]["encoder"]
    assert (card["family"], card["name"], card["dim"]) == ("remote", "big-one", 32)
    found = retrieve("query", "segment lungs in CT", "--mode", "dense", "--json")
    assert found.json["results"][0]["doc_id"] == "lungs"
    assert {key for key, _ in server.asked} == {"Bearer s3cret-key"}  # type: ignore[attr-defined]
    written = "".join(path.read_text(errors="replace") for path in Path("artifacts").rglob("*") if path.is_file())
    assert "s3cret-key" not in written + done.out + done.err + found.out + found.err


def test_another_model_or_length_than_the_indexs_is_refused_with_both_names(
    server: ThreadingHTTPServer, catalog: Path, retrieve: Program
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    server.model = "other-one"  # type: ignore[attr-defined]
    done = retrieve("query", "lungs", "--mode", "dense")
    assert done.code == 5
    assert "big-one" in done.err
    assert "other-one" in done.err
    server.model, server.dim = "big-one", 48  # type: ignore[attr-defined]
    done = retrieve("query", "lungs", "--mode", "dense")
    assert (done.code, "32" in done.err, "48" in done.err) == (5, True, True)


def test_a_key_that_is_not_set_or_a_server_that_is_gone_leaves_the_leg_out(
    server: ThreadingHTTPServer, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    monkeypatch.setenv("RETRIEVE_ENCODER__API_KEY_ENV", "NO_SUCH_KEY")
    done = retrieve("query", "lungs", "--json")
    assert done.code == 0
    assert "NO_SUCH_KEY" in done.json["strategies_skipped"]["dense"]
    monkeypatch.delenv("RETRIEVE_ENCODER__API_KEY_ENV")
    monkeypatch.setenv("RETRIEVE_ENCODER__BASE_URL", "http://127.0.0.1:9/v1")
    assert "dense" in retrieve("query", "lungs", "--json").json["strategies_skipped"]
    monkeypatch.delenv("RETRIEVE_ENCODER__BASE_URL")
    done = retrieve("query", "lungs", "--mode", "dense")
    assert (done.code, "encoder.base_url" in done.err) == (2, True)


def test_dimensions_are_asked_of_the_server_and_part_of_the_index(
    server: ThreadingHTTPServer, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__DIMENSIONS", "16")
    assert retrieve("build", "--catalog", catalog).code == 0
    assert all(asked["dimensions"] == 16 for _, asked in server.asked)  # type: ignore[attr-defined]
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
