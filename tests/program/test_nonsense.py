"""Models behind servers that answer nonsense: an optional step is skipped with its reason, a needed one is an error."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program.asking import Configure, answered, refused
from program.chat_server import said
from program.test_plugins import PARTS, QUESTION, TOYS, Place
from raw_servers import Conversation, Say, serving
from samples import TOOLS, Program
from waiting import PATIENCE_S

from retrieve_cli.contracts import Hit, Query, Ranking
from retrieve_cli.errors import ModelFailed
from retrieve_cli.retrieval.stages.rerank import RerankStage

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def body(content: bytes | Any, *headers: str, status: int = 200) -> Say:
    """A server that always answers this; what is not bytes is sent as JSON."""
    sent = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda talk: talk.answer(sent, "Content-Type: application/json", *headers, status=status)


def scored(change: Callable[[list[dict[str, Any]]], list[Any]]) -> Say:
    """A server that ranks as it should, but for this change of its results."""

    def say(talk: Conversation) -> None:
        count = len(json.loads(talk.asked.body)["documents"])
        rows = [{"index": at, "relevance_score": at / 10} for at in range(count)]
        talk.answer(json.dumps({"results": change(rows)}).encode())

    return say


def first(score: Any) -> Say:
    return scored(lambda rows: [{**rows[0], "relevance_score": score}, *rows[1:]])


def broken_off(talk: Conversation) -> None:
    talk.send(HEAD, b'Content-Length: 999\r\n\r\n{"results": [')
    talk.sock.shutdown(2)


def dripping(*first_parts: bytes) -> Say:
    def say(talk: Conversation) -> None:
        talk.send(*first_parts)
        talk.drip(b"x")

    return say


def vast(talk: Conversation) -> None:
    talk.send(HEAD, b"Content-Length: 134217728\r\n\r\n")
    for _ in range(2048):
        talk.send(b"[" * 65536)


NONSENSE: dict[str, Say] = {
    "scores that are NaN": first(float("nan")),
    "scores that are infinite": first(float("inf")),
    "scores of 5,000 digits": body(b'{"results": [{"index": 0, "relevance_score": ' + b"9" * 5000 + b"}]}"),
    "scores that are texts": first("0.5"),
    "too few": scored(lambda rows: rows[1:]),
    "an index that is not there": scored(lambda rows: [{**rows[0], "index": 10**30}, *rows[1:]]),
    "an HTML page": body(b"<!DOCTYPE html><title>Sign in</title>", "Content-Type: text/html"),
    "an empty body": body(b""),
    "broken JSON": body(b'{"results": [{"index": 0,'),
    "deep JSON": body(b"[" * 1000 + b"]" * 1000),
    "deeper JSON": body(b"[" * 200_000 + b"]" * 200_000),
    "half a surrogate": body(b'{"results": "\\ud800"}'),
    "128 MB": vast,
    "a 400": body({"error": {"message": "no"}}, status=400),
    "a 500": body({"error": {"error": {"error": 1}}}, status=500),
    "a 429 for ages": body(b"later", f"Retry-After: {'9' * 5000}", status=429),
    "a redirect": body(b"", "Location: http://127.0.0.1:9/elsewhere", status=302),
    "a broken connection": broken_off,
    "no HTTP": lambda talk: talk.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "a body that drips": dripping(HEAD, b"\r\n"),
}


@pytest.fixture(autouse=True)
def _directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly."""
    monkeypatch.setenv("NO_PROXY", "*")


def order(answer: dict[str, Any]) -> list[tuple[str, float]]:
    return [(result["id"], result["score"]) for result in answer["results"]]


@pytest.mark.parametrize("say", NONSENSE.values(), ids=NONSENSE)
def test_an_optional_reranker_that_answers_nonsense_leaves_the_fused_order(
    index: Path, retrieve: Program, configure: Configure, say: Say
) -> None:
    fused = answered(retrieve, QUESTION)
    with serving(say) as server:
        configure("rerank", backend="remote", model="bge", base_url=f"{server.url}/v1", retries=0, timeout_s=0.5)
        found = answered(retrieve, QUESTION)
        assert (order(found), found["reranked"]) == (order(fused), False)
        assert server.url in found["strategies_skipped"]["remote"]
        done = retrieve("query", QUESTION)
        assert (done.code, "note: remote is skipped: " in done.err) == (0, True)
        assert "Traceback" not in done.err
        assert "\x1b" not in done.err


@pytest.mark.parametrize("what", ["scores that are NaN", "an empty body", "deep JSON", "a 400", "a 500", "a redirect"])
def test_a_reranker_that_is_needed_and_answers_nonsense_is_an_error(
    index: Path, retrieve: Program, configure: Configure, what: str
) -> None:
    with serving(NONSENSE[what]) as server:
        address = f"{server.url}/v1"
        configure("rerank", backend="remote", model="bge", base_url=address, retries=0, timeout_s=PATIENCE_S)
        for words, policy in ((("--rerank",), "optional"), ((), "required")):
            configure("rerank", policy=policy)
            err = refused(retrieve, "query", QUESTION, *words, code=6 if what == "a 500" else 1)
            assert (server.url in err, "hint: " in err, "bug" in err) == (True, True, False)


@pytest.mark.parametrize("content", ["", "null", "```" + "\n" * 300_000, "[" * 5000, '{"scores": []}', "\ud800"])
def test_an_optional_chat_model_that_says_nonsense_leaves_the_fused_order(
    index: Path, retrieve: Program, configure: Configure, content: str
) -> None:
    fused = answered(retrieve, QUESTION)
    with serving(body(said(content))) as server:
        configure("rerank", backend="llm", model="qwen", base_url=f"{server.url}/v1", retries=0)
        found = answered(retrieve, QUESTION)
        assert order(found) == order(fused)
        assert found["strategies_skipped"].keys() == {"llm"}


# ---------------------------------------------------------------------------------------------- the encoder


def vectors(texts: list[str], dim: int = 16) -> dict[str, Any]:
    rows = [np.random.default_rng(len(text)).normal(size=dim).tolist() for text in texts]
    return {"model": "big", "data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}


def embedding(change: Callable[[dict[str, Any]], Any]) -> Say:
    def say(talk: Conversation) -> None:
        talk.answer(json.dumps(change(vectors(json.loads(talk.asked.body)["input"]))).encode())

    return say


def of_numbers(number: float, dim: int = 16) -> Say:
    """A server whose vectors are one number again and again."""
    return embedding(lambda answer: {**answer, "data": [{"index": 0, "embedding": [number] * dim}]})


OF_RERANKERS = ("scores", "too", "the same", "rows", "an i")
UNFIT: dict[str, Say] = {
    "no vectors": embedding(lambda answer: {**answer, "data": []}),
    "NaN": of_numbers(float("nan")),
    "zeros": of_numbers(0),
    "huge numbers": of_numbers(1e300),
    "another length": of_numbers(1.0, dim=17),
    "another model": embedding(lambda answer: {**answer, "model": "other"}),
    **{name: say for name, say in NONSENSE.items() if not name.startswith(OF_RERANKERS)},
}
Instead = Callable[[Say], AbstractContextManager[None]]


@pytest.fixture
def embedded(catalog: Path, retrieve: Program, configure: Configure) -> Instead:
    """An index whose encoder is a server; from then on, that server says something else."""
    with serving(embedding(lambda answer: answer)) as server:
        configure("encoder", kind="remote", model="big", base_url=f"{server.url}/v1", retries=0)
        assert retrieve("build", "--catalog", catalog).code == 0

    @contextmanager
    def instead(say: Say) -> Iterator[None]:
        with serving(say) as other:
            configure("encoder", base_url=f"{other.url}/v1", timeout_s=0.5)
            yield

    return instead


@pytest.mark.parametrize("say", UNFIT.values(), ids=UNFIT)
def test_a_hybrid_query_whose_encoder_answers_nonsense_is_answered_by_the_others(
    embedded: Instead, retrieve: Program, say: Say
) -> None:
    lexical = answered(retrieve, QUESTION, "--mode", "bm25")
    with embedded(say):
        found = answered(retrieve, QUESTION)
        assert [each for each, _ in order(found)] == [each for each, _ in order(lexical)]
        assert found["strategies_used"] == ["bm25"]
        assert "http://127.0.0.1" in found["strategies_skipped"]["dense"]
        alone = retrieve("query", QUESTION, "--mode", "dense")
        assert alone.code in (1, 5, 6)
        assert "bug" not in alone.err


# ------------------------------------------------------------------------------------------ on this machine


class Fixed:
    """A reader that always gives the same."""

    name = "fixed"

    def __init__(self, given: Any) -> None:
        self._given = given

    def read(self, query: Query, hits: Any) -> Any:
        return self._given


@pytest.mark.parametrize(
    "given",
    [
        [1.0, float("nan")], [1.0], [[1.0], [2.0]], ["1", "2"], [10**400, 1], None,
    ],
    ids=repr,
)  # fmt: skip
def test_scores_that_are_not_one_finite_number_a_hit_are_refused(given: Any) -> None:
    hits = [Hit(id=f"{at}#0", row=at, record=at, score=1.0 - at) for at in range(2)]
    stage = RerankStage(Fixed(given), "fixed", depth=50, keep=10, interpolate=0.6)
    with pytest.raises(ModelFailed, match="fixed gave scores") as caught:
        stage([Ranking.of(Query("q"), hits)])
    assert "rerank.backend" in caught.value.hint


def test_a_plug_in_that_raises_or_gives_too_few_scores_is_skipped_where_it_is_optional(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    text = (TOYS / "parts.py").read_text()
    place.install("parts", PARTS, text)
    place.build()
    fused = place.answer()["results"]
    place.configure(rerank={"backend": "shortest", "interpolate": 1.0})
    for fault, named in (("raise OSError('\\x1b[31m' + query * 99)", "OSError"), ("return np.ones(1)", "shape (1,)")):
        (place.packages / "parts.py").write_text(text.replace("return np.array([-len(passage)", f"{fault}; ([0"))
        done = place("query", QUESTION, "--json")
        assert (done.code, [each["id"] for each in done.json["results"]]) == (0, [each["id"] for each in fused])
        assert named in done.json["strategies_skipped"]["shortest"]
        assert "\x1b" not in done.err
        assert place("query", QUESTION, "--rerank").code == 1
    assert len(fused) == len(TOOLS)
