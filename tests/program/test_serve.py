"""The encoder server: the clients of this program against it, what it refuses, how it starts and ends."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import urllib3
from cross_models import make_bert
from program.asking import refused
from samples import Program
from servers import serving
from waiting import PATIENCE_S

from retrieve_cli.http.secrets import Secret
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.remote.client import Client, ServerUnavailable
from retrieve_cli.models.remote.embeddings import RemoteEncoder
from retrieve_cli.models.remote.rerank import RemoteScorer
from retrieve_cli.models.rerankers.scorer import CrossScorer
from retrieve_cli.models.runtimes.locate import locate
from retrieve_cli.models.runtimes.model_folder import read_folder
from retrieve_cli.server.http.callers import Callers
from retrieve_cli.server.http.metrics import Metrics
from retrieve_cli.server.http.model_parts import ModelParts
from retrieve_cli.server.http.models import models_app
from retrieve_cli.server.http.requests import Limits

TEXTS = ["segment lungs in CT", "Grüße 細胞 \U0001f600", "שלום", "a\x00b\nc", "[CLS] <s>", "brain " * 400]
PASSAGES = ["the word list", "registration of brain", "a", "細胞 café", "segment the word"]


def encoder_app(
    encoder: Any, scorer: Any, name: str, callers: Callers | None = None, *,
    limits: Limits | None = None, **prefixes: str,
) -> Any:  # fmt: skip
    """A server of these models alone."""
    return models_app(ModelParts(encoder, name, scorer, **prefixes), callers, limits=limits, metrics=Metrics())


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> CrossScorer:
    """A tiny cross-encoder with random weights."""
    folder = make_bert(tmp_path_factory.mktemp("cross") / "tiny-bert")
    return CrossScorer(folder, cache_dir=tmp_path_factory.mktemp("cache"), device="cpu")


@pytest.fixture(scope="module")
def url(scorer: CrossScorer) -> Iterator[str]:
    """A server of the hashed encoder and the tiny cross-encoder, with small limits."""
    limits = Limits(inputs=5, characters=1000, bytes=20_000)
    app = encoder_app(HashedEncoder(64), scorer, "hashed-64", query_prefix="ask: ", limits=limits)
    with serving(app) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(f"{url}/v1", retries=0) as made:
        yield made


def post(address: str, payload: Any, **headers: str) -> urllib3.BaseHTTPResponse:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return urllib3.request("POST", address, body=body, headers=headers, timeout=PATIENCE_S, retries=False)


def get(address: str, **headers: str) -> urllib3.BaseHTTPResponse:
    return urllib3.request("GET", address, headers=headers, timeout=PATIENCE_S, retries=False)


def embed(url: str, **payload: Any) -> Any:
    answer = post(f"{url}/v1/embeddings", payload)
    assert answer.status == 200, answer.data.decode()
    return answer.json()


def vectors(answer: Any) -> np.ndarray:
    return np.array([row["embedding"] for row in answer["data"]], np.float32)


# -------------------------------------------------------------------------------------------- vectors


def test_a_remote_encoder_gives_the_vectors_of_the_local_one(tmp_path: Path) -> None:
    place = locate("default")
    local = OnnxEncoder(read_folder(place.path, name=place.name), cache_dir=tmp_path)
    app = encoder_app(local, None, local.card.name)
    with serving(app) as address, Client(f"{address}/v1") as client:
        remote = RemoteEncoder(client, model=place.name, max_tokens=local.card.max_tokens, tokenizer=place.path)
        assert (remote.card.name, remote.card.dim) == (local.card.name, local.card.dim)
        np.testing.assert_allclose(remote.encode_passages(TEXTS), local.encode_passages(TEXTS), atol=1e-6)
        np.testing.assert_allclose(remote.encode_queries(TEXTS), local.encode_queries(TEXTS), atol=1e-6)
        answer = embed(address, input=["brain " * 400, "brain"])
        assert answer["usage"]["truncated"] == 1


def test_a_client_that_knows_the_prefixes_and_one_that_names_the_kind_get_the_same(url: str, client: Client) -> None:
    local = HashedEncoder(64, query_prefix="ask: ")
    remote = RemoteEncoder(client, model="hashed-64", max_tokens=512, query_prefix="ask: ")
    np.testing.assert_allclose(remote.encode_queries(["lungs"]), local.encode_queries(["lungs"]), atol=1e-6)
    named = vectors(embed(url, input="lungs", input_type="query"))
    assert np.array_equal(named, local.encode_queries(["lungs"]))
    assert np.array_equal(vectors(embed(url, input="lungs", input_type="passage")), local.encode_passages(["lungs"]))
    assert np.array_equal(vectors(embed(url, input="lungs")), local.encode_passages(["lungs"]))
    assert not np.array_equal(named, local.encode_passages(["lungs"]))


def test_the_answer_has_the_form_of_openai(url: str) -> None:
    answer = embed(url, input=["one two", "three"], model="hashed-64", user="me", dimensions=64)
    assert answer["object"] == "list"
    assert answer["model"] == "hashed-64"
    assert [(row["object"], row["index"]) for row in answer["data"]] == [("embedding", 0), ("embedding", 1)]
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3, "truncated": 0}
    packed = embed(url, input=["one two", "three"], encoding_format="base64", model=None)
    unpacked = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in packed["data"]]
    assert np.array_equal(np.array(unpacked), vectors(answer))


class Slow(HashedEncoder):
    """Computes until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(8)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def encode_passages(self, texts):
        self.begun.set()
        self.go_on.wait(PATIENCE_S)
        return super().encode_passages(texts)


def test_health_answers_during_a_computation_and_who_comes_too_many_is_told_to_come_again() -> None:
    slow = Slow()
    with serving(encoder_app(slow, None, "slow", limits=Limits(waiting=1))) as address, ThreadPoolExecutor() as pool:
        first = pool.submit(embed, address, input="a")
        try:
            assert slow.begun.wait(PATIENCE_S)
            assert get(f"{address}/health").status == 200
            second = post(f"{address}/v1/embeddings", {"input": "b"})
            assert (second.status, second.headers["Retry-After"]) == (503, "1")
        finally:
            slow.go_on.set()
        assert len(first.result()["data"]) == 1


class Broken(HashedEncoder):
    def encode_passages(self, texts):
        if texts == ["nan"]:
            return np.full((1, 8), np.nan, np.float32)
        raise ZeroDivisionError("the secret of it")


def test_a_failure_of_the_model_is_an_error_object_and_the_server_lives_on() -> None:
    with serving(encoder_app(Broken(8), None, "broken")) as address:
        for text, code in [("x", "internal"), ("nan", "not_finite"), ("x", "internal")]:
            answer = post(f"{address}/v1/embeddings", {"input": text})
            assert (answer.status, answer.json()["error"]["code"]) == (500, code)
            assert "secret" not in answer.data.decode()
            assert answer.headers.get("Connection") == ("close" if code == "internal" else None)


# --------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("form", ["auto", "jina", "tei"])
def test_a_remote_scorer_gives_the_scores_of_the_local_one(client: Client, scorer: CrossScorer, form: Any) -> None:
    remote = RemoteScorer(client, model=scorer.name, form=form, batch_size=4).score("segment lungs", PASSAGES)
    np.testing.assert_allclose(remote, scorer.score("segment lungs", PASSAGES), atol=1e-5)


def test_a_rerank_answer_is_in_the_form_that_was_asked(url: str, scorer: CrossScorer) -> None:
    best = [int(place) for place in np.argsort(-scorer.score("word", PASSAGES), kind="stable")]
    documents = [{"text": PASSAGES[0]}, *PASSAGES[1:]]
    asked = {"query": "word", "documents": documents, "top_n": 2, "return_documents": True}
    jina = post(f"{url}/v1/rerank", asked).json()
    assert jina["model"] == scorer.name
    assert [row["index"] for row in jina["results"]] == best[:2]
    assert jina["results"][0]["document"] == {"text": PASSAGES[best[0]]}
    tei = post(f"{url}/rerank", {"query": "word", "texts": PASSAGES, "return_text": True}).json()
    assert [(row["index"], row["text"]) for row in tei] == [(place, PASSAGES[place]) for place in best]
    assert tei[0].keys() == {"index", "score", "text"}


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("payload", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        ({}, 400, "`input`"),
        ({"input": ["a", 7]}, 400, "place 1"),
        ({"input": ["x"] * 6}, 413, "the limit is 5"),
        ({"input": "x" * 30_000}, 413, "20000 bytes"),
        ({"input": "x", "model": "other"}, 404, "“other” is not served; this server has hashed-64"),
        ({"input": "x", "encoding_format": "int8"}, 400, "float or base64"),
        ({"input": "x", "imput_type": "query"}, 400, "known keys:"),
    ],
)
def test_an_embeddings_request_that_cannot_be_answered_is_told_why(
    url: str, payload: Any, status: int, said: str
) -> None:
    answer = post(f"{url}/v1/embeddings", payload)
    assert answer.status == status
    error = answer.json()["error"]
    assert said in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"documents": ["d"]}, "`query`"),
        ({"query": "q", "documents": [{"title": "d"}]}, "place 0"),
        ({"query": "q", "documents": ["d"], "top_n": 0}, "`top_n`"),
        ({"query": "q", "texts": ["d"], "top_n": 1}, "“top_n” is unknown"),
    ],
)
def test_a_rerank_request_that_cannot_be_answered_is_told_why(url: str, payload: Any, said: str) -> None:
    answer = post(f"{url}/v1/rerank", payload)
    assert answer.status == 400
    assert said in answer.json()["error"]["message"]


def test_other_places_and_methods_are_error_objects_too(url: str, scorer: CrossScorer) -> None:
    for answer, status in [(post(f"{url}/v1/chat", {}), 404), (get(f"{url}/v1/embeddings"), 405)]:
        assert (answer.status, answer.json()["error"]["type"]) == (status, "invalid_request_error")
    listed = get(f"{url}/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["hashed-64", scorer.name]


def test_a_key_opens_everything_but_health_and_nothing_opens_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHT", "sk-right")
    monkeypatch.setenv("WRONG", "sk-wrong")
    with serving(encoder_app(HashedEncoder(8), None, "h", Callers(Secret("sk-right")))) as address:
        assert get(f"{address}/health").status == 200
        for header in ("", "sk-right", "Bearer", "Bearer sk-righ", "Basic sk-right", "Bearer sk-right\xe9"):
            answer = post(f"{address}/v1/embeddings", b"{", Authorization=header)
            assert (answer.status, answer.headers["WWW-Authenticate"].split()[0]) == (401, "Bearer")
            assert "sk-" not in answer.data.decode()
        for place in ("v1/models", "metrics"):
            assert get(f"{address}/{place}").status == 401
            assert get(f"{address}/{place}", Authorization="Bearer sk-right").status == 200
        with Client(f"{address}/v1", api_key_env="RIGHT") as right:
            assert RemoteEncoder(right, model="h", max_tokens=9).encode_queries(["x"]).shape == (1, 8)
        with Client(f"{address}/v1", api_key_env="WRONG") as wrong, pytest.raises(ServerUnavailable, match="401"):
            RemoteEncoder(wrong, model="h", max_tokens=9).encode_queries(["x"])


# ------------------------------------------------------------------------------------------ the command


class Process(subprocess.Popen[str]):
    """`retrieve serve --encoders` at a free port."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        # A shell's background job ignores SIGINT, and so would what it starts.
        heeded = signal.signal(signal.SIGINT, signal.default_int_handler)
        command = [sys.executable, "-W", "error", "-m", "retrieve_cli", "serve", "--encoders", "--port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        super().__init__([*command, *arguments], text=True, env={**os.environ, **environment}, **pipes)
        signal.signal(signal.SIGINT, heeded)

    def ready(self) -> Any:
        """Wait for the line that says under which address it serves, as JSON."""
        assert self.stdout is not None
        line = self.stdout.readline()
        assert line, self.communicate()[1]
        return json.loads(line)

    def ended(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Return the exit code after a signal, and what was still written on stdout and stderr."""
        self.send_signal(number)
        out, err = self.communicate(timeout=PATIENCE_S)
        return self.returncode, out, err


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    begun: list[Process] = []

    def run(*arguments: str, **environment: str) -> Process:
        begun.append(Process(*arguments, **environment))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_says_when_it_is_ready_and_ends_when_it_is_told_to(start: Start, number: signal.Signals, code: int) -> None:
    process = start("--json", "--api-key-env", "KEY", KEY="sk-hidden")
    said = process.ready()
    assert (said["model"], said["reranker"]) == ("hashed-512", None)
    answer = post(f"{said['url']}/embeddings", {"input": "x"}, Authorization="Bearer sk-hidden")
    assert len(answer.json()["data"][0]["embedding"]) == 512
    *ended, err = process.ended(number)
    assert ended == [code, ""]
    assert "sk-hidden" not in err
    assert (err == "") == (code == 0)


GRACE = "--grace takes 0 to 3600 seconds"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--encoders", "--api-key-env", "NOT_SET"), 6, "NOT_SET"),
        (("--encoders", "--port", "70000"), 2, "65535"),
        *((("--encoders", "--grace", text), 2, GRACE) for text in ("soon", "-1", "nan", "1h")),
        (("--encoders", "--host", "192.0.2.1", "--insecure"), 1, "cannot listen at 192.0.2.1, port 8100"),
    ],
)
def test_what_cannot_be_served_is_said(retrieve: Program, arguments: tuple[str, ...], code: int, said: str) -> None:
    assert said in refused(retrieve, "serve", *arguments, code=code)


def test_a_missing_package_is_one_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError('no uvicorn', name='uvicorn')")
    process = start(PYTHONPATH=str(tmp_path))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 6
    assert err.splitlines() == [
        "error: the server needs fastapi, prometheus-client and uvicorn; uvicorn is not installed",
        "hint: pip install 'retrieve-cli[serve]'",
    ]


def test_the_configured_models_are_served_with_their_prefixes(
    start: Start, tmp_path: Path, scorer: CrossScorer
) -> None:
    folder = str(scorer._folder.path)
    config = {
        "models": {"cache_dir": str(tmp_path / "cache")},
        "encoder": {"kind": "onnx", "query_prefix": "ask: "},
        "rerank": {"backend": "cross_encoder", "model": folder, "device": "cpu", "max_tokens": 40},
    }
    Path("served.yaml").write_text(json.dumps(config))
    said = start("--json", "--config", "served.yaml", RETRIEVE_ENCODER__KIND="onnx").ready()
    url = said["url"].removesuffix("/v1")
    whole, named = vectors(embed(url, input="ask: lungs")), vectors(embed(url, input="lungs", input_type="query"))
    np.testing.assert_allclose(named, whole, atol=1e-6)
    with Client(said["url"]) as client:
        found = RemoteScorer(client, model=said["reranker"]).score("segment", PASSAGES)
    np.testing.assert_allclose(found, scorer.score("segment", PASSAGES), atol=1e-5)
