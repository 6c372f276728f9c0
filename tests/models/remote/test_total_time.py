"""One timeout for all that an answer takes while somebody waits: attempts, pauses, batches, a second question."""

from threading import Event
from typing import Any

import pytest
from models.remote.servers import Answer, Api, embedder

from retrieve_cli.errors import Unavailable
from retrieve_cli.models.remote.chat import ListwiseSelector
from retrieve_cli.models.remote.client import Client
from retrieve_cli.models.remote.embeddings import RemoteEncoder
from retrieve_cli.models.remote.rerank import RemoteScorer

PASSAGES = [f"passage {number}" for number in range(40)]
SLOW = [Answer(stall=True), Answer(drip=True), Answer(b"busy", 503), Answer(b"[1", sent=1), Answer(drop=True)]


def patient(connect: Any, **settings: Any) -> Client:
    """A client that would try for minutes if nothing bounded it."""
    client: Client = connect(timeout_s=0.5, retries=100, backoff_s=0.1, sleep=Event.wait, **settings)
    return client


@pytest.mark.parametrize("answer", SLOW, ids=str)
def test_reranking_ends_after_its_timeout_however_often_it_would_be_tried_again(
    api: Api, connect: Any, answer: Answer
) -> None:
    api.respond = lambda _: answer
    for form in ("auto", "jina"):
        with pytest.raises(Unavailable):
            RemoteScorer(patient(connect), model="bge", form=form, batch_size=2).score("q", PASSAGES)
    assert len(api.asked) < 100


def test_a_client_that_others_keep_busy_gives_up_after_its_timeout(api: Api, connect: Any) -> None:
    client = patient(connect, concurrency=1)
    with client._slots, pytest.raises(Unavailable, match="too many other requests"):
        RemoteScorer(client, model="bge").score("q", PASSAGES[:1])
    assert api.asked == []


def test_a_chat_model_has_one_timeout_for_both_of_its_answers(api: Api, connect: Any) -> None:
    bad = {"choices": [{"message": {"role": "assistant", "content": "no idea"}}]}
    api.say(bad)
    api.respond = lambda _: Answer(stall=True)
    with pytest.raises(Unavailable, match=r"no complete answer within 0\.5 s"):
        ListwiseSelector(patient(connect), model="qwen").score("q", PASSAGES[:3])
    assert len(api.asked) == 2


def test_the_vector_of_a_query_has_one_timeout_and_passages_have_one_for_each_attempt(api: Api, connect: Any) -> None:
    api.respond = embedder()
    encoder = RemoteEncoder(patient(connect), model="qwen", max_tokens=512)
    assert encoder.card.dim == 8
    stalled = iter(range(3))
    api.respond = lambda asked: Answer(stall=True) if next(stalled, None) is not None else embedder()(asked)
    assert encoder.encode_passages(["a"]).shape == (1, 8)
    api.respond = lambda _: Answer(stall=True)
    before = len(api.asked)
    with pytest.raises(Unavailable, match=r"no complete answer within 0\.5 s"):
        encoder.encode_queries(["a"])
    assert len(api.asked) == before + 1
